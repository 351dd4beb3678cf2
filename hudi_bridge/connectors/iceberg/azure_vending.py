"""Credentials for Azure Data Lake Storage, as the configuration of a service names them.

[[credentials]]
prefix = "abfss://tables@lake.dfs.core.windows.net/"
kind = "azure"
account-key-file = "/etc/hudi-bridge/secrets/lake"
scratch-account-key-file = "/etc/hudi-bridge/secrets/scratch"
"""

from collections.abc import Mapping
from typing import Any

from hudi_bridge.connectors.iceberg.azure_places import AzurePlace
from hudi_bridge.connectors.iceberg.renewed_credentials import RenewedCredentials
from hudi_bridge.connectors.iceberg.storage_credentials import CredentialsSource
from hudi_bridge.connectors.iceberg.stores import AZURE
from hudi_bridge.connectors.iceberg.vending_options import (
    CREDENTIALS,
    Kind,
    places_of_secrets,
    secret,
    session_seconds,
)
from hudi_bridge.errors import QueryError

_KEY, _SCRATCH_KEY = "account-key", "scratch-account-key"


def _signed(table: Mapping[str, Any]) -> CredentialsSource:
    # Needs a library of Azure, which services without a store of Azure do without.
    from hudi_bridge.connectors.iceberg.azure_signatures import AzureSignatures, account_key  # noqa: PLC0415

    key, scratch_key = secret(table, _KEY), secret(table, _SCRATCH_KEY)
    if key is None:
        raise QueryError(f"{CREDENTIALS} of kind azure", "no key", f"{_KEY}-file or {_KEY}-env")
    for one in (key, scratch_key):
        if one is not None:
            account_key(one)
    account = AzurePlace.of(table["prefix"]).account
    return RenewedCredentials(
        AzureSignatures(account, key=key, scratch_key=scratch_key, seconds=session_seconds(table))
    )


SIGNED = Kind(
    stores=(AZURE,),
    options={**places_of_secrets(_KEY, _SCRATCH_KEY), "session-seconds": int},
    source=_signed,
)
