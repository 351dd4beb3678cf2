"""Opens the file system that a URI names, with storage options.

Options of object stores have the names that other libraries on ``object_store`` use (Polars, delta-rs, hudi-rs), with
or without the prefix of the store, in any case: ``aws_region``, ``region``, ``AWS_REGION``; some have several. A URI
that Arrow has no client for is opened by fsspec, with fsspec's own options. Arrow's adapter for fsspec mistakes
failures for empty folders, so there is another one here. Arrow's client of HDFS needs a JVM: ``hdfs`` has another one.
"""

import errno
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import pyarrow as pa
from pyarrow import fs  # noqa: TID251 - what storage opens files with

from hudi_bridge.common.threads import call_with_timeout, timeout_seconds
from hudi_bridge.errors import HudiReadError, QueryError, StorageError, TableNotFoundError
from hudi_bridge.storage.hdfs import open_hdfs
from hudi_bridge.storage.masking import Location, masked

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "wasb": "abfs", "wasbs": "abfss", "gcs": "gs"}
_HADOOP = ("hdfs", "viewfs")
# Timeouts of Arrow's own clients: for a connection, for bytes to arrive, or for all retries. By default they may wait
# for a quarter of an hour, or forever.
_CLIENT_TIMEOUTS: dict[str, dict[str, Any]] = {
    "S3FileSystem": {"connect_timeout": 10, "request_timeout": 20},
    "GcsFileSystem": {"retry_time_limit": timedelta(seconds=60)},
}
# Google's client wants to know when a token ends, and asks for another one then, which nobody can give it.
_TOKEN_LIFE = timedelta(hours=1)
_S3_CONNECTIONS = 64
"""As many requests at once; Arrow's client has as many connections as Arrow has threads for I/O, but 25 at least."""
_io_threads_lock = threading.Lock()
_S3_IN_URI = ("region", "scheme", "endpoint_override")


class FsspecHandler(fs.FSSpecHandler):
    """Makes fsspec file systems available to Arrow.

    Arrow's own handler calls ``isfile``, ``isdir``, ``exists`` and ``find`` of fsspec, which return False, or end the
    listing, on any error. This one lets errors through.
    """

    def get_file_info_selector(self, selector: fs.FileSelector) -> "list[fs.FileInfo]":
        """The entries of a folder; none for a folder that does not exist, if the selector allows that."""
        filesystem: Any = self.fs
        folder = selector.base_dir
        # A cached listing would hide later commits.
        filesystem.invalidate_cache(folder)
        try:
            entries = filesystem.ls(folder, detail=True)
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        children = [entry for entry in entries if entry["name"].strip("/") != folder.strip("/")]
        if not children and any(entry["type"] == "file" for entry in entries):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
        return [_file_info(self._with_size(entry)) for entry in children]

    def _with_size(self, entry: "dict[str, Any]") -> "dict[str, Any]":
        """The entry of a listing; pages of links, as HTTP servers list folders, do not tell how large files are."""
        filesystem: Any = self.fs
        if entry["type"] != "file" or entry["size"] is not None:
            return entry
        return entry | {"size": filesystem.info(entry["name"])["size"]}

    def open_input_file(self, path: str) -> pa.NativeFile:
        """The file, opened for random access."""
        filesystem: Any = self.fs
        if type(filesystem).__module__ == "fsspec.implementations.memory":
            # All who open a file of this one share the place where they read.
            return pa.BufferReader(filesystem.cat_file(path))
        return pa.PythonFile(filesystem.open(path, mode="rb"), mode="r")

    def reader(self, path: str) -> "FsspecReader":
        """The bytes of a file, by ranges."""
        return FsspecReader(self.fs, path)


