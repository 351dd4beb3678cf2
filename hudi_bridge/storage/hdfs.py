"""HDFS by ``hdfs-native``, which needs no JVM, for Arrow.

The client's own class for fsspec cuts names at ``;``, ``?`` and ``#``, so there is another one here. The client waits
for minutes where nobody answers; it is given limits, so that ``HUDI_BRIDGE_STORE_RETRY_SECONDS`` and
``HUDI_BRIDGE_STORE_TIMEOUT`` decide. Its errors have Java's stack traces; one line is left of them.
"""

import ctypes
import errno
import io
import math
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, NoReturn
from urllib.parse import unquote
from uuid import uuid4
from weakref import WeakValueDictionary

import pyarrow as pa
from pyarrow import fs  # noqa: TID251 - what storage opens files with

from hudi_bridge.common.imports import needing_extra
from hudi_bridge.common.kerberos import LIBRARY_MISSING, login_failure
from hudi_bridge.common.threads import timeout_seconds
from hudi_bridge.storage.hadoop_settings import HadoopSettings, NameNodes

_CONNECT_SECONDS = 10
"""As for S3. The client itself waits as long as the system does, which is two minutes for a host that is down."""
_KEPT_SECONDS = 3
"""How long the client keeps connections to DataNodes; in a forked process, these never answer."""
_REPLICAS = 4
"""A request's timeout is divided into these parts, one for each replica of a block. Three replicas are usual."""
_ATTEMPTS_PER_NAME_NODE = 2
_RETRIES = {"dfs.client.failover.sleep.base.millis": "100", "dfs.client.failover.sleep.max.millis": "1000"}
_USERS = ("HADOOP_USER_NAME", "HADOOP_PROXY_USER", "KRB5CCNAME", "HADOOP_TOKEN_FILE_LOCATION")
"""Variables that the client reads when it connects."""
_MILLISECONDS = 1000
_NANOSECONDS_OF_A_MILLISECOND = 1_000_000
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_RPC_ERROR = re.compile(r'(?:Fatal)?RPCError\("([^"]*)", "(.*)"\)', re.DOTALL)
_ERROR_OF_KIND = re.compile(r'(\w+)\("(.*)"\)', re.DOTALL)
_GSSAPI_ERROR = re.compile(r'GSSAPIError\(.*?, "(.*)"\)', re.DOTALL)
_NO_LIBRARY = "Failed to load libgssapi"
_CONNECTION_ENDED = "RPC listener disconnected"
_DATA_NODE = re.compile(r'ip_addr: "([^"]*)".*?xfer_port: (\d+)', re.DOTALL)
_NUMBERS = {
    "AccessControlException": errno.EACCES,
    "AuthorizationException": errno.EACCES,
    "GSSAPIError": errno.EACCES,
    "InvalidToken": errno.EACCES,
    "NoSASLMechanism": errno.EACCES,
    "SASLError": errno.EACCES,
    "SaslException": errno.EACCES,
    "ParentNotDirectoryException": errno.ENOTDIR,
    # These pass: a standby takes over, a NameNode leaves safe mode, or a DataNode comes back.
    "DataTransferError": errno.EBUSY,
    "ObserverRetryOnActiveException": errno.EBUSY,
    "RetriableException": errno.EBUSY,
    "SafeModeException": errno.EBUSY,
    "StandbyException": errno.EBUSY,
}
"""Error numbers for the last names of Java's exceptions, and for errors of the client."""


