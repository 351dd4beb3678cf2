"""The configuration of a service: its readers, and the storage credentials that clients may get.

[[reader]]
name = "analytics"
token-file = "/run/secrets/analytics"
namespaces = ["sales", "default"]

[oidc]
issuer = "https://login.example.com/"
audience = "hudi"

[[credentials]]
prefix = "s3://lake/"
kind = "sts"
region = "eu-west-1"
role = "arn:aws:iam::123456789012:role/lake-reader"
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hudi_bridge.errors import QueryError
from hudi_bridge.service.access import EVERYTHING, Access, Issuer, Reader, read_secret
from hudi_bridge.service.credential_kinds import NARROWED, SIGNED, STATIC, STS
from hudi_bridge.service.credentials import CREDENTIALS, STORES, Kind, Store, Vending, VendingRule, needed

READER, OIDC = "reader", "oidc"
_OF_READER: Mapping[str, type] = {"name": str, "token-file": str, "client-secret-file": str, "namespaces": list}
_OF_OIDC: Mapping[str, type] = {
    "issuer": str,
    "audience": str,
    "scopes": list,
    "namespaces-claim": str,
    "jwks": str,
}


def access_of(document: Mapping[str, Any]) -> Access | None:
    """The readers of a configuration; None if it names none.

    The client id of a reader with ``client-secret-file`` is its name.

    Raises:
        QueryError: the configuration is not understood, or a file cannot be read.
        ModuleNotFoundError: an issuer is named, and the extra ``serve`` is not installed.
    """
    readers = document.get(READER, [])
    if not isinstance(readers, list):
        raise QueryError(READER, "one table", "tables [[reader]]")
    if not readers and OIDC not in document:
        return None
    tokens: dict[str, Reader] = {}
    clients: dict[str, tuple[str, Reader]] = {}
    for given in readers:
        table = _checked(READER, given, _OF_READER, ("name",))
        reader = Reader.of(table["name"], _texts("namespaces", table.get("namespaces", [EVERYTHING])))
        if not {"token-file", "client-secret-file"} & table.keys():
            raise QueryError(f"reader {reader.name!r}", "no secret", "token-file or client-secret-file")
        if "token-file" in table:
            token = read_secret("token-file", Path(table["token-file"]))
            if token in tokens:
                raise QueryError(f"reader {reader.name!r}", "the token of another reader", "a token of its own")
            tokens[token] = reader
        if "client-secret-file" in table:
            if reader.name in clients:
                raise QueryError("reader", f"two of the name {reader.name!r}", "names that differ")
            secret = read_secret("client-secret-file", Path(table["client-secret-file"]))
            clients[reader.name] = secret, reader
    return Access(tokens=tokens, clients=clients, issuer=_issuer(document))


def _issuer(document: Mapping[str, Any]) -> Issuer | None:
    if OIDC not in document:
        return None
    # Needs an extra that services without an issuer do without.
    from hudi_bridge.service.oidc import issuer_of  # noqa: PLC0415

    table = _checked(OIDC, document[OIDC], _OF_OIDC, ("issuer", "audience"))
    _texts("scopes", table.get("scopes", []))
    return issuer_of(table)


def _checked(name: str, table: Any, kinds: Mapping[str, type], needed: tuple[str, ...]) -> Mapping[str, Any]:  # noqa: ANN401 - TOML
    if not isinstance(table, Mapping):
        raise QueryError(name, "no table", f"a table with {', '.join(kinds)}")
    for key, value in table.items():
        if key not in kinds or not isinstance(value, kinds[key]):
            raise QueryError(f"{name}.{key}", repr(value), f"one of {', '.join(kinds)}, as text or a list of texts")
    for key in needed:
        if not table.get(key):
            raise QueryError(f"{name}.{key}", "nothing", "a text")
    return table


def _texts(name: str, values: list[Any]) -> list[str]:
    if not all(isinstance(value, str) and value for value in values):
        raise QueryError(name, repr(values), "a list of texts")
    return values


_KINDS: Mapping[str, Kind] = {
    "static": STATIC,
    "sts": STS,
    "gcs": NARROWED,
    "azure": SIGNED,
    "none": Kind(stores=STORES, options={}, source=lambda _: None),
}
_COMMON: Mapping[str, type] = {"prefix": str, "kind": str}


def vending_of(document: Mapping[str, Any]) -> Vending | None:
    """The rules of a configuration; None if it has none.

    Raises:
        QueryError: the configuration is not understood, or a secret is not there.
        ModuleNotFoundError: the package that a kind of credentials needs is not installed.
    """
    if CREDENTIALS not in document:
        return None
    tables = document[CREDENTIALS]
    if not isinstance(tables, list):
        raise QueryError(CREDENTIALS, "one table", f"tables [[{CREDENTIALS}]]")
    rules = tuple(_rule(table) for table in tables)
    prefixes = [rule.prefix for rule in rules]
    for prefix in prefixes:
        if prefixes.count(prefix) > 1:
            raise QueryError(f"{CREDENTIALS}.prefix", f"two of {prefix}", "prefixes that differ")
    return Vending(rules)


def _rule(table: Any) -> VendingRule:  # noqa: ANN401 - TOML
    if not isinstance(table, Mapping) or table.get("kind") not in _KINDS:
        raise QueryError(f"{CREDENTIALS}.kind", "another one, or none", f"one of {', '.join(_KINDS)}")
    kind = _KINDS[table["kind"]]
    options = {**_COMMON, **kind.options}
    for name, value in table.items():
        if name not in options:
            raise QueryError(f"{CREDENTIALS}.{name}", "an option that there is not", f"one of {', '.join(options)}")
        # No value is shown: it may be a secret in a wrong place.
        if type(value) is not options[name] or value == "":
            raise QueryError(f"{CREDENTIALS}.{name}", f"a value of type {type(value).__name__}", options[name].__name__)
    prefix = needed(table, "prefix").rstrip("/")
    store = _store(prefix, kind)
    for name in ("endpoint", "sts-endpoint"):
        if not table.get(name, "https://").startswith(("http://", "https://")):
            raise QueryError(f"{CREDENTIALS}.{name}", "another address", "https:// or http://")
    for name in kind.needed:
        needed(table, name)
    properties = {shown: _text(table[option]) for option, shown in kind.shown.items() if option in table}
    return VendingRule(prefix=prefix, store=store, source=kind.source(table), properties=properties)


def _store(prefix: str, kind: Kind) -> Store:
    """The store of a prefix.

    Raises:
        QueryError: the kind of credentials is for other stores, or the prefix may have secrets.
    """
    for store in kind.stores:
        if store.has_form(prefix):
            return store
    expected = ", ".join(store.example for store in kind.stores)
    raise QueryError(f"{CREDENTIALS}.prefix", "another one", f"a URI without secrets such as {expected}")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
