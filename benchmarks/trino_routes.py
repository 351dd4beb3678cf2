"""The routes by which Trino reads a table: for each, the relation to select from, and the process of its service.

All is set up before the clock starts, except what a route does for its first query.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.service_process import iceberg_service
from hudi_bridge import HudiTable
from hudi_bridge.connectors.scratch import Locations
from hudi_bridge.connectors.trino.publish import publish_log_records
from hudi_bridge.connectors.trino.sql_types import Dialect, identifier, literal, stored_type
from hudi_bridge.connectors.trino.sql_types import options as with_options
from hudi_bridge.connectors.trino.views import statements
from tests.integration.trino_catalogs import iceberg_properties
from tests.integration.trino_server import Trino

SCHEMA = "benchmark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A relation to select from.

    Attributes:
        name: what follows ``FROM``.
        service: the id of the process that serves the table to Trino, if any.
        session: the statements that set up the session.
    """

    name: str
    service: int | None = None
    session: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Publishing:
    """The cost of publishing a table for SQL views, and the bytes written."""

    seconds: float
    cpu_seconds: float
    size_bytes: int


def base_files(trino: Trino, catalog: str, table: HudiTable) -> Relation:
    """An external table on the folder of the table, which must have one base file per file group."""
    columns = ", ".join(
        f"{identifier(field.name)} {stored_type(field.type, Dialect.TRINO, field.name)}" for field in table.schema
    )
    name = f"{catalog}.{SCHEMA}.base_files"
    settings = with_options({"external_location": f"local://{table.path}", "format": "PARQUET"})
    trino.query(f"CREATE SCHEMA IF NOT EXISTS {catalog}.{SCHEMA}")
    trino.query(f"CREATE TABLE {name} ({columns}) WITH ({settings})")
    return Relation(name=name)


def sql_view(
    trino: Trino, catalog: str, table: HudiTable, folder: Path, view: str, *, unmerged: bool = False
) -> tuple[Relation, Publishing]:
    """The view of that name on base files and log records, which are published into an empty ``folder``.

    With ``unmerged``, log blocks are published, which Trino decodes and merges in each query. The session is the one
    that the guide recommends.
    """
    start, start_cpu = time.perf_counter(), time.process_time()
    published = publish_log_records(table, str(folder), locations=Locations.of(("/=local:///",)), unmerged=unmerged)
    publishing = Publishing(
        seconds=time.perf_counter() - start,
        cpu_seconds=time.process_time() - start_cpu,
        size_bytes=sum(path.stat().st_size for path in folder.rglob("*.parquet")),
    )
    for one in statements(published.publication, catalog=catalog, schema=SCHEMA, view=view):
        trino.query(one)
    broadcast = "SET SESSION join_distribution_type = 'BROADCAST'"
    return Relation(name=f"{catalog}.{SCHEMA}.{view}", session=(broadcast,)), publishing


@contextmanager
def iceberg_table(trino: Trino, table: Path, scratch: Path, *options: str) -> Iterator[Relation]:
    """The table in the catalog of a new service, which has not loaded it yet."""
    with iceberg_service(table, scratch, options) as (url, process), _catalog(trino, url) as catalog:
        yield Relation(name=f"{catalog}.default.trades", service=process)


@contextmanager
def _catalog(trino: Trino, url: str) -> Iterator[str]:
    """An Iceberg catalog in which Trino has listed schemas, so that it is connected to the service."""
    name = f"iceberg_{url.rpartition(':')[2]}"
    with trino.catalog(name, "iceberg", iceberg_properties(url)) as catalog:
        trino.query(f"SHOW SCHEMAS FROM {catalog} LIKE {literal('default')}")
        yield catalog
