"""Hudi tables of a Hive metastore, by the Thrift client that PyIceberg has."""

import errno
import io
import logging
import ssl
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from hudi_bridge.catalogs.tables import CatalogTable, Namespace, registered_table
from hudi_bridge.common.imports import needing_extra
from hudi_bridge.common.kerberos import GssContext
from hudi_bridge.common.threads import timeout_seconds
from hudi_bridge.errors import QueryError, StorageError

if TYPE_CHECKING:
    from hive_metastore.ttypes import Table

DEFAULT_PORT = 9083
_TABLES_A_REQUEST = 200
_MILLISECONDS = 1000
_PARAMETERS = ("kerberos", "kerberos-principal", "tls", "ca-file")
_BOOLEANS = {"true": True, "false": False}
_START, _OK, _COMPLETE = 1, 2, 5
"""States of a login in Thrift."""
_UNPROTECTED, _SIGNED, _ENCRYPTED = 1, 2, 4
"""Layers of SASL, as bits of those that a server offers."""
_MOST_LOGIN_BYTES, _MOST_FRAME_BYTES = 1 << 20, 1 << 28
_LARGEST_MESSAGE = (1 << 24) - 1
# Otherwise, Thrift also prints to standard error what it raises as an exception.
logging.getLogger("thrift").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveSecurity:
    """How a metastore is reached. ``service`` is its principal for Kerberos, or the name of a service at a host."""

    service: str | None = None
    tls: bool = False
    ca_file: str | None = None

    @classmethod
    def of_parameters(cls, host: str, parameters: Mapping[str, str]) -> Self:
        """What the parameters of a URI say.

        Raises:
            QueryError: one is unknown, or has an invalid value.
        """
        for name, value in parameters.items():
            if name not in _PARAMETERS:
                raise QueryError("catalog", f"the parameter {name!r}", ", ".join(_PARAMETERS))
            if name in ("kerberos", "tls") and value not in _BOOLEANS:
                raise QueryError("catalog", f"{name}={value!r}", "true or false")
        service = None
        if principal := parameters.get("kerberos-principal"):
            # As in hive-site.xml, where it is that of any host.
            service = principal.replace("_HOST", host) if "/" in principal else f"{principal}@{host}"
        elif _BOOLEANS[parameters.get("kerberos", "false")]:
            service = f"hive@{host}"
        ca_file = parameters.get("ca-file")
        return cls(
            service=service, tls=_BOOLEANS[parameters.get("tls", str(ca_file is not None).lower())], ca_file=ca_file
        )


class HiveCatalog:
    """The databases of a metastore as namespaces of one level. Names are in lower case, as Hive has them."""

    def __init__(self, host: str, port: int = DEFAULT_PORT, security: HiveSecurity | None = None) -> None:
        self._host = host
        self._port = port
        self._security = security or HiveSecurity()

    @property
    def shown_uri(self) -> str:
        """The URI of the metastore."""
        return f"hive://{self._host}:{self._port}"

    def namespaces(self, parent: Namespace = ()) -> list[Namespace]:
        """The databases; they have no children."""
        if parent:
            return []
        with self._client("list the databases") as client:
            return sorted((name,) for name in client.get_all_databases())

    def table_names(self, namespace: Namespace) -> list[str]:
        """The names of the Hudi tables of a database; none if it does not exist."""
        if len(namespace) != 1:
            return []
        with self._client(f"list the tables of {namespace[0]!r}") as client:
            names = client.get_all_tables(namespace[0].lower())
            groups = (names[at : at + _TABLES_A_REQUEST] for at in range(0, len(names), _TABLES_A_REQUEST))
            tables = [table for group in groups for table in _tables(client, namespace[0].lower(), group)]
        return sorted(table.tableName for table in tables if _table_of_hudi(table) is not None)

    def find(self, namespace: Namespace, name: str) -> CatalogTable | None:
        """The Hudi table of that name; None if there is no table, or it is not a Hudi table."""
        if len(namespace) != 1:
            return None
        with self._client(f"find the table {namespace[0]}.{name}") as client:
            tables = _tables(client, namespace[0].lower(), [name.lower()])
        return _table_of_hudi(tables[0]) if tables else None

    @contextmanager
    def _client(self, doing: str) -> Iterator[Any]:
        with needing_extra("hive", "hive_metastore", "thrift", by="hive://"):
            from hive_metastore.ThriftHiveMetastore import Client  # noqa: PLC0415 - an extra
            from thrift.protocol.TBinaryProtocol import TBinaryProtocol  # noqa: PLC0415
            from thrift.protocol.TProtocol import TProtocolException  # noqa: PLC0415
            from thrift.Thrift import TException  # noqa: PLC0415
            from thrift.transport.TSocket import TSocket  # noqa: PLC0415
            from thrift.transport.TTransport import TBufferedTransport, TTransportException  # noqa: PLC0415
        with ExitStack() as stack:
            try:
                socket = TSocket(self._host, self._port)
                socket.setTimeout(timeout_seconds() * _MILLISECONDS)
                stack.callback(socket.close)
                socket.open()
                if self._security.tls:
                    context = ssl.create_default_context(cafile=self._security.ca_file)
                    socket.setHandle(context.wrap_socket(socket.handle, server_hostname=self._host))
                transport = TBufferedTransport(socket)
                if self._security.service is not None:
                    login = GssContext(self._security.service)
                    stack.callback(login.close)
                    transport = _SaslTransport(transport, login)
                yield Client(TBinaryProtocol(transport))
            except (TProtocolException, TTransportException) as error:
                text = str(error.message or error)
                has_no_answer = isinstance(error, TTransportException) and error.type in (
                    TTransportException.NOT_OPEN,
                    TTransportException.TIMED_OUT,
                )
                if self._security == HiveSecurity() and not has_no_answer:
                    # All that is seen of a metastore that wants a login: an answer of another protocol, or an end.
                    text += "; a metastore with Kerberos needs ?kerberos=true in the URI, one with TLS ?tls=true"
                raise StorageError(self.shown_uri, doing, text, errno.EIO) from error
            except (TException, OSError, EOFError, UnicodeError) as error:
                # Errors of the metastore have their text in an attribute.
                text = str(getattr(error, "message", None) or getattr(error, "strerror", None) or error)
                number = error.errno if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None
                raise StorageError(self.shown_uri, doing, text or type(error).__name__, number or errno.EIO) from error


