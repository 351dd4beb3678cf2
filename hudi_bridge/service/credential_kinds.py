"""The kinds of credentials that the configuration of a service may name, by store.

S3 has sessions of a role (``sts``), or a key (``static``), which is the same for all tables and clients: it opens what
its owner may open, and does not expire by itself. Azure Data Lake Storage has signatures by the key of an account, and
Google Cloud Storage narrowed tokens of a service account:

    [[credentials]]
    prefix = "s3://lake/"
    kind = "sts"
    region = "eu-west-1"
    role = "arn:aws:iam::123456789012:role/lake-reader"

    [[credentials]]
    prefix = "abfss://tables@lake.dfs.core.windows.net/"
    kind = "azure"
    account-key-file = "/etc/hudi-bridge/secrets/lake"
    scratch-account-key-file = "/etc/hudi-bridge/secrets/scratch"

    [[credentials]]
    prefix = "gs://lake/"
    kind = "gcs"
    service-account-file = "/etc/hudi-bridge/secrets/lake-reader.json"

The libraries of the stores are imported for the kinds that are named.

Source: "Use the Azure Data Lake Storage URI" of Microsoft; ``ADLSLocation`` of Iceberg, which does not decode names.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hudi_bridge.errors import QueryError
from hudi_bridge.service.credentials import (
    AZURE,
    CREDENTIALS,
    GCS,
    S3,
    CredentialsRefusedError,
    CredentialsSource,
    Kind,
    Places,
    RenewedCredentials,
    Secret,
    StorageCredentials,
    needed,
    places_of_secrets,
    secret,
    session_seconds,
)

_PARTS = ("access-key-id", "secret-access-key", "session-token")
_OF_STORE: Mapping[str, type] = {"region": str, "endpoint": str, "path-style-access": bool}
_SHOWN = {"region": "client.region", "endpoint": "s3.endpoint", "path-style-access": "s3.path-style-access"}
_ROLE = re.compile(r"arn:[a-z0-9-]+:iam::[^:]*:role/.+")
_KMS_KEY = re.compile(r"arn:[a-z0-9-]+:kms:[^:*?$]+:[^:*?$]+:key/[^*?$]+")
_FOLDER_URI = re.compile(
    r"[a-z]+://(?P<container>[a-z0-9$-]+)@(?P<host>(?P<account>[a-z0-9]+)\.[a-z0-9.-]+)(/(?P<folder>.*))?", re.DOTALL
)
_KEY, _SCRATCH_KEY = "account-key", "scratch-account-key"
_FILE = "service-account-file"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySecrets:
    """The places of the parts of an S3 key."""

    access_key_id: Secret
    secret_access_key: Secret
    session_token: Secret | None = None

    def read(self) -> tuple[str, str, str | None]:
        """The access key id, the secret access key and the session token.

        Raises:
            CredentialsRefusedError: one of them is missing.
        """
        try:
            token = None if self.session_token is None else self.session_token.read()
            return self.access_key_id.read(), self.secret_access_key.read(), token
        except QueryError as error:
            raise CredentialsRefusedError(str(error)) from None


def key_properties(access_key_id: str, secret_access_key: str, session_token: str | None) -> Mapping[str, str]:
    """A key of S3 as clients get it."""
    token = {} if session_token is None else {"s3.session-token": session_token}
    return {"s3.access-key-id": access_key_id, "s3.secret-access-key": secret_access_key} | token


@dataclass(frozen=True, slots=True, kw_only=True)
class AzurePlace:
    """A folder; ``folder`` is empty for a whole container. ``host`` is the name of the account for clients."""

    account: str
    host: str
    container: str
    folder: str

    @classmethod
    def of(cls, uri: str) -> Self:
        """The folder of a URI such as ``abfss://container@account.dfs.core.windows.net/folder``.

        Raises:
            CredentialsRefusedError: the URI is of another form.
        """
        match = _FOLDER_URI.fullmatch(uri)
        if match is None:
            raise CredentialsRefusedError("a folder in Azure whose URI is not abfss://CONTAINER@ACCOUNT.HOST/FOLDER")
        return cls(
            account=match["account"],
            host=match["host"],
            container=match["container"],
            folder=(match["folder"] or "").strip("/"),
        )


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """The key that is in some files or environment variables at the moment."""

    keys: KeySecrets

    def credentials_for(self, places: Places) -> StorageCredentials:  # noqa: ARG002 - the same for all
        """The key.

        Raises:
            CredentialsRefusedError: it is not there.
        """
        return StorageCredentials(properties=key_properties(*self.keys.read()), made_at=time.time(), expires_at=None)


def _static(table: Mapping[str, Any]) -> CredentialsSource:
    keys = _keys(table)
    if keys is None:
        raise QueryError(
            f"{CREDENTIALS} of kind static", "no key", f"{_PARTS[0]}-file or -env, {_PARTS[1]}-file or -env"
        )
    return StaticCredentials(keys)


def _assumed(table: Mapping[str, Any]) -> CredentialsSource:
    # Needs boto3, which services without roles do without.
    from hudi_bridge.service.assumed_roles import AssumedRole  # noqa: PLC0415

    role, seconds = needed(table, "role"), session_seconds(table)
    if not _ROLE.fullmatch(role):
        raise QueryError(f"{CREDENTIALS}.role", repr(role), "an ARN such as arn:aws:iam::123456789012:role/lake-reader")
    kms_keys = table.get("kms-keys", ())
    if not all(isinstance(key, str) and _KMS_KEY.fullmatch(key) for key in kms_keys):
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
    access_key_id, secret_access_key, session_token = (secret(table, part) for part in _PARTS)
    if access_key_id is None and secret_access_key is None and session_token is None:
        return None
    if access_key_id is None or secret_access_key is None:
        raise QueryError(CREDENTIALS, "a part of a key", f"{_PARTS[0]} and {_PARTS[1]}")
    keys = KeySecrets(access_key_id=access_key_id, secret_access_key=secret_access_key, session_token=session_token)
    for part_of_key in (access_key_id, secret_access_key, session_token):
        if part_of_key is not None:
            part_of_key.read()
    return keys


STATIC = Kind(
    stores=(S3,),
    options={**_OF_STORE, **places_of_secrets(*_PARTS)},
    shown=_SHOWN,
    needed=("region",),
    source=_static,
)


STS = Kind(
    stores=(S3,),
    options={
        **STATIC.options,
        "role": str,
        "external-id": str,
        "session-seconds": int,
        "sts-endpoint": str,
        "kms-keys": list,
    },
    shown=_SHOWN,
    needed=("region",),
    source=_assumed,
)


def _signed(table: Mapping[str, Any]) -> CredentialsSource:
    # Needs a library of Azure, which services without a store of Azure do without.
    from hudi_bridge.service.azure_signatures import AzureSignatures, account_key  # noqa: PLC0415

    key, scratch_key = secret(table, _KEY), secret(table, _SCRATCH_KEY)
    if key is None:
        raise QueryError(f"{CREDENTIALS} of kind azure", "no key", f"{_KEY}-file or {_KEY}-env")
    for given in (key, scratch_key):
        if given is not None:
            account_key(given)
    account = AzurePlace.of(table["prefix"]).account
    return RenewedCredentials(
        AzureSignatures(account, key=key, scratch_key=scratch_key, seconds=session_seconds(table))
    )


SIGNED = Kind(
    stores=(AZURE,),
    options={**places_of_secrets(_KEY, _SCRATCH_KEY), "session-seconds": int},
    source=_signed,
)


def _narrowed(table: Mapping[str, Any]) -> CredentialsSource:
    # Needs google-auth, which services without a store of Google do without.
    from hudi_bridge.service.google_tokens import (  # noqa: PLC0415
        GcsTokens,
        GoogleTokens,
        service_account,
    )

    file = Path(table[_FILE]) if _FILE in table else None
    if file is not None:
        try:
            service_account(file)
        except CredentialsRefusedError as error:
            raise QueryError(f"{CREDENTIALS}.{_FILE}", str(error), "the key of a service account, as JSON") from None
    return RenewedCredentials(GcsTokens(GoogleTokens(file), sts_endpoint=table.get("sts-endpoint")))


NARROWED = Kind(
    stores=(GCS,),
    options={"project-id": str, "endpoint": str, _FILE: str, "sts-endpoint": str},
    shown={"project-id": "gcs.project-id", "endpoint": "gcs.service.host"},
    source=_narrowed,
)
