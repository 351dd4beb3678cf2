"""Files that are encrypted as Parquet defines it are said to be so, and not to be damaged."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiTable, UnsupportedTableError, tools
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.connectors.split_tasks import TableQuery
from hudi_bridge.logformat.parquet import decode_parquet_block, parquet_block_schema
from hudi_bridge.storage.storage import Storage
from hudi_bridge.table import RowsArguments
from tests.support.encryption import COLUMNS, WHOLE, encrypted
from tests.support.table_writer import TableWriter, at

FORMS = {WHOLE: "is encrypted", COLUMNS: "has encrypted columns"}
READS: dict[str, Callable[[HudiTable], object]] = {
    "snapshot": lambda table: table.snapshot().to_table(),
    "stream": lambda table: list(table.snapshot().to_batches()),
    "other columns": lambda table: table.snapshot().to_table(columns=["id"]),
    "filter": lambda table: table.snapshot().to_table(filter=pc.field("value") == "1"),
    "keys": lambda table: table.get("a"),
    "count": lambda table: table.snapshot().count_rows(),
    "read optimized": lambda table: table.read_optimized().to_table(),
}


def only_base_path(table: HudiTable) -> str:
    (piece,) = table.file_slices()
    assert piece.base_file is not None
    return piece.base_file.path


@pytest.fixture(params=[(WHOLE, False), (COLUMNS, False), (COLUMNS, True)], ids=str)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A table whose base file is encrypted, with a Bloom filter in its footer or without, and what is said of it."""
    form, with_key_index = request.param
    folder = tmp_path / "table"
    folder.mkdir()
    writer = TableWriter(folder=folder).create()
    rows = [{"id": "a", "value": "1", "ts": 1}, {"id": "b", "value": "2", "ts": 1}]
    writer.base_file(at(1), rows, with_key_index=with_key_index)
    writer.commit(at(1))
    path = folder / only_base_path(writer.open())
    path.write_bytes(encrypted(pq.read_table(path), form, ["value"]))
    return folder, FORMS[form]


@pytest.mark.parametrize("read", READS)
def test_an_encrypted_base_file_is_refused_by_name(table: tuple[Path, str], read: str) -> None:
    folder, what = table
    with pytest.raises(UnsupportedTableError, match=f"Parquet encryption: found .*, which {what}"):
        READS[read](HudiTable.open(folder))


def test_the_columns_of_a_file_are_known_unless_its_footer_is_encrypted(table: tuple[Path, str]) -> None:
    opened = HudiTable.open(table[0])
    if table[1] == FORMS[COLUMNS]:
        assert opened.file_columns(only_base_path(opened))
        return
    with pytest.raises(UnsupportedTableError, match="is encrypted"):
        opened.file_columns(only_base_path(opened))


def test_engines_refuse_an_encrypted_base_file(table: tuple[Path, str], tmp_path: Path) -> None:
    folder, what = table
    with duckdb.connect() as connection:
        attach(connection, HudiTable.open(folder), "rows")
        with pytest.raises(duckdb.Error, match=what):
            connection.sql("FROM rows").to_arrow_table()
    with pytest.raises(UnsupportedTableError, match=what):
        publish_table(
            Storage.open(str(folder)), Scratch.open(str(tmp_path / "published")), locations=Locations(), builds=1
        )


def test_doctor_does_not_take_an_encrypted_file_for_damaged(table: tuple[Path, str]) -> None:
    folder, what = table
    findings = [
        finding for finding in tools.doctor(HudiTable.open(folder), deep=True).findings if what in finding.found
    ]
    assert findings
    assert not any("backup" in (finding.remedy or "") for finding in findings)


ALL = RowsArguments(as_of=None, read_optimized=False, after=None, up_to=None)
ALSO_READS: dict[str, Callable[[HudiTable], object]] = {
    **READS,
    "past": lambda table: list(table.snapshot(at(1)).to_batches(filter=pc.field("id") == "b2")),
    "range": lambda table: list(table.incremental("earliest").to_batches(columns=["id"])),
    "changes": lambda table: list(table.changes(at(1)).to_batches()),
    "one partition's keys": lambda table: table.get("b0"),
    "tasks": lambda table: [
        list(task.batches()) for task in TableQuery(table=table, rows=ALL, columns=("id",)).tasks()
    ],
    "explain": lambda table: table.snapshot().explain(),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_encrypted_base_file_among_plain_ones_is_refused_by_every_read(form: str, tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "table").create()
    rows = [[{"id": f"{key}{number}", "value": "1", "ts": 1} for key in "ab"] for number in range(3)]
    files = [writer.base_file(at(1), part, file_id=f"f{number}-0") for number, part in enumerate(rows)]
    writer.commit(at(1), wrote=files)
    blocks = [
        writer.data_block(at(2), [{**part[0], "ts": 2}], file_id=f"f{number}-0") for number, part in enumerate(rows)
    ]
    logs = [writer.log_file(at(2), [block], file_id=f"f{number}-0") for number, block in enumerate(blocks)]
    writer.commit(at(2), wrote=logs)
    files[-1].write_bytes(encrypted(pq.read_table(files[-1]), form, ["value"]))
    for name, read in ALSO_READS.items():
        with pytest.raises(UnsupportedTableError, match=f"Parquet encryption: found f2-0_.*, which {FORMS[form]}"):
            pytest.fail(f"{name}: {read(writer.open())}")


@pytest.mark.parametrize("form", FORMS)
def test_encrypted_log_blocks_are_refused_by_name(form: str) -> None:
    content = pa.py_buffer(encrypted(pa.table({"id": ["a"], "value": ["1"]}), form, ["value"]))
    for read in (
        lambda: parquet_block_schema(content, "log", 7),
        lambda: decode_parquet_block(content, ["id"], "log", 7),
    ):
        with pytest.raises(UnsupportedTableError, match=f"log at byte 7, which {FORMS[form]}"):
            read()
