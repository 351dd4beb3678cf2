"""Keys of S3: where their parts are, and how clients get them."""

from collections.abc import Mapping
from dataclasses import dataclass

from hudi_bridge.connectors.iceberg.storage_credentials import CredentialsRefusedError, Secret
from hudi_bridge.errors import QueryError


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySecrets:
    """The places of the parts of a key of S3."""

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
