"""What clients of the service read the storage with, for a while: made for some places, and never shown.

Source: ``StorageCredential`` and the properties of ``LoadTableResult`` in the Iceberg REST catalog specification.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

from hudi_bridge.errors import QueryError

Places: TypeAlias = tuple[str, ...]
"""URIs of folders in a store, as clients know them."""


class CredentialsUnavailableError(Exception):
    """Raised if credentials cannot be had at the moment; the text is for the log."""


class CredentialsRefusedError(Exception):
    """Raised if credentials cannot be had as the service is configured; the text is for the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageCredentials:
    """Properties by which a client opens the storage, with their times in seconds since the epoch.

    Without ``expires_at``, they hold until somebody ends them.
    """

    properties: Mapping[str, str] = field(repr=False)
    made_at: float
    expires_at: float | None


class CredentialsSource(Protocol):
    """Somebody who makes credentials. Thread-safe."""

    def credentials_for(self, places: Places) -> StorageCredentials:
        """Credentials that open at least these places.

        Raises:
            CredentialsUnavailableError: they cannot be had at the moment.
            CredentialsRefusedError: they cannot be had as the service is configured.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """The place of a secret, which is read each time that it is needed, so that it can be changed.

    ``option`` is what has named the place.
    """

    option: str
    file: Path | None = None
    variable: str | None = None

    def read(self) -> str:
        """The secret.

        Raises:
            QueryError: there is none in the place; the message is for the operator.
        """
        place = f"the environment variable {self.variable}" if self.file is None else str(self.file)
        try:
            text = os.environ.get(self.variable or "", "") if self.file is None else self.file.read_text("ascii")
        except (OSError, ValueError):
            # What has been read must be in no message.
            text = ""
        secret = text.strip()
        if not secret or not secret.isascii() or not secret.isprintable():
            raise QueryError(self.option, f"{place}, which has none", "a secret of one line")
        return secret


def is_below(uri: str, prefix: str) -> bool:
    """Whether a URI is that of a folder or of something in it."""
    return f"{uri}/".startswith(f"{prefix.rstrip('/')}/")