class HdfsClient:
    """A client of hdfs-native for the NameNodes of an authority; all tables of a process share it.

    It connects at the first call, to a NameNode that listens. It connects anew in a forked process, and to another
    one after a call that has not returned within its timeout: the host may be down.
    """

    def __init__(self, name_nodes: NameNodes, settings: HadoopSettings) -> None:
        self._name_nodes = name_nodes
        self._settings = settings
        self._connected: tuple[int, Any] | None = None
        self._numbers = count()
        self._began: dict[int, float] = {}

    @contextmanager
    def call(self, path: str) -> Iterator[Any]:
        """The client of hdfs-native, whose errors are raised as OSErrors about the path."""
        number = next(self._numbers)
        try:
            client = self._client()
            self._began[number] = time.monotonic()
            yield client
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except OSError as error:
            if error.errno is not None:
                raise
            raise _as_os_error(path, error, self._settings) from None
        except BaseException as error:  # noqa: BLE001 - a panic of Rust is no Exception
            raise _as_os_error(path, error, self._settings) from None
        finally:
            self._began.pop(number, None)

    def _client(self) -> Any:  # noqa: ANN401 - of a package without types
        connected = self._connected
        if connected is not None and connected[0] != os.getpid():
            # In a forked process, its end would wait for threads that only the other process has.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connected[1]))
            time.sleep(_KEPT_SECONDS)
            connected = self._connected = None
            self._began.clear()
        # The tuple is made at once; other threads change the dictionary.
        oldest = min(tuple(self._began.values()), default=math.inf)
        if oldest < time.monotonic() - timeout_seconds():
            # It listens, and says nothing: another one is the first now.
            first, *others = self._name_nodes.addresses
            self._name_nodes = replace(self._name_nodes, addresses=(*others, first))
            connected = self._connected = None
        if connected is None:
            self._began.clear()
            connected = self._connected = (os.getpid(), self._connect())
        return connected[1]

    def _connect(self) -> Any:  # noqa: ANN401
        from hdfs_native import Client  # noqa: PLC0415 - an extra

        name_nodes = NameNodes(service=self._name_nodes.service, addresses=_listening_first(self._name_nodes))
        limits = {
            **_RETRIES,
            "dfs.client.failover.max.attempts": str(_ATTEMPTS_PER_NAME_NODE * len(name_nodes.addresses)),
        }
        defaults = {"dfs.client.socket-timeout": str(int(timeout_seconds() / _REPLICAS * _MILLISECONDS))}
        if self._settings.with_kerberos:
            # DataNodes of such a cluster want it, unless their ports are privileged. Which protection is theirs to say.
            defaults["dfs.data.transfer.protection"] = "authentication"
        config = defaults | self._settings.of_client(name_nodes) | limits
        url = f"hdfs://{name_nodes.service or name_nodes.addresses[0]}"
        # The files of the machine are in the settings.
        return Client(url, config, os.devnull, **self._settings.kerberos)


_clients: "WeakValueDictionary[object, HdfsClient]" = WeakValueDictionary()


def _shared_client(name_nodes: NameNodes, settings: HadoopSettings) -> HdfsClient:
    users = tuple(os.environ.get(variable) for variable in _USERS)
    key = (users, name_nodes, *(frozenset(part.items()) for part in (settings.properties, settings.kerberos)))
    client = _clients.get(key)
    if client is None:
        client = _clients[key] = HdfsClient(name_nodes, settings)
    return client


def _listening_first(name_nodes: NameNodes) -> tuple[str, ...]:
    """The addresses of NameNodes that listen, then the others.

    Raises:
        OSError: none listens.
    """
    silent: list[str] = []
    for number, address in enumerate(name_nodes.addresses):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS):
                return (*name_nodes.addresses[number:], *silent)
        except socket.gaierror as error:
            failure = OSError(errno.EHOSTUNREACH, f"{host} is no name service of the settings, nor a host: {error}")
        except OSError as error:
            failure = type(error)(error.errno or errno.ETIMEDOUT, f"{address}: {error.strerror or error}")
        silent.append(address)
    raise failure


def _as_os_error(path: str, error: BaseException, settings: HadoopSettings) -> OSError:
    """An error of the client, with an error number and one line of text."""
    if isinstance(error, FileNotFoundError | IsADirectoryError | FileExistsError):
        numbers = {FileNotFoundError: errno.ENOENT, IsADirectoryError: errno.EISDIR, FileExistsError: errno.EEXIST}
        number = numbers[type(error)]
        return OSError(number, os.strerror(number), path)
    # Rust escapes quotes and ends of lines.
    text = str(error).replace('\\"', '"')
    if system := _OS_ERROR.search(text):
        return OSError(int(system[1]), os.strerror(int(system[1])))
    if login := _login_error(text, settings):
        return login
    rpc = _RPC_ERROR.fullmatch(text)
    kind, reason = rpc.groups() if rpc else ("", "")
    if rpc is None:
        of_kind = _ERROR_OF_KIND.fullmatch(text)
        kind, reason = of_kind.groups() if of_kind else (text.partition("(")[0], text)
    name = re.split(r"[.$]", kind)[-1]
    if name == "DataTransferError" and (nodes := _DATA_NODE.findall(reason)):
        reason = f"no DataNode gives a block: {', '.join(f'{host}:{port}' for host, port in nodes)}"
    elif name == "DataTransferError" and "[]" in reason:
        reason = "no DataNode has a block of it"
    if isinstance(error, NotImplementedError):
        return OSError(errno.ENOTSUP, f"hdfs-native does not support {reason}")
    line = re.split(r"\\n|\n", reason, maxsplit=1)[0].strip()
    if isinstance(error, OSError):
        # One of the connection, for which Rust gives no number.
        return OSError(errno.ECONNABORTED, line or os.strerror(errno.ECONNABORTED))
    return OSError(_NUMBERS.get(name, errno.EIO), line or name or type(error).__name__)


