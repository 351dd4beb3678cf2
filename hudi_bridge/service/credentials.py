"""Temporary credentials with which clients of the service read the storage.

They are made for the folder of a table and its scratch folder, and never shown. Clients share them until half of their
time is over, so that each client has at least the other half: clients of Iceberg in Java ask again five minutes before
the end, and STS gives at least fifteen.

Source: ``LoadTableResult``, ``LoadCredentialsResponse`` and ``StorageCredential`` of the Iceberg REST catalog
specification; ``S3FileIO``, ``GCSFileIO`` and ``ADLSFileIO`` of Iceberg, which choose credentials by the prefix of a
URI; ``AwsClientProperties``, ``GCPProperties`` and ``AzureProperties``, for refreshing.
"""

import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, TypeAlias

from hudi_bridge.errors import QueryError

Places: TypeAlias = tuple[str, ...]
"""URIs of folders in a store, as clients know them."""


class CredentialsUnavailableError(Exception):
    """Raised if credentials are not available at the moment; the text is for the log."""


class CredentialsRefusedError(Exception):
    """Raised if the service's configuration does not allow credentials; the text is for the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageCredentials:
    """Properties with which a client opens the storage, with their times in seconds since the epoch.

    Without ``expires_at``, they are valid until they are revoked.
    """

    properties: Mapping[str, str] = field(repr=False)
    made_at: float
    expires_at: float | None


class CredentialsSource(Protocol):
    """A source of credentials. Thread-safe."""

    def credentials_for(self, places: Places) -> StorageCredentials:
        """Credentials that open at least these places.

        Raises:
            CredentialsUnavailableError: they are not available at the moment.
            CredentialsRefusedError: the configuration does not allow them.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """The place of a secret, which is read each time that it is needed, so that it can be changed.

    ``option`` is the option with the place.
    """

    option: str
    file: Path | None = None
    variable: str | None = None

    def read(self) -> str:
        """The secret.

        Raises:
            QueryError: there is none in the place; the message is for the operator.
        """
        source = f"the environment variable {self.variable}" if self.file is None else str(self.file)
        try:
            text = os.environ.get(self.variable or "", "") if self.file is None else self.file.read_text("ascii")
        except (OSError, ValueError):
            # No message may contain what was read.
            text = ""
        secret = text.strip()
        if not secret or not secret.isascii() or not secret.isprintable():
            raise QueryError(self.option, f"{source}, which has none", "a secret of one line")
        return secret


def is_below(uri: str, prefix: str) -> bool:
    """Whether a URI names a folder or something in it."""
    return f"{uri}/".startswith(f"{prefix.rstrip('/')}/")


def _common(places: Sequence[str]) -> str:
    """What all the URIs of some folders, and of all that is in them, begin with; empty if there is nothing."""
    by_depth = zip(*(uri.split("/") for uri in places), strict=False)
    common = takewhile(lambda parts: len(set(parts)) == 1, by_depth)
    return "".join(f"{parts[0]}/" for parts in common)


def _one_prefix(all_of_store: str) -> Callable[[Sequence[str]], tuple[str, ...]]:
    """One prefix for all places: clients in Java refuse to renew credentials of several."""
    return lambda places: (_common(places) or all_of_store,)


