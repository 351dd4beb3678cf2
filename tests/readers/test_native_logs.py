"""Tables of version 10 with native log files, written by hand after Hudi's main branch, beside the same in blocks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import CorruptLogFileError, HudiTable, QueryError, UnsupportedTableError
from hudi_bridge.errors import CorruptTableError
from hudi_bridge.inspection.log_files import inspect_log_blocks, inspect_log_records
from hudi_bridge.logformat.layout import HeaderKey
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.splits.query_schema import newest_schema, scan_heads
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.instant_range import ordering_time
from hudi_bridge.tools.checks.examination import examine_storage
from tests.logformat.log_writer import rollback_block
from tests.logformat.native_writer import DOCUMENT, ENTRIES, FORMATS, listed_positions, write_native
from tests.support.compare import differences
from tests.support.table_writer import TableWriter, at, record_positions, sorted_column

UNRELEASED = {"hudi_bridge.read.unreleased": "true"}
BASE = [{"id": key, "ts": 10, "value": "base"} for key in "abcdefg"]
ROWS = [
    {"id": "a", "ts": 20, "value": "new"},
    {"id": "b", "ts": 5, "value": "late"},
    {"id": "x", "ts": 1, "value": "in"},
]
DELETES: list[tuple[str, int | None]] = [("c", 20), ("d", 5), ("e", None)]
LATER = [{"id": "c", "ts": 15, "value": "after a delete"}, {"id": "e", "ts": 1, "value": "back"}]
MODES = ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"]


def started(folder: Path, version: int = 10, **given: Any) -> TableWriter:
    writer = TableWriter(folder=folder, version=version, **given).create()
    writer.base_file(at(1), BASE)
    writer.commit(at(1))
    return writer


def written(folder: Path, file_format: str = "parquet", form: str = ENTRIES, **given: Any) -> TableWriter:
    writer = started(folder, **given)
    writer.native_log(at(2), ROWS, file_format, form=form)
    writer.native_deletes(at(2), DELETES, file_format, form=form)
    writer.commit(at(2))
    # A log file as of version 9, after the upgrade of a file slice or before.
    writer.log_file(at(3), [writer.data_block(at(3), LATER)])
    writer.commit(at(3))
    return writer


def twin(folder: Path, **given: Any) -> HudiTable:
    writer = started(folder, 9, **given)
    writer.log_file(at(2), [writer.data_block(at(2), ROWS), writer.delete_block(at(2), DELETES)])
    writer.commit(at(2))
    writer.log_file(at(3), [writer.data_block(at(3), LATER)])
    writer.commit(at(3))
    return writer.open()


def opened(writer: TableWriter) -> HudiTable:
    return HudiTable.open(str(writer.folder), options=UNRELEASED)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("file_format", FORMATS)
def test_native_logs_give_the_rows_of_the_same_records_in_blocks(tmp_path: Path, file_format: str, mode: str) -> None:
    options = {"hoodie.record.merge.mode": mode}
    table = opened(written(tmp_path / "10", file_format, options=options))
    expected = twin(tmp_path / "9", options=options)
    for instant in (None, at(1), at(2)):
        assert differences(expected.snapshot(instant).to_table(), table.snapshot(instant).to_table()) == []
    actual, wanted = table.read_optimized().to_table(), expected.read_optimized().to_table()
    assert differences(wanted, actual) == []
    assert differences(expected.snapshot().to_table(["id", "value"]), table.snapshot().to_table(["id", "value"])) == []


@pytest.mark.parametrize("file_format", FORMATS)
def test_ranges_look_ups_and_the_doctor_know_native_logs(tmp_path: Path, file_format: str) -> None:
    table, expected = opened(written(tmp_path / "10", file_format)), twin(tmp_path / "9")
    begin, end = (ordering_time(commit, expected.config) for commit in expected.timeline.commits()[:2])
    actual, wanted = (item.incremental(begin, end).to_table() for item in (table, expected))
    assert differences(wanted, actual) == []
    assert differences(expected.get(["a", "c", "e"]), table.get(["a", "c", "e"])) == []
    diagnosis = examine_storage(Storage.open(str(tmp_path / "10")), options=UNRELEASED)
    assert "log-blocks" not in {finding.check for finding in diagnosis.findings}


@pytest.mark.parametrize("file_format", FORMATS)
def test_the_blocks_and_records_of_native_logs_are_shown(tmp_path: Path, file_format: str) -> None:
    table = opened(written(tmp_path, file_format))
    blocks = inspect_log_blocks(table).select(["kind", "rows", "deletes", "counts", "problem"]).to_pylist()
    stored_as = {"parquet": "Parquet", "orc": "ORC", "hfile": "HFile", "lance": "Lance"}[file_format]
    counted = {"counts": True, "problem": None}
    assert blocks == [
        {"kind": f"rows ({stored_as})", "rows": 3, "deletes": None, **counted},
        {"kind": "deletes", "rows": None, "deletes": 3, **counted},
        {"kind": "rows (Avro)", "rows": 2, "deletes": None, **counted},
    ]
    records = inspect_log_records(table).read_all()
    assert records["record_key"].to_pylist() == ["a", "b", "x", "c", "d", "e", "c", "e"]
    assert set(records["problem"].to_pylist()) == {None}


@pytest.mark.parametrize("form", [ENTRIES, DOCUMENT])
def test_both_forms_of_the_header(tmp_path: Path, form: str) -> None:
    table = opened(written(tmp_path / "10", form=form))
    assert differences(twin(tmp_path / "9").snapshot().to_table(), table.snapshot().to_table()) == []


def test_deletes_by_the_other_name(tmp_path: Path) -> None:
    writer = started(tmp_path)
    writer.native_deletes(at(2), [("c", 20)], extension="delete")
    writer.commit(at(2))
    assert sorted_column(opened(writer).snapshot().to_table(), "id") == list("abdefg")


@pytest.mark.parametrize("file_format", FORMATS)
def test_files_without_records(tmp_path: Path, file_format: str) -> None:
    writer = started(tmp_path)
    writer.native_log(at(2), [], file_format)
    writer.native_deletes(at(2), [], file_format)
    writer.commit(at(2))
    assert sorted_column(opened(writer).snapshot().to_table(), "id") == list("abcdefg")


def test_rows_of_a_write_are_merged_before_its_deletes(tmp_path: Path) -> None:
    writer = started(tmp_path, options={"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"})
    writer.native_deletes(at(2), [("a", 20)])
    writer.native_log(at(2), ROWS)
    writer.native_log(at(2), [{"id": "c", "ts": 20, "value": "last"}], number=2)
    writer.commit(at(2))
    assert sorted_column(opened(writer).snapshot().to_table(), "id") == list("bcdefgx")


@pytest.mark.parametrize("file_format", FORMATS)
def test_partial_updates(tmp_path: Path, file_format: str) -> None:
    rows = [{"id": "a", "ts": 20}, {"id": "b", "ts": 5}]
    tables = []
    for version in (9, 10):
        writer = started(tmp_path / str(version), version)
        if version == 9:
            writer.log_file(at(2), [writer.data_block(at(2), rows, only=["id", "ts"])])
        else:
            writer.native_log(at(2), rows, file_format, only=["id", "ts"])
        writer.commit(at(2))
        tables.append(opened(writer).snapshot().to_table())
    assert differences(*tables) == []
    assert sorted_column(tables[1].filter(pc.field("ts") == 20), "value") == ["base"]


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("rows", [(2, 0), (0, 2)])
def test_positions_are_in_the_order_of_the_records(tmp_path: Path, file_format: str, rows: tuple[int, int]) -> None:
    """Both rows of the base file have the key a: which of them a log record replaces, only its position tells."""
    base = [{"id": key, "ts": 1, "value": f"{key} at {number}"} for number, key in enumerate("aba")]
    keys = ["a", "a"]
    new = [{"id": key, "ts": 9, "value": f"new {row}"} for key, row in zip(keys, rows, strict=True)]
    writer = TableWriter(folder=tmp_path, version=10).create()
    writer.base_file(at(1), base)
    writer.commit(at(1))
    writer.native_log(at(2), new, file_format, positions=listed_positions(rows, at(1)))
    writer.native_deletes(at(2), [("b", 9)], file_format, positions=listed_positions([1], at(1)))
    writer.commit(at(2))
    assert sorted_column(opened(writer).snapshot().to_table(), "value") == ["new 0", "new 2"]


def test_positions_need_not_be_in_order_to_match_like_those_of_blocks(tmp_path: Path) -> None:
    tables = []
    for version in (9, 10):
        writer = started(tmp_path / str(version), version)
        rows = [{"id": key, "ts": 20, "value": f"new {key}"} for key in ("bg" if version == 9 else "gb")]
        if version == 9:
            writer.log_file(at(2), [writer.data_block(at(2), rows, positions=record_positions([1, 6], at(1)))])
        else:
            writer.native_log(at(2), rows, positions=listed_positions([6, 1], at(1)))
        writer.commit(at(2))
        tables.append(opened(writer).snapshot().to_table())
    assert differences(*tables) == []


@pytest.mark.parametrize(
    ("positions", "found"),
    [
        ({HeaderKey.RECORD_POSITIONS: "AAAAAg=="}, "2 positions in 0 bytes"),
        ({HeaderKey.RECORD_POSITIONS: "AAAAAYA="}, "1 positions in 1 bytes"),
        ({HeaderKey.RECORD_POSITIONS: "AAAAAQEB"}, "1 positions in 2 bytes"),
        ({HeaderKey.RECORD_POSITIONS: "AAAAAf///////////wE="}, "a position of 10 bytes"),
        ({HeaderKey.RECORD_POSITIONS: "AAA"}, "padding"),
        ({HeaderKey.RECORD_POSITIONS: "AAAA"}, "buffer"),
    ],
)
def test_positions_that_are_no_list(tmp_path: Path, positions: Mapping[int, str], found: str) -> None:
    writer = started(tmp_path)
    of_base = {HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: at(1)}
    writer.native_log(at(2), [{"id": "a", "ts": 20, "value": "new"}], positions=of_base | dict(positions))
    writer.commit(at(2))
    with pytest.raises(CorruptLogFileError, match=f"RECORD_POSITIONS that cannot be read.*{found}"):
        opened(writer).snapshot().to_table()
    diagnosis = examine_storage(Storage.open(str(tmp_path)), options=UNRELEASED)
    assert "record-positions" in {finding.check for finding in diagnosis.findings}


def test_a_rollback_block_undoes_native_logs_before_it(tmp_path: Path) -> None:
    writer = written(tmp_path)
    writer.log_file(at(4), [rollback_block(at(4), at(2))])
    writer.commit(at(4))
    rows = opened(writer).snapshot().to_table()
    assert {row["id"]: row["value"] for row in rows.to_pylist()} == dict.fromkeys("abdefg", "base") | {
        "c": "after a delete"
    }


def test_native_logs_of_a_write_that_has_not_completed_do_not_count(tmp_path: Path) -> None:
    writer = started(tmp_path)
    writer.native_log(at(2), ROWS)
    assert opened(writer).snapshot().to_table()["value"].unique().to_pylist() == ["base"]


def test_a_slice_of_native_logs_alone(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path, version=10).create()
    writer.native_log(at(1), ROWS, "hfile")
    writer.native_deletes(at(2), [("x", 9)], "orc")
    writer.commit(at(1))
    writer.commit(at(2))
    table = opened(writer)
    assert sorted_column(table.snapshot().to_table(), "id") == ["a", "b"]
    assert sorted_column(table.snapshot(at(1)).to_table(), "id") == ["a", "b", "x"]


@pytest.mark.parametrize("file_format", FORMATS)
def test_heads_are_those_of_whole_files(tmp_path: Path, file_format: str) -> None:
    writer = started(tmp_path)
    paths = [writer.native_log(at(2), ROWS, file_format), writer.native_deletes(at(2), DELETES, file_format)]
    storage = Storage.open(str(tmp_path))
    for path in paths:
        (whole,), (head,) = scan_blocks(path.read_bytes(), path.name).blocks, scan_heads(storage, path.name, 0).blocks
        assert (head.header, head.block_type, head.content_bytes) == (
            whole.header,
            whole.block_type,
            path.stat().st_size,
        )
    assert newest_schema(storage, paths[0].name) == whole.schema_text
    assert newest_schema(storage, paths[1].name) is None


def test_version_10_is_refused_unless_an_option_says_so(tmp_path: Path) -> None:
    writer = written(tmp_path)
    with pytest.raises(
        UnsupportedTableError, match=r"10, which no release of Hudi writes.*hudi_bridge\.read\.unreleased"
    ):
        writer.open()
    with pytest.raises(QueryError, match="true or false"):
        HudiTable.open(str(tmp_path), options={"hudi_bridge.read.unreleased": "10"})


@pytest.mark.parametrize(("version", "file_format"), [(9, "parquet"), (10, "vortex")])
def test_native_logs_that_tables_of_the_version_lack_are_refused(
    tmp_path: Path, version: int, file_format: str
) -> None:
    writer = started(tmp_path, version)
    path = writer.native_log(at(2), ROWS)
    path.rename(path.with_suffix(f".{file_format}"))
    writer.commit(at(2))
    with pytest.raises(UnsupportedTableError, match=rf"native log file f1-0_.*\.{file_format}, supported: log files"):
        opened(writer).snapshot().to_table()


@pytest.mark.parametrize(
    ("metadata", "error", "found"),
    [
        ({}, CorruptLogFileError, "without SCHEMA"),
        ({"hudi.log.format.metadata": "{"}, CorruptLogFileError, "no JSON"),
        ({"hudi.log.format.metadata": "[1]"}, CorruptLogFileError, r"\[1\]"),
        ({"hudi.log.format.VERSION": "9", "hudi.log.format.SCHEMA": "{}"}, UnsupportedTableError, "version 9"),
        ({"hudi.log.format.VERSION": "new"}, UnsupportedTableError, "version new"),
    ],
)
def test_what_a_native_log_has_to_say_of_itself(
    tmp_path: Path, metadata: dict[str, str], error: type[Exception], found: str
) -> None:
    path = tmp_path / f"f1-0_0-1-1_{at(2)}_1.log.parquet"
    pq.write_table(pa.table({"id": ["a"]}).replace_schema_metadata(metadata), path)
    with pytest.raises(error, match=found):
        scan_blocks(path.read_bytes(), path.name)


@pytest.mark.parametrize("file_format", FORMATS)
def test_damage_is_an_error(tmp_path: Path, file_format: str) -> None:
    writer = started(tmp_path)
    path = writer.native_log(at(2), ROWS, file_format)
    writer.commit(at(2))
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:-1]):
        path.write_bytes(damaged)
        with pytest.raises(CorruptTableError, match=rf"log\.{file_format}"):
            opened(writer).snapshot().to_table()


@pytest.mark.parametrize("file_format", FORMATS)
def test_deletes_without_their_columns_are_refused(tmp_path: Path, file_format: str) -> None:
    writer = started(tmp_path)
    path = tmp_path / f"f1-0_0-1-1_{at(2)}_1.deletes.{file_format}"
    schema = {"type": "record", "name": "deletes", "fields": [{"name": "_hoodie_record_key", "type": "string"}]}
    write_native(path, [{"_hoodie_record_key": "a"}], schema, ["a"], {})
    writer.commit(at(2))
    with pytest.raises(CorruptLogFileError, match="deletes without ts"):
        opened(writer).snapshot().to_table()


def test_an_hfile_with_a_column_that_its_writer_empties_is_refused(tmp_path: Path) -> None:
    fields = (("id", "string"), ("ts", "long"), ("key", "string"))
    writer = TableWriter(folder=tmp_path, version=10, fields=fields).create()
    writer.native_log(at(1), [{"id": "a", "ts": 1, "key": ""}], "hfile")
    writer.commit(at(1))
    with pytest.raises(UnsupportedTableError, match="a column named key"):
        opened(writer).snapshot().to_table()


def test_times_in_orc_are_refused(tmp_path: Path) -> None:
    time = {"type": "long", "logicalType": "timestamp-micros"}
    fields = (("id", "string"), ("ts", "long"), ("time", time))
    writer = TableWriter(folder=tmp_path, version=10, fields=fields).create()
    writer.native_log(at(1), [{"id": "a", "ts": 1, "time": None}], "orc")
    writer.commit(at(1))
    with pytest.raises(UnsupportedTableError, match="column of an ORC log file: found time"):
        opened(writer).snapshot().to_table()
    assert opened(writer).snapshot().to_table(["id"]).to_pydict() == {"id": ["a"]}
