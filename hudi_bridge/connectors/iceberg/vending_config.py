"""The storage credentials that clients may get, as the configuration of a service names them.

[[credentials]]
prefix = "s3://lake/"
kind = "sts"
region = "eu-west-1"
role = "arn:aws:iam::123456789012:role/lake-reader"
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hudi_bridge.connectors.iceberg.renewed_credentials import RenewedCredentials
from hudi_bridge.connectors.iceberg.static_credentials import StaticCredentials
from hudi_bridge.connectors.iceberg.storage_credentials import (
    SCHEMES,
    CredentialsSource,
    KeySecrets,
    Secret,
    is_in_s3,
)
from hudi_bridge.connectors.iceberg.vending import Vending, VendingRule
from hudi_bridge.errors import QueryError

CREDENTIALS = "credentials"
_KINDS = ("static", "sts", "none")
_PARTS = ("access-key-id", "secret-access-key", "session-token")
_SECRETS = tuple(f"{part}-{place}" for part in _PARTS for place in ("file", "env"))
_COMMON: Mapping[str, type] = {"prefix": str, "kind": str}
_OF_STORE: Mapping[str, type] = {"region": str, "endpoint": str, "path-style-access": bool}
_OF_KIND: Mapping[str, Mapping[str, type]] = {
    "none": _COMMON,
    "static": {**_COMMON, **_OF_STORE, **dict.fromkeys(_SECRETS, str)},
    "sts": {
        **_COMMON,
        **_OF_STORE,
        **dict.fromkeys(_SECRETS, str),
        "role": str,
        "external-id": str,
        "session-seconds": int,
        "sts-endpoint": str,
        "kms-keys": list,
    },
}
_NAMES = {"region": "client.region", "endpoint": "s3.endpoint", "path-style-access": "s3.path-style-access"}
_ROLE = re.compile(r"arn:[a-z0-9-]+:iam::[^:]*:role/.+")
_KMS_KEY = re.compile(r"arn:[a-z0-9-]+:kms:[^:*?$]+:[^:*?$]+:key/[^*?$]+")
_SHORTEST, _USUAL, _LONGEST = 900, 3600, 43_200


def vending_of(document: Mapping[str, Any]) -> Vending | None:
    """The rules of a configuration; None if it has none.

    Raises:
        QueryError: the configuration is not understood, or a secret is not there.
        ModuleNotFoundError: a role is named, and boto3 is not installed.
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
    kinds = _OF_KIND[table["kind"]]
    for name, value in table.items():
        if name not in kinds:
            raise QueryError(f"{CREDENTIALS}.{name}", "an option that there is not", f"one of {', '.join(kinds)}")
        # No value is shown: it may be a secret in a wrong place.
        if type(value) is not kinds[name] or value == "":
            raise QueryError(f"{CREDENTIALS}.{name}", f"a value of type {type(value).__name__}", kinds[name].__name__)
    prefix = _needed(table, "prefix").rstrip("/")
    if not is_in_s3(f"{prefix}/") or not prefix.partition("://")[2] or {"?", "@"} & set(prefix):
        raise QueryError(f"{CREDENTIALS}.prefix", "another one", f"a URI without secrets of {', '.join(SCHEMES)}")
    for name in ("endpoint", "sts-endpoint"):
        if not table.get(name, "https://").startswith(("http://", "https://")):
            raise QueryError(f"{CREDENTIALS}.{name}", "another address", "https:// or http://")
    if table["kind"] == "none":
        return VendingRule(prefix=prefix, source=None)
    _needed(table, "region")
    properties = {_NAMES[name]: _text(table[name]) for name in _OF_STORE if name in table}
    source = _static(table) if table["kind"] == "static" else _assumed(table)
    return VendingRule(prefix=prefix, source=source, properties=properties)


def _static(table: Mapping[str, Any]) -> CredentialsSource:
    keys = _keys(table)
    if keys is None:
        raise QueryError(
            f"{CREDENTIALS} of kind static", "no key", f"{_PARTS[0]}-file or -env, {_PARTS[1]}-file or -env"
        )
    return StaticCredentials(keys)


def _assumed(table: Mapping[str, Any]) -> CredentialsSource:
    # Needs boto3, which services without roles do without.
    from hudi_bridge.connectors.iceberg.assumed_roles import AssumedRole  # noqa: PLC0415

    role, seconds = _needed(table, "role"), table.get("session-seconds", _USUAL)
    if not _ROLE.fullmatch(role):
        raise QueryError(f"{CREDENTIALS}.role", repr(role), "an ARN such as arn:aws:iam::123456789012:role/lake-reader")
    if not _SHORTEST <= seconds <= _LONGEST:
        raise QueryError(f"{CREDENTIALS}.session-seconds", str(seconds), f"{_SHORTEST} to {_LONGEST}")
    kms_keys = table.get("kms-keys", ())
    if not all(isinstance(one, str) and _KMS_KEY.fullmatch(one) for one in kms_keys):
        expected = "ARNs such as arn:aws:kms:eu-west-1:123456789012:key/of-the-lake"
        raise QueryError(f"{CREDENTIALS}.kms-keys", repr(kms_keys), expected)
    return RenewedCredentials(
        AssumedRole(
            role,
            region=table["region"],
            session_seconds=seconds,
            external_id=table.get("external-id"),
            endpoint=table.get("sts-endpoint"),
            keys=_keys(table),
            kms_keys=kms_keys,
        )
    )


def _keys(table: Mapping[str, Any]) -> KeySecrets | None:
    """The places of a key; None if the configuration names none.

    Raises:
        QueryError: there is only a part of a key, or it is not there.
    """
    access_key_id, secret_access_key, session_token = (_secret(table, part) for part in _PARTS)
    if access_key_id is None and secret_access_key is None and session_token is None:
        return None
    if access_key_id is None or secret_access_key is None:
        raise QueryError(CREDENTIALS, "a part of a key", f"{_PARTS[0]} and {_PARTS[1]}")
    keys = KeySecrets(access_key_id=access_key_id, secret_access_key=secret_access_key, session_token=session_token)
    for secret in (access_key_id, secret_access_key, session_token):
        if secret is not None:
            secret.read()
    return keys


def _secret(table: Mapping[str, Any], part: str) -> Secret | None:
    file, variable = table.get(f"{part}-file"), table.get(f"{part}-env")
    if file is not None and variable is not None:
        raise QueryError(f"{CREDENTIALS}.{part}", "two places", f"{part}-file or {part}-env")
    if file is not None:
        return Secret(option=f"{CREDENTIALS}.{part}-file", file=Path(file))
    return None if variable is None else Secret(option=f"{CREDENTIALS}.{part}-env", variable=variable)


def _needed(table: Mapping[str, Any], name: str) -> str:
    if name not in table:
        raise QueryError(f"{CREDENTIALS}.{name}", "nothing", "a text")
    text: str = table[name]
    return text


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
