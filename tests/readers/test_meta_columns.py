"""Files that lack meta columns, or whose rows say that they are of another file or partition.

What Hudi 0.15.0 and 1.2.0 answer was tried: both fail to merge without record keys; without commit times, 0.15.0 fails
on ranges, and 1.2.0 returns rows of logs alone. Of exchanged files, both return the rows.
"""

import json
import logging
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import CorruptBaseFileError, CorruptLogFileError, HudiReadError, HudiTable, UnsupportedTableError
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.logformat.layout import BlockType, HeaderKey
from hudi_bridge.tools.checks.examination import examine
from hudi_bridge.tools.checks.findings import Severity
from tests.logformat.log_writer import avro_content, log_block
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at

ROWS = [{"id": "a", "ts": 1, "value": "x"}, {"id": "b", "ts": 1, "value": "y"}]
META = pytest.mark.parametrize("name", ["c_data_and_delete_block_0150", "b_event_time_120"])


def bases(table: Path) -> list[Path]:
    return sorted(path for path in table.rglob("*.parquet") if ".hoodie" not in path.relative_to(table).parts)


def without(table: Path, columns: Iterable[str]) -> None:
    for path in bases(table):
        pq.write_table(pq.read_table(path).drop_columns(list(columns)), path)


def copy_of(name: str, folder: Path) -> Path:
    shutil.copytree(golden_table(name), folder / "t")
    return folder / "t"


