"""Which clients get which credentials: by the place of a table, with that of its scratch folder.

Source: ``LoadTableResult``, ``LoadCredentialsResponse`` and ``StorageCredential`` of the Iceberg REST catalog
specification.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hudi_bridge.connectors.iceberg.storage_credentials import (
    CredentialsSource,
    StorageCredentials,
    is_below,
)
from hudi_bridge.connectors.iceberg.stores import Store

VENDED = "vended-credentials"
DELEGATION = "X-Iceberg-Access-Delegation"


@dataclass(frozen=True, slots=True, kw_only=True)
class VendingRule:
    """The source of credentials for tables below a prefix; None if clients have their own.

    ``properties`` tell clients how the store is reached.
    """

    prefix: str
    store: Store
    source: CredentialsSource | None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vended:
    """The credentials of a client for a table, and the prefixes of the URIs that they are for."""

    store: Store
    prefixes: tuple[str, ...]
    credentials: StorageCredentials
    properties: Mapping[str, str]

    def config(self, endpoint: str) -> Mapping[str, str]:
        """The properties of a loaded table; ``endpoint`` is where a client gets new credentials."""
        # Clients that ask there want credentials which end.
        again = {} if self.credentials.expires_at is None else {self.store.refresh: endpoint}
        return {**self._properties, **again}

    def storage_credentials(self) -> Sequence[Mapping[str, Any]]:
        """The ``storage-credentials`` of an answer."""
        return [{"prefix": prefix, "config": self._properties} for prefix in self.prefixes]

    @property
    def _properties(self) -> Mapping[str, str]:
        return {**self.properties, **self.credentials.properties}


@dataclass(frozen=True, slots=True)
class Vending:
    """The rules of a service; of several prefixes, the longest counts."""

    rules: tuple[VendingRule, ...]

    def for_table(self, table: str, scratch: str) -> Vended | None:
        """Credentials that open a table and, in the same kind of store, its scratch folder, by the URIs clients know.

        None if no rule has the table, or its rule says so.

        Raises:
            CredentialsUnavailableError: they cannot be had at the moment.
            CredentialsRefusedError: they cannot be had as the service is configured.
        """
        fitting = [rule for rule in self.rules if is_below(table, rule.prefix)]
        rule = max(fitting, key=lambda one: len(one.prefix), default=None)
        if rule is None or rule.source is None:
            return None
        places = tuple(uri for uri in (table, scratch) if rule.store.has(uri))
        return Vended(
            store=rule.store,
            prefixes=rule.store.prefixes(places),
            credentials=rule.source.credentials_for(places),
            properties=rule.properties,
        )


def asks_for_credentials(header: str | None) -> bool:
    """Whether a client asks for credentials, by the header ``X-Iceberg-Access-Delegation``."""
    return VENDED in {part.strip().lower() for part in (header or "").split(",")}
