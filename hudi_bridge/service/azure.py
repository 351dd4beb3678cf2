"""Credentials for Azure Data Lake Storage, as the configuration of a service names them, and folders by their URIs.

    [[credentials]]
    prefix = "abfss://tables@lake.dfs.core.windows.net/"
    kind = "azure"
    account-key-file = "/etc/hudi-bridge/secrets/lake"
    scratch-account-key-file = "/etc/hudi-bridge/secrets/scratch"

Source: "Use the Azure Data Lake Storage URI" of Microsoft; ``ADLSLocation`` of Iceberg, which does not decode names.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from hudi_bridge.errors import QueryError
from hudi_bridge.service.credentials import (
    AZURE,
    CREDENTIALS,
    CredentialsRefusedError,
    CredentialsSource,
    Kind,
    RenewedCredentials,
    places_of_secrets,
    secret,
    session_seconds,
)

_PLACE = re.compile(
    r"[a-z]+://(?P<container>[a-z0-9$-]+)@(?P<host>(?P<account>[a-z0-9]+)\.[a-z0-9.-]+)(/(?P<folder>.*))?", re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzurePlace:
    """A folder; ``folder`` is empty for a whole container. ``host`` is what clients know the account by."""

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
        match = _PLACE.fullmatch(uri)
        if match is None:
            raise CredentialsRefusedError("a folder in Azure whose URI is not abfss://CONTAINER@ACCOUNT.HOST/FOLDER")
        return cls(
            account=match["account"],
            host=match["host"],
            container=match["container"],
            folder=(match["folder"] or "").strip("/"),
        )


_KEY, _SCRATCH_KEY = "account-key", "scratch-account-key"


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
