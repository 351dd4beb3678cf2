"""A metastore for tests: Hive's protocol, answered from a few tables in memory."""

import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from hive_metastore import ThriftHiveMetastore
from hive_metastore.ttypes import (
    GetTablesRequest,
    GetTablesResult,
    MetaException,
    SerDeInfo,
    StorageDescriptor,
    Table,
    UnknownDBException,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocolFactory
from thrift.server.TServer import TThreadedServer
from thrift.transport.TSocket import TServerSocket
from thrift.transport.TTransport import TBufferedTransportFactory

READ_OPTIMIZED_FORMAT = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
REALTIME_FORMAT = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"


def hive_table(name: str, location: str, *, input_format: str, as_read_optimized: bool | None) -> Table:
    """A table as Hudi's sync registers it; ``as_read_optimized`` None as by releases that did not say it."""
    said = {} if as_read_optimized is None else {"hoodie.query.as.ro.table": str(as_read_optimized).lower()}
    serde = SerDeInfo(parameters={"path": location} | said)
    return Table(
        tableName=name,
        sd=StorageDescriptor(location=location, inputFormat=input_format, serdeInfo=serde),
        parameters={"spark.sql.sources.provider": "hudi"} if as_read_optimized is not None else {},
    )


@dataclass(kw_only=True)
class Metastore:
    """The tables by database; ``asked`` counts the requests for tables."""

    databases: dict[str, list[Table]]
    port: int = 0
    asked: list[Sequence[str]] = field(default_factory=list)
    refuses: bool = False

    @property
    def uri(self) -> str:
        return f"hive://127.0.0.1:{self.port}"

    def get_all_databases(self) -> list[str]:
        if self.refuses:
            raise MetaException("no right to list databases")
        return list(self.databases)

    def get_all_tables(self, database: str) -> list[str]:
        return [table.tableName for table in self.databases.get(database, ())]

    def get_table_objects_by_name_req(self, request: GetTablesRequest) -> Any:
        self.asked.append(request.tblNames)
        if request.dbName not in self.databases:
            raise UnknownDBException(f"no database {request.dbName}")
        tables = self.databases[request.dbName]
        return GetTablesResult(tables=[table for table in tables if table.tableName in request.tblNames])


@contextmanager
def served(metastore: Metastore, tls: ssl.SSLContext | None = None) -> Iterator[Metastore]:
    """Serve it on a port of this machine, with TLS if there is a context."""
    socket = TServerSocket("127.0.0.1", 0)
    socket.listen()
    metastore.port = socket.handle.getsockname()[1]
    server = _Server(
        ThriftHiveMetastore.Processor(metastore), socket, TBufferedTransportFactory(), TBinaryProtocolFactory()
    )
    server.tls = tls
    Thread(target=server.serve, daemon=True).start()
    try:
        yield metastore
    finally:
        socket.close()


class _Server(TThreadedServer):  # type: ignore[misc] # the library has no types
    tls: ssl.SSLContext | None = None

    def serve(self) -> None:
        while True:
            try:
                client = self.serverTransport.accept()
            except (OSError, AttributeError):
                return
            Thread(target=self.answer, args=(client,), daemon=True).start()

    def answer(self, client: Any) -> None:
        # A client that does not trust the certificate ends the connection.
        with suppress(OSError):
            if self.tls is not None:
                client.setHandle(self.tls.wrap_socket(client.handle, server_side=True))
            self.handle(client)


def of_trips(folder: Path) -> list[Table]:
    """What Hudi's sync registers of a merge-on-read table with the name ``trips``, but for ``trips_rt``."""
    location = f"file:{folder}"
    return [
        hive_table("trips", location, input_format=REALTIME_FORMAT, as_read_optimized=False),
        hive_table("trips_ro", location, input_format=READ_OPTIMIZED_FORMAT, as_read_optimized=True),
    ]