def _login_error(text: str, settings: HadoopSettings) -> OSError | None:
    """What the client says where it cannot log in, or where it does not try to; None for any other text."""
    if gssapi := _GSSAPI_ERROR.fullmatch(text):
        return OSError(errno.EACCES, login_failure(gssapi[1], keytab=settings.kerberos.get("kerberos_keytab")))
    if _NO_LIBRARY in text:
        return OSError(errno.ENOTSUP, LIBRARY_MISSING)
    if _CONNECTION_ENDED in text and not settings.with_kerberos:
        # All that the client says where a NameNode wants a ticket.
        hint = "a cluster with Kerberos needs hadoop.security.authentication=kerberos, which is not set"
        return OSError(errno.ECONNABORTED, f"{_CONNECTION_ENDED}; {hint}")
    return None


class HdfsReader:
    """The bytes of one file. It is opened once for any number of ranges, and opened anew after a failure."""

    def __init__(self, client: HdfsClient, path: str) -> None:
        self._client = client
        self._path = path
        self._file: Any = None

    def size(self) -> int:
        """The size of the file, in bytes."""
        with self._client.call(self._path) as client:
            status = client.get_file_info(self._path)
        if status.isdir:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self._path)
        return int(status.length)

    def read_range(self, start: int, size: int) -> bytes:
        """The bytes of a range, in one request for its block and one for its bytes; fewer if the file ends."""
        # Only what has succeeded is used again.
        file, self._file = self._file, None
        with self._client.call(self._path) as client:
            file = client.read(self._path) if file is None else file
            end = len(file)
            # Rust panics if the end of the file is passed.
            content: bytes = file.read_range(start, min(size, end - start)) if start < end else b""
        if len(content) == size:
            self._file = file
        elif start + size <= (length := self.size()):
            # Until a writer that appends has closed it, the last block cannot be read; its length is listed before.
            raise OSError(errno.EBUSY, f"a writer has it open: {end} of its {length} bytes can be read")
        return content


