"""Credentials for Google Cloud Storage, as the configuration of a service names them.

[[credentials]]
prefix = "gs://lake/"
kind = "gcs"
service-account-file = "/etc/hudi-bridge/secrets/lake-reader.json"
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hudi_bridge.connectors.iceberg.renewed_credentials import RenewedCredentials
from hudi_bridge.connectors.iceberg.storage_credentials import CredentialsRefusedError, CredentialsSource
from hudi_bridge.connectors.iceberg.stores import GCS
from hudi_bridge.connectors.iceberg.vending_options import CREDENTIALS, Kind
from hudi_bridge.errors import QueryError

_FILE = "service-account-file"


def _narrowed(table: Mapping[str, Any]) -> CredentialsSource:
    # Needs google-auth, which services without a store of Google do without.
    from hudi_bridge.connectors.iceberg.gcs_tokens import GcsTokens  # noqa: PLC0415
    from hudi_bridge.connectors.iceberg.google_tokens import GoogleTokens, service_account  # noqa: PLC0415

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
