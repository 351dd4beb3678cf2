"""Tables of which no commit on the active timeline has a schema: the columns come from a data file or the archive.

The tables are golden ones without the schemas of their commits; Hudi's answers to them are those with the schemas.
"""

import io
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pytest

from hudi_bridge import HudiTable, UnsupportedTableError
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.tools.checks.examination import examine
from hudi_bridge.tools.checks.findings import Severity
from tests.support.golden_cases import golden_base_formats, golden_table
from tests.support.strength import one_in

TABLES = (
    "a_story_v6_0150",
    "a_story_v9_120",
    "d_archived_0150",
    "d_archived_120",
    "d_log_only_120",
    "e_drop_part_cols_0150",
    "e_virtual_keys_0150",
    "f_types_0150",
    "f_types_parquet_120",
    "i_cow_120",
    "w_operation_120",
)
QUERIES: dict[str, Callable[[HudiTable], pa.Table]] = {
    "snapshot": lambda table: table.snapshot().to_table(),
    "read optimized": lambda table: table.read_optimized().to_table(),
    "time travel": lambda table: table.snapshot(as_of=last_instant(table)).to_table(),
}


def last_instant(table: HudiTable) -> str:
    return table.timeline.commits()[-1].requested_time


def base_format_table(case: str) -> Path:
    return next(query.table for query in golden_base_formats() if query.case == case)


def without_schemas(whole: str | Path, folder: Path, *, of_empty_batches: bool = False) -> Path:
    """A copy of a table, a golden one by its name.

    With ``of_empty_batches``, its commits on the active timeline name no file either.
    """
    table = folder / "t"
    shutil.copytree(golden_table(whole) if isinstance(whole, str) else whole, table)
    timeline = table / ".hoodie" / "timeline"
    for path in (timeline if timeline.is_dir() else table / ".hoodie").glob("*commit"):
        content = path.read_bytes()
        if not content.startswith(b"Obj"):
            path.write_text(json.dumps(_without_schema(json.loads(content), of_empty_batches=of_empty_batches)))
            continue
        reader = fastavro.reader(io.BytesIO(content))
        records = [_without_schema(record, of_empty_batches=of_empty_batches) for record in reader]
        with path.open("wb") as file:
            fastavro.writer(file, reader.writer_schema or {}, records)
    properties = table / ".hoodie" / "hoodie.properties"
    lines = properties.read_text().splitlines(keepends=True)
    properties.write_text("".join(line for line in lines if not line.startswith("hoodie.table.create.schema")))
    return table


def _without_schema(commit: Any, *, of_empty_batches: bool) -> dict[str, Any]:
    extra = {key: text for key, text in (commit.get("extraMetadata") or {}).items() if key != "latest_schema"}
    changed = {"extraMetadata": extra | {"schema": ""}}
    return {**commit, **changed, **({"partitionToWriteStats": {}} if of_empty_batches else {})}


def rows_of(table: pa.Table) -> tuple[pa.Schema, list[str]]:
    return table.schema, sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize("of_empty_batches", [False, True])
@pytest.mark.parametrize("name", one_in(4, TABLES))
def test_queries_return_what_they_return_with_schemas(name: str, of_empty_batches: bool, tmp_path: Path) -> None:
    table = HudiTable.open(without_schemas(name, tmp_path, of_empty_batches=of_empty_batches))
    whole = HudiTable.open(golden_table(name))
    for query, ask in QUERIES.items():
        assert rows_of(ask(table)) == rows_of(ask(whole)), query


def test_changes_and_ranges_return_what_they_return_with_schemas(tmp_path: Path) -> None:
    table, whole = (
        HudiTable.open(path) for path in (without_schemas("i_cdc_120", tmp_path), golden_table("i_cdc_120"))
    )
    after = whole.timeline.commits()[0].requested_time
    assert rows_of(table.changes(after=after).to_table()) == rows_of(whole.changes(after=after).to_table())
    assert rows_of(table.incremental(after=after).to_table()) == rows_of(whole.incremental(after=after).to_table())


def test_engines_have_the_columns(tmp_path: Path) -> None:
    table = without_schemas("d_archived_0150", tmp_path, of_empty_batches=True)
    with duckdb.connect() as connection:
        attach(connection, table, name="t")
        count, columns = connection.sql("select count(*), count(name) from t").fetchall()[0]
    whole = HudiTable.open(golden_table("d_archived_0150")).snapshot().to_table()
    assert (count, columns) == (whole.num_rows, whole.num_rows - whole.column("name").null_count)


def test_the_newest_archived_commit_decides(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = without_schemas("d_archived_120", tmp_path, of_empty_batches=True)
    with caplog.at_level(logging.WARNING):
        HudiTable.open(table).snapshot().to_table()
        HudiTable.open(table).snapshot().to_table()
    (warning,) = (record.message for record in caplog.records)
    assert (
        f"{table}: no commit on the active timeline has a schema; the columns are those of the archived commit"
        in warning
    )


def test_doctor_says_where_the_columns_are_from(tmp_path: Path) -> None:
    table = without_schemas("a_story_v6_0150", tmp_path)
    (finding,) = (item for item in examine(table).findings if item.check == "schema-history")
    assert finding.severity is Severity.WARNING
    assert "no commit with a schema; the columns are those of " in finding.found
    assert finding.path == ".hoodie"


def test_nothing_tells_the_columns(tmp_path: Path) -> None:
    table = without_schemas(base_format_table("orc_cow"), tmp_path)
    for query in ("snapshot", "read_optimized"):
        with pytest.raises(UnsupportedTableError, match=r"table schema: found none in the commits.*\.orc"):
            getattr(HudiTable.open(table), query)().to_table()
    assert [finding for finding in examine(table).findings if "table schema none in the commits" in finding.found]


def test_a_table_to_which_nothing_was_written_has_no_columns(tmp_path: Path) -> None:
    table = without_schemas("i_empty_120", tmp_path)
    assert HudiTable.open(table).snapshot().to_table().shape == (0, 0)
