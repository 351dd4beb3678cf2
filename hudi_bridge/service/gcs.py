"""Credentials for Google Cloud Storage, as the configuration of a service names them.

[[credentials]]
prefix = "gs://lake/"
kind = "gcs"
service-account-file = "/etc/hudi-bridge/secrets/lake-reader.json"
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hudi_bridge.errors import QueryError
from hudi_bridge.service.credentials import (
    CREDENTIALS,
    GCS,
    CredentialsRefusedError,
    CredentialsSource,
    Kind,
    RenewedCredentials,
)

_FILE = "service-account-file"


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
