"""The readers of a service, as its configuration names them.

[[reader]]
name = "analytics"
token-file = "/run/secrets/analytics"
namespaces = ["sales", "default"]

[oidc]
issuer = "https://login.example.com/"
audience = "hudi"
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hudi_bridge.connectors.iceberg.access import EVERYTHING, Access, Issuer, Reader, read_secret
from hudi_bridge.errors import QueryError

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
    from hudi_bridge.connectors.iceberg.oidc import issuer_of  # noqa: PLC0415

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
    if not all(isinstance(one, str) and one for one in values):
        raise QueryError(name, repr(values), "a list of texts")
    return values