class _SaslTransport:
    """Thrift's transport with a login by Kerberos, over a connection that is open.

    Thrift's own takes packages whose code in C is compiled when they are installed.
    """

    def __init__(self, connection: Any, login: GssContext) -> None:  # noqa: ANN401 - the client has no types
        self._connection = connection
        self._login = login
        self._request = bytearray()
        self._answer = io.BytesIO()
        self._send(_START, b"GSSAPI")
        self._send(_OK, login.step(b""))
        while not login.is_complete:
            self._send(_OK, login.step(self._received(_OK)))
        # The server has a choice of layers, and the largest message that it takes.
        offered = login.unwrap(self._received(_OK))[0]
        self._layer = next(layer for layer in (_ENCRYPTED, _SIGNED, _UNPROTECTED) if layer & offered)
        largest = 0 if self._layer == _UNPROTECTED else _LARGEST_MESSAGE
        choice = struct.pack(">I", self._layer << 24 | largest)
        self._send(_OK, login.wrap(choice, is_private=False))
        self._received(_COMPLETE)

    def _send(self, state: int, content: bytes) -> None:
        self._connection.write(struct.pack(">BI", state, len(content)) + content)
        self._connection.flush()

    def _received(self, expected: int) -> bytes:
        state, size = struct.unpack(">BI", self._connection.readAll(5))
        if size > _MOST_LOGIN_BYTES:
            raise OSError(errno.EPROTO, f"found {size} bytes of a login, expected a metastore with Kerberos")
        content: bytes = self._connection.readAll(size)
        if state != expected:
            text = content.decode(errors="replace") or f"state {state}"
            raise OSError(errno.EACCES, f"no Kerberos login: the metastore says {text}")
        return content

    def write(self, content: bytes) -> None:
        """Adds to the request."""
        self._request += content

    def flush(self) -> None:
        """Sends the request."""
        content = bytes(self._request)
        self._request.clear()
        if self._layer != _UNPROTECTED:
            content = self._login.wrap(content, is_private=self._layer == _ENCRYPTED)
        self._connection.write(struct.pack(">I", len(content)) + content)
        self._connection.flush()

    def readAll(self, size: int) -> bytes:  # noqa: N802 - Thrift's name
        """The next bytes of the answer."""
        content = self._answer.read(size)
        while len(content) < size:
            (length,) = struct.unpack(">I", self._connection.readAll(4))
            if length > _MOST_FRAME_BYTES:
                raise OSError(errno.EPROTO, f"found an answer of {length} bytes, expected {_MOST_FRAME_BYTES} at most")
            frame = self._connection.readAll(length)
            self._answer = io.BytesIO(frame if self._layer == _UNPROTECTED else self._login.unwrap(frame))
            content += self._answer.read(size - len(content))
        return content


def _tables(client: Any, database: str, names: list[str]) -> "list[Table]":  # noqa: ANN401 - the client has no types
    """The existing tables with these names; none if there is no such database."""
    from hive_metastore.ttypes import GetTablesRequest, UnknownDBException  # noqa: PLC0415 - an extra

    request = GetTablesRequest(dbName=database, tblNames=names)
    try:
        tables: list[Table] = client.get_table_objects_by_name_req(request).tables
    except UnknownDBException:
        return []
    return tables


def _table_of_hudi(table: "Table") -> CatalogTable | None:
    descriptor = table.sd
    serde = None if descriptor is None else descriptor.serdeInfo
    return registered_table(
        table.tableName,
        None if descriptor is None else descriptor.location,
        None if descriptor is None else descriptor.inputFormat,
        table.parameters or {},
        (serde.parameters if serde else None) or {},
    )
