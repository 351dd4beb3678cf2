"""Runs the catalog service until it is told to stop; on demand, it builds snapshots of all commits ahead of clients."""

import logging
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import uvicorn

from hudi_bridge.connectors.iceberg.catalog import Catalog, Roots
from hudi_bridge.connectors.iceberg.counters import Counters
from hudi_bridge.connectors.iceberg.http_limits import ImpatientProtocol, is_loopback
from hudi_bridge.connectors.iceberg.merge_settings import MergingByTable
from hudi_bridge.connectors.iceberg.rest import create_app
from hudi_bridge.connectors.iceberg.rewriting import Rewriting
from hudi_bridge.connectors.iceberg.table_snapshots import SnapshotSettings
from hudi_bridge.connectors.publishing.locations import Locations
from hudi_bridge.connectors.publishing.scratch import Scratch
from hudi_bridge.connectors.publishing.scratch_lock import locked
from hudi_bridge.errors import QueryError

_SHUTDOWN_SECONDS = 30
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """What a service is asked to do. Times are in seconds; ``watch_seconds`` None builds nothing ahead."""

    roots: Roots
    scratch: Scratch
    locations: Locations
    host: str
    port: int
    token: str | None
    builds: int
    keep: int
    keep_seconds: float
    watch_seconds: float | None
    merging: MergingByTable = field(default_factory=MergingByTable)
    rewriting: Rewriting = field(default_factory=Rewriting)

    def validate(self) -> None:
        """Raises unless it is safe to begin.

        Raises:
            QueryError: everybody could read the tables.
        """
        if self.token is None and not is_loopback(self.host):
            raise QueryError("--host", f"{self.host} without a token", "a loopback address, or --token-file as well")


class IcebergService:
    """A service that has its scratch folder and a socket already: clients may connect before it runs."""

    def __init__(self, options: ServiceOptions) -> None:
        options.validate()
        self._options = options
        self.counters = Counters()
        self._held = ExitStack()
        self._held.enter_context(locked(options.scratch, self.stop))
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        try:
            self._socket = socket.create_server((options.host, options.port), family=family)
        except BaseException:
            self._held.close()
            raise
        self._server: uvicorn.Server | None = None

    @property
    def url(self) -> str:
        """Where the service is."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def run(self) -> None:
        """Serve until ``stop``, SIGINT or SIGTERM; requests that have begun are answered first."""
        options = self._options
        pool = ThreadPoolExecutor(options.builds, thread_name_prefix="hudi-bridge-build")
        with self._held, pool as builders, self._socket:
            settings = SnapshotSettings(
                locations=options.locations,
                builders=builders,
                at_once=options.builds,
                counters=self.counters,
                roots=options.roots.real_paths,
                keep=options.keep,
                keep_seconds=options.keep_seconds,
                rewriting=options.rewriting,
            )
            catalog = Catalog(options.roots, options.scratch, settings, options.merging)
            config = uvicorn.Config(
                create_app(catalog, self.counters, options.token),
                http=ImpatientProtocol,
                log_config=None,
                log_level="warning",
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            )
            self._server = uvicorn.Server(config)
            try:
                with _watching(catalog, options.watch_seconds):
                    self._server.run(sockets=[self._socket])
            finally:
                builders.shutdown(cancel_futures=True)

    def stop(self) -> None:
        """Have ``run`` end."""
        if self._server is not None:
            self._server.should_exit = True


@contextmanager
def _watching(catalog: Catalog, seconds: float | None) -> Iterator[None]:
    """Has snapshots built of all commits as they come."""
    ended = Event()
    thread = Thread(target=watch, args=(catalog, seconds, ended), name="hudi-bridge-watch", daemon=True)
    if seconds is not None:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if seconds is not None:
            thread.join()


def read_token(path: Path | None) -> str | None:
    """The token in a file, without the line end; None without a file.

    Raises:
        QueryError: the file cannot be read, or holds none.
    """
    if path is None:
        return None
    try:
        token = path.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise QueryError("--token-file", f"{path}, which cannot be read", "a file that holds a token") from error
    if not token:
        raise QueryError("--token-file", f"{path}, which is empty", "a file that holds a token")
    return token


def watch(catalog: Catalog, seconds: float | None, ended: Event) -> None:
    """Look at all tables again and again; what cannot be listed or read keeps nobody else waiting."""
    troubles = _Troubles()
    while not ended.is_set():
        for namespace, name in catalog.roots.walk(troubles.note):
            if ended.is_set():
                return
            table = ".".join((*namespace, name))
            try:
                catalog.follow(namespace, name)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are followed
                troubles.note(table, error)
        troubles.end_look()
        ended.wait(seconds)


class _Troubles:
    """What could not be listed or read: said when it begins, when it changes, and when it is over."""

    def __init__(self) -> None:
        self._before: dict[str, str] = {}
        self._now: dict[str, str] = {}

    def note(self, name: str, error: Exception) -> None:
        """Take note of an error of a folder or table."""
        self._now[name] = f"{type(error).__name__}: {error}"
        if self._before.get(name) != self._now[name]:
            _LOG.warning("%s is not watched until it can be read again: %s", ascii(name), self._now[name])

    def end_look(self) -> None:
        """All tables have been looked at."""
        for name in self._before.keys() - self._now.keys():
            _LOG.warning("%s is watched again", ascii(name))
        self._before, self._now = self._now, {}
