"""Hudi tables of a Hive metastore, by the Thrift client that PyIceberg has."""

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hudi_bridge.catalogs.tables import CatalogTable, Namespace, registered_table
from hudi_bridge.common.imports import needing_extra
from hudi_bridge.common.threads import timeout_seconds
from hudi_bridge.errors import StorageError

if TYPE_CHECKING:
    from hive_metastore.ttypes import Table

DEFAULT_PORT = 9083
_TABLES_A_REQUEST = 200
_MILLISECONDS = 1000
# Otherwise, Thrift also prints to standard error what it raises as an exception.
logging.getLogger("thrift").addHandler(logging.NullHandler())


class HiveCatalog:
    """The databases of a metastore as namespaces of one level. Names are in lower case, as Hive has them."""

    def __init__(self, host: str, port: int = DEFAULT_PORT) -> None:
        self._host = host
        self._port = port

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
            from thrift.Thrift import TException  # noqa: PLC0415
            from thrift.transport.TSocket import TSocket  # noqa: PLC0415
            from thrift.transport.TTransport import TBufferedTransport, TTransportException  # noqa: PLC0415
        socket = TSocket(self._host, self._port)
        socket.setTimeout(timeout_seconds() * _MILLISECONDS)
        transport = TBufferedTransport(socket)
        try:
            transport.open()
            yield Client(TBinaryProtocol(transport))
        except TTransportException as error:
            raise StorageError(self.shown_uri, doing, str(error.message or error), errno.EIO) from error
        except (TException, OSError, EOFError, UnicodeError) as error:
            # Errors of the metastore have their text in an attribute.
            text = str(getattr(error, "message", None) or error) or type(error).__name__
            raise StorageError(self.shown_uri, doing, text, errno.EIO) from error
        finally:
            transport.close()


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