class HdfsHandler(fs.FileSystemHandler):
    """The files behind an authority of ``hdfs://``; pickled as that and the options, so that workers open their own."""

    def __init__(self, authority: str, options: Mapping[str, Any]) -> None:
        self._authority = authority
        self._options = dict(options)
        settings = HadoopSettings.load(options)
        _require_extra("hdfs")
        name_nodes = settings.name_nodes(authority or settings.default_authority("hdfs"))
        self._client = _shared_client(name_nodes, settings)

    def __reduce__(self) -> tuple[type["HdfsHandler"], tuple[str, dict[str, Any]]]:
        return type(self), (self._authority, self._options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HdfsHandler) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash(self._authority)

    def get_type_name(self) -> str:
        """The scheme."""
        return "hdfs"

    def normalize_path(self, path: str) -> str:
        """The path as it is."""
        return path

    def get_file_info(self, paths: "str | list[str]") -> "list[fs.FileInfo]":
        """What is at each path."""
        return [self._file_info(path) for path in ([paths] if isinstance(paths, str) else paths)]

    def _file_info(self, path: str) -> fs.FileInfo:
        try:
            with self._client.call(path) as client:
                return _info(path, client.get_file_info(_absolute(path)))
        except (FileNotFoundError, NotADirectoryError):
            return fs.FileInfo(path, fs.FileType.NotFound)

    def get_file_info_selector(self, selector: fs.FileSelector) -> "list[fs.FileInfo]":
        """The entries of a folder; none for a folder that does not exist, if the selector allows that."""
        base = selector.base_dir.rstrip("/")
        folder = _absolute(base)
        try:
            with self._client.call(folder) as client:
                entries = list(client.list_status(folder, selector.recursive))
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        if any(entry.path == folder and not entry.isdir for entry in entries):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
        # With the path of the folder as the selector has it.
        start = len(folder) - len(base)
        return [_info(entry.path[start:], entry) for entry in entries]

    def reader(self, path: str) -> HdfsReader:
        """The bytes of a file, by ranges."""
        return HdfsReader(self._client, _absolute(path))

    def open_input_file(self, path: str) -> pa.NativeFile:
        """The file, opened for random access."""
        with self._client.call(path) as client:
            return pa.PythonFile(client.read(_absolute(path)), mode="r")

    open_input_stream = open_input_file

    def open_output_stream(self, path: str, metadata: object = None) -> pa.NativeFile:
        """A file that appears under its path, in place of another one, when it is closed: connectors publish some."""
        del metadata
        return pa.PythonFile(_Appearing(self._client, _absolute(path)), mode="w")

    def delete_file(self, path: str) -> None:
        """Removes a file that a connector has published."""
        with self._client.call(path) as client:
            client.delete(_absolute(path), False)  # noqa: FBT003 - not with what is below it

    def _never(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError("folders of HDFS are not changed")

    open_append_stream = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _never
    move = copy_file = _never


class _Appearing(io.RawIOBase):
    """A new file, written under another name, and renamed when it is closed unless a write has failed."""

    def __init__(self, client: HdfsClient, path: str) -> None:
        super().__init__()
        folder, _, name = path.rpartition("/")
        self._client = client
        self._path = path
        # Engines that read all files of a folder skip names that begin with a dot.
        self._part = f"{folder}/.{name}.{uuid4().hex}.part"
        with client.call(path) as connected:
            self._writer = connected.create(self._part)
        self._is_whole = True

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, content: Any) -> int:  # noqa: ANN401 - any buffer
        """Writes all of the content."""
        self._is_whole, was_whole = False, self._is_whole
        with self._client.call(self._path):
            self._writer.write(bytes(content))
        self._is_whole = was_whole
        return len(content)

    def close(self) -> None:
        """Ends the file, which then has its name."""
        if self.closed:
            return
        super().close()
        with self._client.call(self._path) as client:
            if self._is_whole:
                self._writer.close()
                client.rename(self._part, self._path, True)  # noqa: FBT003 - in place of a file of that name
            else:
                client.delete(self._part, False)  # noqa: FBT003


def open_hdfs(
    scheme: str, uri: str, options: Mapping[str, Any], open_other: Callable[[str], tuple[fs.FileSystem, str]]
) -> tuple[fs.FileSystem, str]:
    """The file system of an ``hdfs://`` or ``viewfs://`` URI, and the path on it.

    ``open_other`` opens the URI to which a link of ``viewfs://`` leads if that is none of HDFS.

    Raises:
        QueryError: an option is unknown or has an invalid value.
        ModuleNotFoundError: the extra is not installed.
        ValueError: the URI or the settings name no NameNode or link.
        OSError: a file of settings cannot be read.
    """
    authority, _, names = uri.partition("://")[2].partition("/")
    if sign := re.search("[?#]", f"{authority}{names}"):
        raise ValueError(f"{sign[0]} in the URI, expected {'%3F' if sign[0] == '?' else '%23'} if it is of a name")
    path = "/" + "/".join(filter(None, unquote(names).split("/")))
    if scheme == "viewfs":
        settings = HadoopSettings.load(options)
        _require_extra(scheme)
        target = settings.linked(authority, path)
        if not target.startswith("hdfs://"):
            return open_other(target)
        return open_hdfs("hdfs", target, options, open_other)
    return fs.PyFileSystem(HdfsHandler(authority, options)), path


def _require_extra(scheme: str) -> None:
    with needing_extra("hdfs", "hdfs_native", by=f"{scheme}://"):
        import hdfs_native  # noqa: F401, PLC0415 - before a request says so


def _absolute(path: str) -> str:
    """The path from the root on; others would be relative to the user's folder."""
    return path if path.startswith("/") else f"/{path}"


def _info(path: str, status: Any) -> fs.FileInfo:  # noqa: ANN401
    kind = fs.FileType.Directory if status.isdir else fs.FileType.File
    modified = status.modification_time * _NANOSECONDS_OF_A_MILLISECOND
    return fs.FileInfo(path, kind, size=None if status.isdir else status.length, mtime_ns=modified)