def exchange(one: Path, other: Path) -> None:
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def warnings_of(read: Callable[[], object], caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    with caplog.at_level(logging.WARNING):
        read()
        read()
    return [record.message for record in caplog.records if part in record.message]


def mixed_table(folder: Path) -> Path:
    """A table without meta columns: one base file has them all the same, as Hudi's Avro writer does, one does not."""
    table = TableWriter(folder=folder / "t", options={"hoodie.populate.meta.fields": "false"}).create()
    with_columns = table.base_file(at(1), ROWS)
    bare = table.base_file(at(1), [{"id": "c", "ts": 1, "value": "z"}], file_id="f2-0")
    pq.write_table(pq.read_table(bare).select(["id", "ts", "value"]), bare)
    table.commit(at(1), wrote=[with_columns, bare])
    return table.folder


def test_some_base_files_of_a_table_without_meta_columns_have_them(tmp_path: Path) -> None:
    path = mixed_table(tmp_path)
    for query in (HudiTable.open(path).snapshot(), HudiTable.open(path).read_optimized()):
        assert query.to_table().num_rows == 3
        assert query.to_table(filter=pc.field("value") == "z").column("id").to_pylist() == ["c"]
        assert query.to_table(["id"], filter=pc.field("ts") > 0).num_rows == 3
    with duckdb.connect() as connection:
        attach(connection, path, name="t")
        assert connection.sql("select id from t where ts = 1 order by id").fetchall() == [("a",), ("b",), ("c",)]
    assert examine(path, deep=True).worst is Severity.INFO


def rows_in_duckdb(connection: duckdb.DuckDBPyConnection, table: Path) -> int:
    attach(connection, table, name="t")
    return len(connection.sql("select * from t").fetchall())


@META
def test_keys_to_merge_by_are_missing(name: str, tmp_path: Path) -> None:
    table = copy_of(name, tmp_path)
    before = HudiTable.open(table).read_optimized().to_table().num_rows
    without(table, ["_hoodie_record_key"])
    for read in (
        lambda: HudiTable.open(table).snapshot().to_table(),
        lambda: HudiTable.open(table).snapshot().to_table(["id"], filter=pc.field("id") > ""),
        lambda: HudiTable.open(table).snapshot().count_rows(),
    ):
        with pytest.raises(CorruptBaseFileError, match="no column _hoodie_record_key, expected the meta columns"):
            read()
    keys = HudiTable.open(table).read_optimized().to_table().column("_hoodie_record_key")
    assert (len(keys), keys.null_count) == (before, before)


@META
def test_commit_times_are_missing(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = copy_of(name, tmp_path)
    whole = HudiTable.open(table).snapshot().to_table()
    without(table, ["_hoodie_commit_time"])

    def read() -> pa.Table:
        return HudiTable.open(table).snapshot().to_table()

    assert set(read().column("id").to_pylist()) == set(whole.column("id").to_pylist())
    assert read().num_rows == whole.num_rows
    warnings = warnings_of(read, caplog, "are null")
    assert len(warnings) == len(set(warnings)) > 0
    assert "lacks are null: _hoodie_commit_time" in warnings[0]
    with pytest.raises(CorruptBaseFileError, match="no column _hoodie_commit_time"):
        HudiTable.open(table).incremental(after="000").to_table()


def test_a_log_block_lacks_commit_times(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = TableWriter(folder=tmp_path / "t").create()
    table.commit(at(1), wrote=[table.base_file(at(1), ROWS)])
    fields = [
        {"name": name, "type": ["null", kind], "default": None}
        for name, kind in (("_hoodie_record_key", "string"), ("id", "string"), ("ts", "long"), ("value", "string"))
    ]
    schema = {"type": "record", "name": "row", "fields": fields}
    datum = b"\x02\x02a\x02\x02a\x02\x04\x02\x02z"
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: at(2), HeaderKey.SCHEMA: json.dumps(schema)}
    block = log_block(BlockType.AVRO_DATA, avro_content([datum]), header)
    table.commit(at(2), wrote=[table.log_file(at(2), [block])])

    def read() -> pa.Table:
        return HudiTable.open(table.folder).snapshot().to_table()

    times = dict(zip(read().column("id").to_pylist(), read().column("_hoodie_commit_time").to_pylist(), strict=True))
    assert times == {"a": None, "b": at(1)}
    assert len(warnings_of(read, caplog, "log.1_0-1-1 lacks are null")) == 1
    with pytest.raises(CorruptLogFileError, match="no column _hoodie_commit_time"):
        HudiTable.open(table.folder).incremental(after=at(1)).to_table()


@pytest.mark.parametrize("name", ["i_cow_0150", "i_cow_120"])
def test_base_files_of_two_partitions_are_exchanged(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = copy_of(name, tmp_path)
    slices = {file_slice.partition_path: file_slice for file_slice in HudiTable.open(table).file_slices()}
    first, second, *_ = (table / item.base_file.path for item in slices.values() if item.base_file is not None)
    exchange(first, second)

    def read() -> pa.Table:
        return HudiTable.open(table, options={"hoodie.metadata.enable": "false"}).snapshot().to_table(["id"])

    warnings = warnings_of(read, caplog, "are those of another file")
    assert len(warnings) == 4, warnings
    assert any(
        f"{first.relative_to(table)} are those of another file, as their _hoodie_" in warning for warning in warnings
    )
    findings = [finding for finding in examine(table).findings if finding.check == "meta-columns"]
    assert {finding.path for finding in findings} == {str(path.relative_to(table)) for path in (first, second)}
    assert all("rows with _hoodie_" in finding.found for finding in findings)


def test_logs_of_two_partitions_are_exchanged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = TableWriter(folder=tmp_path / "t", partition_fields=("value",)).create()
    logs = []
    for number, partition in enumerate("xy"):
        rows = [{"id": partition, "ts": 1, "value": partition}]
        block = table.data_block(at(1), rows, partition=partition, file_id=f"f{number}-0")
        logs.append(table.log_file(at(1), [block], partition=partition, file_id=f"f{number}-0"))
    table.commit(at(1), wrote=logs)
    exchange(*logs)
    read = HudiTable.open(table.folder).snapshot
    warnings = warnings_of(lambda: read().to_table(), caplog, "are those of another file")
    assert len(warnings) == 4, warnings
    findings = [finding for finding in examine(table.folder, deep=True).findings if finding.check == "meta-columns"]
    assert len(findings) == 4
    assert not examine(table.folder).findings or examine(table.folder).worst < Severity.WARNING


def test_of_many_files_a_few_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = TableWriter(folder=tmp_path / "t", partition_fields=("value",)).create()
    logs = []
    for number in range(20):
        partition, file_id = f"p{number}", f"f{number}-0"
        row = {"id": str(number), "ts": 1, "value": partition}
        block = table.data_block(at(1), [row], partition="elsewhere", file_id=file_id)
        logs.append(table.log_file(at(1), [block], partition=partition, file_id=file_id))
    table.commit(at(1), wrote=logs)
    warnings = warnings_of(lambda: HudiTable.open(table.folder).snapshot().to_table(), caplog, str(table.folder))
    assert ["of more files like these, nothing is said" in warning for warning in warnings] == [False] * 5 + [True]


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("c_data_and_delete_block_0150", "snapshot"),
        ("c_data_and_delete_block_0150", "read_optimized"),
        ("b_event_time_120", "snapshot"),
        ("b_event_time_120", "read_optimized"),
        ("d_log_only_120", "snapshot"),
    ],
)
def test_a_copy_on_write_table_has_delta_commits(name: str, query: str, tmp_path: Path) -> None:
    table = copy_of(name, tmp_path)
    properties = table / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("MERGE_ON_READ", "COPY_ON_WRITE"))
    for read in (
        lambda: getattr(HudiTable.open(table), query)().to_table(),
        lambda: getattr(HudiTable.open(table), query)().count_rows(),
        lambda: HudiTable.open(table).incremental(after="000").to_table(),
    ):
        with pytest.raises(UnsupportedTableError, match="table type: found COPY_ON_WRITE, and the "):
            read()
    with duckdb.connect() as connection, pytest.raises((HudiReadError, duckdb.Error), match="COPY_ON_WRITE, and the"):
        rows_in_duckdb(connection, table)
    findings = [finding.found for finding in examine(table).findings if finding.check == "properties"]
    assert any("the type COPY_ON_WRITE, but" in finding for finding in findings), findings


def test_a_table_whose_type_was_changed_when_it_was_compacted(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "t").create()
    table.commit(at(1), wrote=[table.base_file(at(1), ROWS)])
    table.commit(at(2), wrote=[table.log_file(at(2), [table.data_block(at(2), ROWS)])])
    table.commit(at(3), action="commit", wrote=[table.base_file(at(3), ROWS)], operation="COMPACT")
    properties = table.folder / ".hoodie" / "hoodie.properties"
    assert "MERGE_ON_READ" in properties.read_text()
    properties.write_text(properties.read_text().replace("MERGE_ON_READ", "COPY_ON_WRITE"))
    assert HudiTable.open(table.folder).snapshot().count_rows() == 2