@dataclass(frozen=True, slots=True)
class FsspecReader:
    """The bytes of one file of an fsspec file system."""

    filesystem: Any
    path: str

    def size(self) -> int:
        """The size of the file, in bytes."""
        info = self.filesystem.info(self.path)
        if info["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.path)
        return int(info["size"])

    def read_range(self, start: int, size: int) -> bytes:
        """The bytes of a range, in one request; fewer if the store sends fewer."""
        content: bytes = self.filesystem.cat_file(self.path, start=start, end=start + size)
        # An HTTP server that knows no ranges sends the whole file.
        return content if len(content) <= size else content[start : start + size]


def arrow_file_system(filesystem: Any) -> fs.FileSystem:  # noqa: ANN401 - of fsspec
    """A file system of fsspec for Arrow."""
    if type(filesystem).__module__ == "fsspec.implementations.local":
        return fs.LocalFileSystem()
    return fs.PyFileSystem(FsspecHandler(filesystem))  # type: ignore[abstract]  # complete in C++


def _file_info(entry: "dict[str, Any]") -> fs.FileInfo:
    kind = {"file": fs.FileType.File, "directory": fs.FileType.Directory}.get(entry["type"], fs.FileType.Unknown)
    return fs.FileInfo(entry["name"].rstrip("/"), kind, size=entry["size"] if kind == fs.FileType.File else None)


def _flag(value: object) -> bool:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ValueError("true or false")
    return text == "true"


def _text(value: object) -> str:
    if not (isinstance(value, str) and value):
        raise ValueError("a text")
    return value


def _seconds(value: object) -> float:
    try:
        seconds = float(str(value))
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        raise ValueError("a number of seconds")
    return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Client:
    """The options of one of Arrow's clients: for each name, an argument of the client and how it is parsed."""

    prefixes: tuple[str, ...]
    arguments: Mapping[str, tuple[str, Callable[[object], object]]]

    def parse(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of the client.

        Raises:
            QueryError: an option is unknown, is given twice, or has an invalid value.
        """
        arguments: dict[str, Any] = {}
        for given, value in options.items():
            argument, parse = self._argument(given)
            if argument in arguments:
                raise QueryError("storage_options", repr(given), "each setting once")
            try:
                arguments[argument] = parse(value)
            except ValueError as error:
                # The value may be a secret.
                raise QueryError("storage_options", f"another value of {given}", str(error)) from None
        return arguments

    def _argument(self, given: str) -> tuple[str, Callable[[object], object]]:
        name = given.lower()
        for prefix in ("", *self.prefixes):
            if name.startswith(prefix) and name.removeprefix(prefix) in self.arguments:
                return self.arguments[name.removeprefix(prefix)]
        raise QueryError("storage_options", repr(given), f"one of {', '.join(self.arguments)}")


_S3 = _Client(
    prefixes=("aws_",),
    arguments={
        "access_key_id": ("access_key", _text),
        "secret_access_key": ("secret_key", _text),
        "session_token": ("session_token", _text),
        "token": ("session_token", _text),
        "region": ("region", _text),
        "default_region": ("region", _text),
        "endpoint_url": ("endpoint_override", _text),
        "endpoint": ("endpoint_override", _text),
        "anonymous": ("anonymous", _flag),
        "anon": ("anonymous", _flag),
        "skip_signature": ("anonymous", _flag),
        "role_arn": ("role_arn", _text),
        "role_session_name": ("session_name", _text),
        "external_id": ("external_id", _text),
        "virtual_hosted_style_request": ("force_virtual_addressing", _flag),
        "ca_file": ("tls_ca_file_path", _text),
        "proxy_url": ("proxy_options", _text),
        "connect_timeout": ("connect_timeout", _seconds),
        "timeout": ("request_timeout", _seconds),
        "allow_http": ("allow_http", _flag),
    },
)
_GCS = _Client(
    prefixes=("google_", "gcs_"),
    arguments={
        "anonymous": ("anonymous", _flag),
        "anon": ("anonymous", _flag),
        "skip_signature": ("anonymous", _flag),
        "access_token": ("access_token", _text),
        "token": ("access_token", _text),
        "target_service_account": ("target_service_account", _text),
        "project_id": ("project_id", _text),
        "allow_http": ("allow_http", _flag),
        "endpoint_url": ("endpoint_override", _text),
        "endpoint": ("endpoint_override", _text),
    },
)
_AZURE = _Client(
    prefixes=("azure_storage_", "azure_"),
    arguments={
        "account_name": ("account_name", _text),
        "account_key": ("account_key", _text),
        "access_key": ("account_key", _text),
        "sas_token": ("sas_token", _text),
        "sas_key": ("sas_token", _text),
        "tenant_id": ("tenant_id", _text),
        "client_id": ("client_id", _text),
        "client_secret": ("client_secret", _text),
        "blob_authority": ("blob_storage_authority", _text),
        "dfs_authority": ("dfs_storage_authority", _text),
        "blob_scheme": ("blob_storage_scheme", _text),
        "dfs_scheme": ("dfs_storage_scheme", _text),
        "allow_http": ("allow_http", _flag),
    },
)
_CLIENTS = {"s3": _S3, "gs": _GCS, "abfs": _AZURE, "abfss": _AZURE}


def open_file_system(uri: str, options: Mapping[str, Any]) -> tuple[fs.FileSystem, str]:
    """The file system of a URI, and the path on it.

    Raises:
        QueryError: an option is unknown or has an invalid value.
        TableNotFoundError: no file system can be opened for the URI.
        StorageError: the file system does not answer.
    """
    scheme = uri.partition("://")[0].lower()
    scheme = _SCHEME_ALIASES.get(scheme, scheme)
    same = f"{scheme}://{uri.partition('://')[2]}"
    open_it: Callable[[], tuple[fs.FileSystem, str]]
    if scheme in _CLIENTS:
        open_it = partial(_by_client, scheme, same, _without_allow_http(_CLIENTS[scheme].parse(options)))
    elif scheme in _HADOOP:
        # A link of viewfs may lead to another store, whose settings are those of the machine.
        open_it = partial(open_hdfs, scheme, same, options, partial(open_file_system, options={}))
    elif scheme == "file":
        if options:
            raise QueryError("storage_options", ", ".join(map(repr, options)), f"none for {scheme}://")
        open_it = partial(fs.FileSystem.from_uri, same)
    else:
        open_it = partial(_by_fsspec, same, options)
    try:
        filesystem, path = call_with_timeout(timeout_seconds(), open_it)
    except HudiReadError:
        raise
    except TimeoutError as error:
        raise StorageError(masked(uri), "open", str(error), errno.ETIMEDOUT) from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ValueError, TypeError, ImportError) as error:
        # The error may quote the URI.
        shown = scheme if _SCHEME.fullmatch(scheme) else "it"
        mask = Location(uri).mask
        raise TableNotFoundError(mask(uri), f"no file system for {shown}: {mask(str(error))}") from None
    if not path:
        raise TableNotFoundError(masked(uri), "the URI names no folder")
    return filesystem, path


def _without_allow_http(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments without ``allow_http``, which others need for an endpoint without TLS; here, false forbids one.

    Raises:
        QueryError: it is false, and an endpoint is without TLS.
    """
    allows = arguments.pop("allow_http", True)
    endpoints = [
        str(arguments.get(name, "")) for name in ("endpoint_override", "blob_storage_scheme", "dfs_storage_scheme")
    ]
    if not allows and any(endpoint.lower().partition("://")[0] == "http" for endpoint in endpoints):
        raise QueryError("storage_options", "an endpoint with http, and allow_http=false", "https, or allow_http=true")
    return arguments


def _by_client(scheme: str, uri: str, arguments: dict[str, Any]) -> tuple[fs.FileSystem, str]:
    if "endpoint_override" in arguments:
        arguments |= _endpoint(arguments["endpoint_override"])
    if scheme == "gs" and arguments:
        return _google(uri, arguments)
    if scheme in ("abfs", "abfss") and "account_name" in arguments and "@" not in urlsplit(uri).netloc:
        _refuse_parameters(uri)
        return fs.AzureFileSystem(**arguments), uri.partition("://")[2]
    if scheme == "s3":
        # Otherwise, the client asks AWS for the region of the bucket.
        uri = _with_query(uri, {name: arguments[name] for name in _S3_IN_URI if name in arguments})
    filesystem, path = fs.FileSystem.from_uri(uri)
    kind: Any = type(filesystem)
    arguments = _CLIENT_TIMEOUTS.get(kind.__name__, {}) | arguments
    if arguments:
        # It is pickled as the arguments of its constructor.
        state: Any = filesystem.__reduce__()[1]
        current = {name: value for name, value in state[0].items() if value not in ("", None)}
        with _io_threads(_S3_CONNECTIONS if scheme == "s3" else 0):
            filesystem = kind(**current | arguments)
    return filesystem, path


def _refuse_parameters(uri: str) -> None:
    """Raises QueryError for parameters of a URI, where the client is made from storage options alone."""
    names = [name for name, _ in parse_qsl(urlsplit(uri).query, keep_blank_values=True)]
    if names:
        raise QueryError("storage_options", f"parameters of the URI as well: {', '.join(names)}", "one or the other")


@contextmanager
def _io_threads(least: int) -> Iterator[None]:
    """A context in which Arrow may have at least so many threads for I/O, which are started when they are needed."""
    with _io_threads_lock:
        usual = pa.io_thread_count()
        pa.set_io_thread_count(max(usual, least))
        try:
            yield
        finally:
            pa.set_io_thread_count(usual)


def _google(uri: str, arguments: dict[str, Any]) -> tuple[fs.FileSystem, str]:
    """Not from the URI, for which the client would look for credentials of the machine."""
    _refuse_parameters(uri)
    if "access_token" in arguments:
        arguments["credential_token_expiration"] = datetime.now(UTC) + _TOKEN_LIFE
    parts = urlsplit(uri)
    bucket = parts.netloc.rpartition("@")[2]
    if parts.netloc.startswith("anonymous@"):
        arguments.setdefault("anonymous", True)
    given = _CLIENT_TIMEOUTS["GcsFileSystem"] | arguments
    return fs.GcsFileSystem(**given), f"{bucket}{parts.path}"


def _endpoint(text: str) -> dict[str, str]:
    """The arguments for an endpoint such as ``http://localhost:9000``."""
    scheme, sign, host = text.rpartition("://")
    return {"endpoint_override": host.rstrip("/")} | ({"scheme": scheme.lower()} if sign else {})


def _with_query(uri: str, values: dict[str, str]) -> str:
    parts = urlsplit(uri)
    query = dict(parse_qsl(parts.query, keep_blank_values=True)) | values
    return urlunsplit(parts._replace(query=urlencode(query))) if values else uri


def _by_fsspec(uri: str, options: Mapping[str, Any]) -> tuple[fs.FileSystem, str]:
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise ValueError("pyarrow has none, and fsspec is not installed") from None
    filesystem, path = url_to_fs(uri, **options)
    return arrow_file_system(filesystem), path
