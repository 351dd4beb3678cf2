"""The views of ``trino sql`` on a server, for tests: publish, create, query, and compare with other rows."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge import HudiTable
from hudi_bridge.connectors.iceberg.columns import with_types
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.connectors.trino.publication import Publication, read_slices
from hudi_bridge.connectors.trino.publish import publish_log_records
from hudi_bridge.connectors.trino.sql_types import Engine
from hudi_bridge.connectors.trino.views import statements
from tests.integration.server_process import Server
from tests.integration.trino_catalogs import hive_properties
from tests.integration.trino_rows import rows_like
from tests.integration.trino_server import Trino
from tests.support.compare import differences
from tests.support.table_writer import TableWriter, at


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRoute:
    """A schema of a Hive catalog over the whole machine, and a folder of the test's."""

    server: Server
    engine: Engine
    locate: str
    catalog: str
    schema: str
    folder: Path

    @property
    def place(self) -> str:
        return f"{self.catalog}.{self.schema}"

    @property
    def published(self) -> str:
        return str(self.folder / "published")

    def publish(
        self, table: HudiTable, *, blocks: bool = False, cut_times: bool = False, unmerged: bool = False
    ) -> Publication:
        done = publish_log_records(
            table,
            self.published,
            engine=self.engine,
            cut_times=cut_times,
            locations=Locations.of((self.locate,)),
            blocks=blocks,
            unmerged=unmerged,
        )
        return done.publication

    def create(self, publication: Publication, *, view: str = "v") -> None:
        slices = read_slices(Scratch.open(self.published), publication)
        for statement in statements(publication, catalog=self.catalog, schema=self.schema, view=view, slices=slices):
            self.server.query(statement)

    def query(self, sql: str) -> list[Any]:
        return self.server.query(sql.replace("FROM v", f"FROM {self.place}.v"))

    def differences_from(self, expected: pa.Table) -> list[str]:
        """How the rows of the view differ from the rows of a table."""
        if self.engine is Engine.PRESTO:
            expected = as_presto_shows(expected)
        return differences(expected, rows_like(self.server, f"{self.place}.v", expected))


def as_presto_shows(table: pa.Table) -> pa.Table:
    """The table with times as whole numbers of microseconds; timestamps of milliseconds stay."""

    def shown(kind: Any) -> Any:
        is_number = pa.types.is_time64(kind) or (pa.types.is_timestamp(kind) and kind.unit == "us")
        return pa.int64() if is_number else kind

    return table.cast(with_types(table.schema, shown))


FIELDS = (("id", "string"), ("ts", "long"), ("n", "long"), ("note", "string"))


def written(folder: Path, block_of: Callable[[TableWriter], bytes], options: Mapping[str, str]) -> TableWriter:
    """A table of three base rows and a log block."""
    writer = TableWriter(folder=folder, fields=FIELDS, options=options).create()
    writer.base_file(at(1), [{"id": key, "ts": 5, "n": 1, "note": f"base {key}"} for key in "abc"])
    writer.log_file(at(2), [block_of(writer)])
    writer.commit(at(1))
    writer.commit(at(2))
    return writer


def in_two_cities(folder: Path) -> TableWriter:
    """Two partitions with a base file each, of which one has a log."""
    fields = (("id", "string"), ("ts", "long"), ("raw", "bytes"), ("city", "string"))
    options = {"hoodie.datasource.write.drop.partition.columns": "true"}
    writer = TableWriter(folder=folder, fields=fields, partition_fields=("city",), options=options).create()
    for city in ("rome", "oslo"):
        rows = [{"id": f"{city} {number}", "ts": number, "raw": b"x", "city": city} for number in range(3)]
        writer.base_file(at(1), rows, file_id=f"{city}-0", partition=city)
    block = writer.data_block(at(2), [{"id": "rome 1", "ts": 9, "raw": b"y", "city": "rome"}], partition="rome")
    writer.log_file(at(2), [block], file_id="rome-0", partition="rome")
    writer.commit(at(1))
    writer.commit(at(2))
    return writer


ORDERINGS = pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("double", [None, -1.5, -0.0, 0.0, 2.5, float("inf"), float("-inf"), float("nan")]),
        ("string", [None, "", "a", "B", "é", "\uffff", "😀"]),
        ("int", [None, -1, 0, 1]),
    ],
)


def ordered(folder: Path, version: int, kind: str, values: list[Any]) -> TableWriter:
    """A base row and a log record for each pair of ordering values."""
    writer = TableWriter(folder=folder, version=version, fields=(("id", "string"), ("ts", kind))).create()
    pairs = [(f"{i}/{j}", one, other) for i, one in enumerate(values) for j, other in enumerate(values)]
    writer.base_file(at(1), [{"id": key, "ts": one} for key, one, _ in pairs])
    block = writer.data_block(at(2), [{"id": key, "ts": other} for key, _, other in pairs])
    writer.log_file(at(2), [block], base_instant=at(1))
    writer.commit(at(1))
    writer.commit(at(2))
    return writer


@contextmanager
def hive_catalog(trino: Trino, metastore: Path) -> Iterator[str]:
    """A Hive catalog over the whole machine, with its metastore in a folder."""
    with trino.catalog(f"hive_{uuid.uuid4().hex[:8]}", "hive", hive_properties(metastore)) as name:
        yield name


def route_in(trino: Trino, catalog: str, schema: str, folder: Path) -> SqlRoute:
    """The route through a schema, for a folder with a table and published files."""
    return SqlRoute(
        server=trino, engine=Engine.TRINO, locate="/=local:///", catalog=catalog, schema=schema, folder=folder
    )
