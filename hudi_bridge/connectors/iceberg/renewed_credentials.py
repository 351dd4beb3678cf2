"""Credentials that are shared until half of their time is over, so that clients always have the other half.

Clients of Iceberg in Java ask again five minutes before the end; STS gives at least fifteen.
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock

from hudi_bridge.connectors.iceberg.storage_credentials import (
    CredentialsSource,
    CredentialsUnavailableError,
    Places,
    StorageCredentials,
)

_LAST_SECONDS = 60.0
_LOG = logging.getLogger(__name__)


class RenewedCredentials:
    """The credentials of a source by place. Requests that wait for the same share one call. Thread-safe."""

    def __init__(self, source: CredentialsSource, clock: Callable[[], float] = time.time) -> None:
        self._source = source
        self._clock = clock
        self._lock = Lock()
        self._known: dict[Places, StorageCredentials] = {}
        self._under_way: dict[Places, Future[StorageCredentials]] = {}

    def credentials_for(self, places: Places) -> StorageCredentials:
        """Credentials with at least half of their time, or, while the source does not answer, with the rest of it.

        Raises:
            CredentialsUnavailableError: they cannot be had at the moment.
            CredentialsRefusedError: they cannot be had as the service is configured.
        """
        with self._lock:
            known = self._known.get(places)
            if known is not None and self._is_fresh(known):
                return known
            waiting = self._under_way.get(places)
            is_first = waiting is None
            if waiting is None:
                waiting = self._under_way[places] = Future()
        if is_first:
            self._make(places, known, waiting)
        return waiting.result()

    def _make(self, places: Places, known: StorageCredentials | None, waiting: "Future[StorageCredentials]") -> None:
        try:
            made = self._made(places, known)
        except BaseException as error:  # noqa: BLE001 - raised again for each that waits
            with self._lock:
                del self._under_way[places]
            waiting.set_exception(error)
        else:
            with self._lock:
                self._known = {one: kept for one, kept in self._known.items() if not self._is_over(kept)}
                self._known[places] = made
                del self._under_way[places]
            waiting.set_result(made)

    def _made(self, places: Places, known: StorageCredentials | None) -> StorageCredentials:
        try:
            return self._source.credentials_for(places)
        except CredentialsUnavailableError as error:
            if known is None or known.expires_at is None or self._clock() + _LAST_SECONDS > known.expires_at:
                raise
            _LOG.warning("credentials are given for a second time, since there are no new ones: %s", error)
            return known

    def _is_fresh(self, one: StorageCredentials) -> bool:
        return one.expires_at is None or self._clock() < (one.made_at + one.expires_at) / 2

    def _is_over(self, one: StorageCredentials) -> bool:
        return one.expires_at is not None and self._clock() > one.expires_at
