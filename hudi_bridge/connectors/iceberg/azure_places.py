"""Folders of Azure Data Lake Storage by their URIs.

Source: "Use the Azure Data Lake Storage URI" of Microsoft; ``ADLSLocation`` of Iceberg, which takes names as they are.
"""

import re
from dataclasses import dataclass
from typing import Self

from hudi_bridge.connectors.iceberg.storage_credentials import CredentialsRefusedError

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
        found = _PLACE.fullmatch(uri)
        if found is None:
            raise CredentialsRefusedError("a folder in Azure whose URI is not abfss://CONTAINER@ACCOUNT.HOST/FOLDER")
        return cls(
            account=found["account"],
            host=found["host"],
            container=found["container"],
            folder=(found["folder"] or "").strip("/"),
        )