def _prefix_of_each(places: Sequence[str]) -> tuple[str, ...]:
    """A prefix for each place: clients in Java look for the prefix with the account, and each
    place has its own account.
    """
    return tuple(_common((uri,)) for uri in places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A kind of store.

    ``form`` is the form of the URIs of folders after the scheme, as an example. ``refresh`` is the property with the
    address of new credentials for clients; ``prefixes`` returns the prefixes under which they look up the credentials
    of some places.
    """

    schemes: tuple[str, ...]
    form: str
    example: str
    refresh: str
    prefixes: Callable[[Sequence[str]], tuple[str, ...]]

    def has(self, uri: str) -> bool:
        """Whether a URI is one of this store."""
        return uri.partition("://")[0].lower() in self.schemes

    def has_form(self, prefix: str) -> bool:
        """Whether a URI is of the form for this store, and so has no secrets."""
        scheme, _, rest = prefix.partition("://")
        return scheme.lower() in self.schemes and re.fullmatch(self.form, rest) is not None


_BUCKET = "[^?@]+"

S3 = Store(
    schemes=("s3", "s3a", "s3n"),
    form=_BUCKET,
    example="s3://lake/tables",
    refresh="client.refresh-credentials-endpoint",
    prefixes=_one_prefix(all_of_store="s3"),
)
GCS = Store(
    schemes=("gs",),
    form=_BUCKET,
    example="gs://lake/tables",
    refresh="gcs.oauth2.refresh-credentials-endpoint",
    prefixes=_one_prefix(all_of_store="gs"),
)
AZURE = Store(
    schemes=("abfss", "abfs", "wasbs", "wasb"),
    form=r"[a-z0-9$-]+@[a-z0-9]+\.[a-z0-9.-]+(/[^?@]*)?",
    example="abfss://tables@lake.dfs.core.windows.net/sales",
    refresh="adls.refresh-credentials-endpoint",
    prefixes=_prefix_of_each,
)
STORES = (S3, GCS, AZURE)


VENDED = "vended-credentials"
DELEGATION = "X-Iceberg-Access-Delegation"


@dataclass(frozen=True, slots=True, kw_only=True)
class VendingRule:
    """The source of credentials for tables below a prefix; None if clients have their own.

    ``properties`` are the settings with which clients reach the store.
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
        """The properties of a loaded table; a client gets new credentials at ``endpoint``."""
        # Clients that ask there expect credentials with an end.
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
    """The rules of a service; the longest matching prefix counts."""

    rules: tuple[VendingRule, ...]

    def for_table(self, table: str, scratch: str) -> Vended | None:
        """Credentials for a table and, in the same kind of store, its scratch folder, by the URIs that clients know.

        None if no rule has the table, or if clients have their own credentials by its rule.

        Raises:
            CredentialsUnavailableError: they are not available at the moment.
            CredentialsRefusedError: the configuration does not allow them.
        """
        fitting = [rule for rule in self.rules if is_below(table, rule.prefix)]
        rule = max(fitting, key=lambda rule: len(rule.prefix), default=None)
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


_LAST_SECONDS = 60.0
_LOG = logging.getLogger(__name__)


class RenewedCredentials:
    """The credentials of a source by place. Requests that wait for the same share one call. Thread-safe."""

    def __init__(self, source: CredentialsSource, clock: Callable[[], float] = time.time) -> None:
        self._source = source
        self._clock = clock
        self._lock = Lock()
        self._cache: dict[Places, StorageCredentials] = {}
        self._under_way: dict[Places, Future[StorageCredentials]] = {}

    def credentials_for(self, places: Places) -> StorageCredentials:
        """Credentials that have at least half of their time left; less, while the source does not answer.

        Raises:
            CredentialsUnavailableError: they are not available at the moment.
            CredentialsRefusedError: the configuration does not allow them.
        """
        with self._lock:
            cached = self._cache.get(places)
            if cached is not None and self._is_fresh(cached):
                return cached
            waiting = self._under_way.get(places)
            is_first = waiting is None
            if waiting is None:
                waiting = self._under_way[places] = Future()
        if is_first:
            self._make(places, cached, waiting)
        return waiting.result()

    def _make(self, places: Places, cached: StorageCredentials | None, waiting: "Future[StorageCredentials]") -> None:
        try:
            made = self._made(places, cached)
        except BaseException as error:  # noqa: BLE001 - raised again for each that waits
            with self._lock:
                del self._under_way[places]
            waiting.set_exception(error)
        else:
            with self._lock:
                self._cache = {
                    key: credentials for key, credentials in self._cache.items() if not self._is_over(credentials)
                }
                self._cache[places] = made
                del self._under_way[places]
            waiting.set_result(made)

    def _made(self, places: Places, cached: StorageCredentials | None) -> StorageCredentials:
        try:
            return self._source.credentials_for(places)
        except CredentialsUnavailableError as error:
            if cached is None or cached.expires_at is None or self._clock() + _LAST_SECONDS > cached.expires_at:
                raise
            _LOG.warning("credentials are given for a second time, since there are no new ones: %s", error)
            return cached

    def _is_fresh(self, credentials: StorageCredentials) -> bool:
        return credentials.expires_at is None or self._clock() < (credentials.made_at + credentials.expires_at) / 2

    def _is_over(self, credentials: StorageCredentials) -> bool:
        return credentials.expires_at is not None and self._clock() > credentials.expires_at


CREDENTIALS = "credentials"
_SHORTEST, _USUAL, _LONGEST = 900, 3600, 43_200


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of credentials: its stores, its options with their types, and a function that makes its source.

    ``shown`` has the options that clients get, by their properties; ``needed`` the required options.
    """

    stores: tuple[Store, ...]
    options: Mapping[str, type]
    source: Callable[[Mapping[str, Any]], CredentialsSource | None]
    shown: Mapping[str, str] = field(default_factory=dict)
    needed: tuple[str, ...] = ()


def needed(table: Mapping[str, Any], name: str) -> str:
    """The text of an option.

    Raises:
        QueryError: it is not there.
    """
    if name not in table:
        raise QueryError(f"{CREDENTIALS}.{name}", "nothing", "a text")
    text: str = table[name]
    return text


def places_of_secrets(*parts: str) -> dict[str, type]:
    """The options that name the places of some secrets."""
    return {f"{part}-{source}": str for part in parts for source in ("file", "env")}


def secret(table: Mapping[str, Any], part: str) -> Secret | None:
    """The place of a secret; None if the options name none.

    Raises:
        QueryError: they name two.
    """
    file, variable = table.get(f"{part}-file"), table.get(f"{part}-env")
    if file is not None and variable is not None:
        raise QueryError(f"{CREDENTIALS}.{part}", "two places", f"{part}-file or {part}-env")
    if file is not None:
        return Secret(option=f"{CREDENTIALS}.{part}-file", file=Path(file))
    return None if variable is None else Secret(option=f"{CREDENTIALS}.{part}-env", variable=variable)


def session_seconds(table: Mapping[str, Any]) -> int:
    """How long credentials are valid.

    Raises:
        QueryError: too short or too long.
    """
    seconds: int = table.get("session-seconds", _USUAL)
    if not _SHORTEST <= seconds <= _LONGEST:
        raise QueryError(f"{CREDENTIALS}.session-seconds", str(seconds), f"{_SHORTEST} to {_LONGEST}")
    return seconds
