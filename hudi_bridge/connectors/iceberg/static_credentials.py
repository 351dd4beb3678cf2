"""One key for all places and all clients: it opens what its owner may open, and does not expire by itself."""

import time
from dataclasses import dataclass

from hudi_bridge.connectors.iceberg.s3_keys import KeySecrets, key_properties
from hudi_bridge.connectors.iceberg.storage_credentials import Places, StorageCredentials


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
