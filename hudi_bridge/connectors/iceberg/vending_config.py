"""The storage credentials that clients may get, as the configuration of a service names them.

[[credentials]]
prefix = "s3://lake/"
kind = "sts"
region = "eu-west-1"
role = "arn:aws:iam::123456789012:role/lake-reader"
"""

from collections.abc import Mapping
from typing import Any

from hudi_bridge.connectors.iceberg import azure_vending, gcs_vending, s3_vending
from hudi_bridge.connectors.iceberg.stores import STORES, Store
from hudi_bridge.connectors.iceberg.vending import Vending, VendingRule
from hudi_bridge.connectors.iceberg.vending_options import CREDENTIALS, Kind, needed
from hudi_bridge.errors import QueryError

_KINDS: Mapping[str, Kind] = {
    "static": s3_vending.STATIC,
    "sts": s3_vending.STS,
    "gcs": gcs_vending.NARROWED,
    "azure": azure_vending.SIGNED,
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
    properties = {theirs: _text(table[ours]) for ours, theirs in kind.shown.items() if ours in table}
    return VendingRule(prefix=prefix, store=store, source=kind.source(table), properties=properties)


def _store(prefix: str, kind: Kind) -> Store:
    """The store of a prefix.

    Raises:
        QueryError: the kind of credentials is for other stores, or the prefix may have secrets.
    """
    for store in kind.stores:
        if store.has_form(prefix):
            return store
    expected = ", ".join(one.example for one in kind.stores)
    raise QueryError(f"{CREDENTIALS}.prefix", "another one", f"a URI without secrets such as {expected}")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
