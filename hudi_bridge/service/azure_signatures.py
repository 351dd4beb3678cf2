"""Shared access signatures of Azure Data Lake Storage, each for reading one folder and nothing else.

Clients of Iceberg take one signature for each account, and a signature opens one directory. A table and a scratch
folder in one account would need a signature for all that lies beside them, so this is refused.

Source: "Create a service SAS" of Microsoft; ``AzureProperties`` and ``VendedAdlsCredentialProvider`` of Iceberg.
"""

import base64
import time
from datetime import UTC, datetime

from hudi_bridge.common.imports import needing_extra
from hudi_bridge.errors import QueryError
from hudi_bridge.service.credential_kinds import AzurePlace
from hudi_bridge.service.credentials import CredentialsRefusedError, Places, Secret, StorageCredentials

with needing_extra("azure", "azure", by="credentials for Azure"):
    from azure.storage.filedatalake import generate_directory_sas, generate_file_system_sas

_READ = "r"


class AzureSignatures:
    """Signatures with the keys of the account of the tables, and of the account of the scratch folder."""

    def __init__(self, account: str, *, key: Secret, scratch_key: Secret | None, seconds: int) -> None:
        """``account`` has the tables; ``scratch_key`` is the key of any other account. Signatures
        hold for ``seconds``.
        """
        self._account = account
        self._key = key
        self._scratch_key = scratch_key
        self._seconds = seconds

    def credentials_for(self, places: Places) -> StorageCredentials:
        """A new signature for each place.

        Raises:
            CredentialsRefusedError: two places are in one account, or there is no key of an account.
        """
        folders = [AzurePlace.of(uri) for uri in places]
        accounts = [folder.account for folder in folders]
        if len(set(accounts)) < len(accounts):
            raise CredentialsRefusedError(
                f"the table and its scratch folder are in one account of Azure, {self._account}: a signature opens one "
                "directory, and clients take one for each account. Let the scratch folder be in another account, with "
                "scratch-account-key-file or -env, or in another kind of store"
            )
        made_at = time.time()
        # The text of a signature has whole seconds.
        expires_at = int(made_at) + self._seconds
        properties = {}
        for folder in folders:
            properties[f"adls.sas-token.{folder.host}"] = _signature(folder, self._key_of(folder.account), expires_at)
            properties[f"adls.sas-token-expires-at-ms.{folder.host}"] = str(1000 * expires_at)
        return StorageCredentials(properties=properties, made_at=made_at, expires_at=float(expires_at))

    def _key_of(self, account: str) -> str:
        secret = self._key if account == self._account else self._scratch_key
        if secret is None:
            raise CredentialsRefusedError(
                f"the scratch folder is in the account {account} of Azure, whose key no option names: "
                "scratch-account-key-file or -env"
            )
        try:
            return account_key(secret)
        except QueryError as error:
            raise CredentialsRefusedError(str(error)) from None


def account_key(secret: Secret) -> str:
    """The key of a storage account.

    Raises:
        QueryError: there is no valid key in the place; the text does not quote it.
    """
    key = secret.read()
    try:
        base64.b64decode(key, validate=True)
    except ValueError:
        raise QueryError(secret.option, "a place with no key in base64", "the key of a storage account") from None
    return key


def _signature(folder: AzurePlace, key: str, expires_at: int) -> str:
    expiry = datetime.fromtimestamp(expires_at, UTC)
    if not folder.folder:
        return generate_file_system_sas(
            folder.account, folder.container, key, permission=_READ, expiry=expiry, protocol="https"
        )
    return generate_directory_sas(
        folder.account, folder.container, folder.folder, key, permission=_READ, expiry=expiry, protocol="https"
    )
