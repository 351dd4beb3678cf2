"""The process of the catalog service; optionally, it builds snapshots of all commits ahead of requests."""

import logging
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import uvicorn

from hudi_bridge.connectors.iceberg.compatibility import FormatVersion, Rewriting
from hudi_bridge.connectors.iceberg.served_table import SnapshotSettings
from hudi_bridge.connectors.iceberg.slice_cache import Counters
from hudi_bridge.connectors.lakes.tables import MergingByTable, TablesByName
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.errors import QueryError
from hudi_bridge.service.access import Access, read_secret
from hudi_bridge.service.catalog import Catalog
from hudi_bridge.service.credentials import Vending
from hudi_bridge.service.gate import (
    REQUEST_TIMEOUT_SECONDS,
    REUSE_SECONDS,
    LimitedProtocol,
    backlog,
    is_loopback,
    require_proxies,
)
from hudi_bridge.service.rest import create_app

_SHUTDOWN_SECONDS = 30
_TRIED = ".hudi-bridge"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The PEM files of a certificate, followed by its signers, and of its private key."""

    certificate: Path
    key: Path

    def validate(self) -> None:
        """Requires that the files are a certificate and its key.

        Raises:
            QueryError: a file cannot be read, or they do not belong together.
        """
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(self.certificate, self.key)
        except (OSError, ValueError) as error:
            description = f"{self.certificate} and {self.key}: {error}"
            raise QueryError("TLS", description, "a certificate and its private key in PEM") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """Options of a service. Times are in seconds; without ``watch_seconds``, nothing is built ahead of requests.

    ``token`` is for a reader of everything; ``access`` has further readers. Without both, anybody on this machine may
    read. ``requests_per_second`` limits each reader. ``vending`` has the storage credentials that readers may get.
    ``proxies`` are addresses or networks that are trusted to pass on the address of a client.
    """

    tables: TablesByName
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
    format_version: FormatVersion = FormatVersion.V2
    access: Access | None = None
    tls: Tls | None = None
    requests_per_second: float | None = None
    access_log: bool = False
    vending: Vending | None = None
    proxies: tuple[str, ...] = ()

    def validate(self) -> None:
        """Raises QueryError unless somebody has to show a token or the host is a loopback address.

        Raises:
            QueryError: anybody on the network could read the tables, or anybody on this machine get credentials; the
                certificate cannot be used; or a proxy is no address.
        """
        require_proxies(self.proxies)
        if self.token is None and self.access is None and not is_loopback(self.host):
            raise QueryError("--host", f"{self.host} without a token", "a loopback address, or --token-file as well")
        if self.vending is not None and self.readers is None:
            raise QueryError("credentials", "no readers", "--token-file, [[reader]] or [oidc] as well")
        if self.tls is not None:
            self.tls.validate()

    @property
    def readers(self) -> Access | None:
        """Who may read; None for everybody on this machine."""
        if self.token is None:
            return self.access
        return (self.access or Access()).with_token(self.token)


class IcebergService:
    """A service that listens on its socket: clients can connect before ``run``."""

    def __init__(self, options: ServiceOptions) -> None:
        options.validate()
        self._options = options
        self.counters = Counters()
        _require_writable(options.scratch)
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        self._socket = socket.create_server((options.host, options.port), family=family)
        self._server: uvicorn.Server | None = None

    @property
    def url(self) -> str:
        """The URL of the service."""
        host, port = self._socket.getsockname()[:2]
        scheme = "http" if self._options.tls is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    def run(self) -> None:
        """Serve until ``stop``, SIGINT or SIGTERM; open requests are answered first."""
        options = self._options
        pool = ThreadPoolExecutor(options.builds, thread_name_prefix="hudi-bridge-build")
        with pool as builders, self._socket:
            settings = SnapshotSettings(
                locations=options.locations,
                builders=builders,
                at_once=options.builds,
                counters=self.counters,
                keep=options.keep,
                keep_seconds=options.keep_seconds,
                rewriting=options.rewriting,
                format_version=options.format_version,
            )
            catalog = Catalog(options.tables, options.scratch, settings, options.merging)
            config = uvicorn.Config(
                create_app(
                    catalog,
                    self.counters,
                    options.readers,
                    per_second=options.requests_per_second,
                    access_log=options.access_log,
                    vending=options.vending,
                ),
                ssl_certfile=None if options.tls is None else str(options.tls.certificate),
                ssl_keyfile=None if options.tls is None else str(options.tls.key),
                http=LimitedProtocol,
                backlog=backlog(),
                proxy_headers=bool(options.proxies),
                forwarded_allow_ips=list(options.proxies),
                log_config=None,
                log_level="warning",
                access_log=False,
                lifespan="off",
                server_header=False,
                headers=[("Keep-Alive", f"timeout={REUSE_SECONDS}")],
                timeout_keep_alive=REQUEST_TIMEOUT_SECONDS,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            )
            self._server = uvicorn.Server(config)
            try:
                with _watching(catalog, options.watch_seconds):
                    self._server.run(sockets=[self._socket])
            finally:
                builders.shutdown(cancel_futures=True)

    def stop(self) -> None:
        """Make ``run`` return."""
        if self._server is not None:
            self._server.should_exit = True


def _require_writable(scratch: Scratch) -> None:
    """Writes a file and removes it, so that errors are raised before the first request.

    Raises:
        QueryError: nothing can be written to the folder.
    """
    try:
        scratch.write(_TRIED, b"")
        scratch.remove(_TRIED)
    except OSError as error:
        description = f"{scratch.storage.shown_path}, where nothing can be written: {error.strerror or error}"
        raise QueryError("--scratch", description, "a folder to write to") from error


@contextmanager
def _watching(catalog: Catalog, seconds: float | None) -> Iterator[None]:
    """Build snapshots of new commits in a thread while the block runs."""
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
        QueryError: the file cannot be read or is empty.
    """
    return None if path is None else read_secret("--token-file", path)


def watch(catalog: Catalog, seconds: float | None, ended: Event) -> None:
    """Build snapshots of all tables, again every ``seconds``; tables that fail are logged and skipped."""
    failures = _Failures()
    while not ended.is_set():
        for namespace, name in catalog.tables.walk(failures.note):
            if ended.is_set():
                return
            table = ".".join((*namespace, name))
            try:
                catalog.follow(namespace, name)
            except Exception as error:  # noqa: BLE001 - the other tables are still followed
                failures.note(table, error)
        failures.end_round()
        ended.wait(seconds)


class _Failures:
    """Logs failures of folders and tables when they begin, change and end, but not each time."""

    def __init__(self) -> None:
        self._before: dict[str, str] = {}
        self._now: dict[str, str] = {}

    def note(self, name: str, error: Exception) -> None:
        """Record an error of a folder or table."""
        self._now[name] = f"{type(error).__name__}: {error}"
        if self._before.get(name) != self._now[name]:
            _LOG.warning("%s is not watched until it can be read again: %s", ascii(name), self._now[name])

    def end_round(self) -> None:
        """End a round over all tables."""
        for name in self._before.keys() - self._now.keys():
            _LOG.warning("%s is watched again", ascii(name))
        self._before, self._now = self._now, {}
