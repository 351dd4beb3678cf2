"""Which clients get which credentials: by the place of a table, with that of its scratch folder.

Source: ``LoadTableResult``, ``LoadCredentialsResponse`` and ``StorageCredential`` of the Iceberg REST catalog
specification; ``AwsClientProperties`` and ``VendedCredentialsProvider`` of Iceberg, for refreshing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from hudi_bridge.connectors.iceberg.storage_credentials import (
    CredentialsSource,
    StorageCredentials,
    is_below,
    is_in_s3,
)

VENDED = "vended-credentials"
DELEGATION = "X-Iceberg-Access-Delegation"
_REFRESH = "client.refresh-credentials-endpoint"
_ALL_OF_S3 = "s3"


@dataclass(frozen=True, slots=True, kw_only=True)
class VendingRule:
    """The source of credentials for tables below a prefix; None if clients have their own.

    ``properties`` tell clients how the store is reached.
    """

    prefix: str
    source: CredentialsSource | None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vended:
    """The credentials of a client for a table, and the prefix of the URIs that they are for."""

    prefix: str
    credentials: StorageCredentials
    properties: Mapping[str, str]

    def config(self, endpoint: str) -> Mapping[str, str]:
        """The properties of a loaded table; ``endpoint`` is where a client gets new credentials."""
        # Clients that ask there want credentials which end.
        again = {} if self.credentials.expires_at is None else {_REFRESH: endpoint}
        return {**self._properties, **again}

    def storage_credentials(self) -> Sequence[Mapping[str, Any]]:
        """The ``storage-credentials`` of an answer: one, since clients in Java refuse to renew several."""
        return [{"prefix": self.prefix, "config": self._properties}]

    @property
    def _properties(self) -> Mapping[str, str]:
        return {**self.properties, **self.credentials.properties}


@dataclass(frozen=True, slots=True)
class Vending:
    """The rules of a service; of several prefixes, the longest counts."""

    rules: tuple[VendingRule, ...]

    def for_table(self, table: str, scratch: str) -> Vended | None:
        """Credentials that open a table and its scratch folder, given by the URIs that clients know.

        None if no rule has the table, or its rule says so.

        Raises:
            CredentialsUnavailableError: they cannot be had at the moment.
            CredentialsRefusedError: they cannot be had as the service is configured.
        """
        fitting = [rule for rule in self.rules if is_below(table, rule.prefix)]
        rule = max(fitting, key=lambda one: len(one.prefix), default=None)
        if rule is None or rule.source is None:
            return None
        places = tuple(uri for uri in (table, scratch) if is_in_s3(uri))
        credentials = rule.source.credentials_for(places)
        return Vended(prefix=_common_prefix(places), credentials=credentials, properties=rule.properties)


def asks_for_credentials(header: str | None) -> bool:
    """Whether a client asks for credentials, by the header ``X-Iceberg-Access-Delegation``."""
    return VENDED in {part.strip().lower() for part in (header or "").split(",")}


def _common_prefix(places: Sequence[str]) -> str:
    """What all the URIs of some folders, and of all that is in them, begin with."""
    by_depth = zip(*(place.split("/") for place in places), strict=False)
    common = takewhile(lambda parts: len(set(parts)) == 1, by_depth)
    return "".join(f"{parts[0]}/" for parts in common) or _ALL_OF_S3
