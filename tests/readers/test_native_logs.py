"""Tables of version 10 with native log files, written by hand after RFC-103, beside the same records in blocks."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_bridge import CorruptLogFileError, HudiTable, QueryError, UnsupportedTableError
from hudi_bridge.logformat.block import native_block
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.instant_range import ordering_time
from hudi_bridge.tools.checks.examination import examine_storage
from tests.support.compare import differences
from tests.support.table_writer import Row, TableWriter, at

UNRELEASED = {"hudi_bridge.read.unreleased": "true"}
BASE = [{"id": key, "ts": 10, "value": "base"} for key in "abcdefg"]
ROWS = [
    {"id": "a", "ts": 20, "value": "new"},
    {"id": "b", "ts": 5, "value": "late"},
    {"id": "x", "ts": 1, "value": "in"},
]
DELETES: list[tuple[str, int | None]] = [("c", 20), ("d", 5), ("e", None)]
LATER = [{"id": "c", "ts": 15, "value": "after a delete"}, {"id": "e", "ts": 1, "value": "back"}]
FORMS = ["one document", "entries"]


def footer(form: str, header: Mapping[str, str]) -> dict[str, str]:
    stated = {"VERSION": "1", **header}
    if form == "entries":
        return {f"hudi.log.format.{key}": text for key, text in stated.items()}
    return {"hudi.log.format.metadata": json.dumps(stated)}


def native(
    writer: TableWriter, instant: str, kind: str, rows: pa.Table, header: Mapping[str, str], number: int
) -> Path:
    path = writer.partition("") / f"f1-0_0-1-1_{instant}_{number}.{kind}.parquet"
    pq.write_table(rows.replace_schema_metadata(dict(header)), path)
    return path


def native_rows(writer: TableWriter, instant: str, rows: Sequence[Row], form: str, number: int = 1) -> Path:
    completed = [writer._complete(row, instant, "", "f1-0") for row in rows]
    header = footer(form, {"INSTANT_TIME": instant, "SCHEMA": json.dumps(writer.avro_schema)})
    return native(writer, instant, "log", pa.Table.from_pylist(completed, writer.arrow_schema), header, number)


def native_deletes(
    writer: TableWriter, instant: str, deletes: Sequence[tuple[str, int | None]], form: str, kind: str = "deletes"
) -> Path:
    keys, times = zip(*deletes, strict=True)
    rows = pa.table({"_hoodie_record_key": pa.array(keys), "ts": pa.array(times, pa.int64())})
    return native(writer, instant, kind, rows, footer(form, {"INSTANT_TIME": instant}), 2)


def started(folder: Path, **given: Any) -> TableWriter:
    writer = TableWriter(folder=folder, version=10, **given).create()
    writer.base_file(at(1), BASE)
    writer.commit(at(1))
    return writer


def written(folder: Path, form: str, kind: str = "deletes", **given: Any) -> TableWriter:
    writer = started(folder, **given)
    native_rows(writer, at(2), ROWS, form)
    native_deletes(writer, at(2), DELETES, form, kind)
    writer.commit(at(2))
    # A log file as of version 9, after the upgrade of a file slice or before.
    writer.log_file(at(3), [writer.data_block(at(3), LATER)])
    writer.commit(at(3))
    return writer


def twin(folder: Path, **given: Any) -> HudiTable:
    writer = TableWriter(folder=folder, version=9, **given).create()
    writer.base_file(at(1), BASE)
    writer.commit(at(1))
    writer.log_file(at(2), [writer.data_block(at(2), ROWS), writer.delete_block(at(2), DELETES)])
    writer.commit(at(2))
    writer.log_file(at(3), [writer.data_block(at(3), LATER)])
    writer.commit(at(3))
    return writer.open()


def opened(writer: TableWriter) -> HudiTable:
    return HudiTable.open(str(writer.folder), options=UNRELEASED)


@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
@pytest.mark.parametrize("form", FORMS)
def test_native_logs_give_the_rows_of_the_same_records_in_blocks(tmp_path: Path, form: str, mode: str) -> None:
    options = {"hoodie.record.merge.mode": mode}
    table, expected = opened(written(tmp_path / "10", form, options=options)), twin(tmp_path / "9", options=options)
    for instant in (None, at(1), at(2)):
        assert differences(expected.snapshot(instant).to_table(), table.snapshot(instant).to_table()) == []
    found, wanted = table.read_optimized().to_table(), expected.read_optimized().to_table()
    assert differences(wanted, found) == []
    assert differences(expected.snapshot().to_table(["id", "value"]), table.snapshot().to_table(["id", "value"])) == []


def test_ranges_and_look_ups_and_the_doctor_know_native_logs(tmp_path: Path) -> None:
    table, expected = opened(written(tmp_path / "10", FORMS[0])), twin(tmp_path / "9")
    begin, end = (ordering_time(commit, expected.config) for commit in expected.timeline.commits()[:2])
    found, wanted = (one.incremental(begin, end).to_table() for one in (table, expected))
    assert differences(wanted, found) == []
    assert differences(expected.get(["a", "c", "e"]), table.get(["a", "c", "e"])) == []
    diagnosis = examine_storage(Storage.open(str(tmp_path / "10")), options=UNRELEASED)
    assert "log-blocks" not in {finding.check for finding in diagnosis.findings}


def test_deletes_by_the_other_name(tmp_path: Path) -> None:
    table = opened(written(tmp_path / "10", FORMS[0], "delete"))
    assert differences(twin(tmp_path / "9").snapshot().to_table(), table.snapshot().to_table()) == []


def test_native_logs_of_a_write_that_has_not_completed_do_not_count(tmp_path: Path) -> None:
    writer = started(tmp_path)
    native_rows(writer, at(2), ROWS, FORMS[0])
    assert opened(writer).snapshot().to_table()["value"].unique().to_pylist() == ["base"]


def test_version_10_is_refused_unless_an_option_says_so(tmp_path: Path) -> None:
    writer = written(tmp_path, FORMS[0])
    with pytest.raises(
        UnsupportedTableError, match=r"10, which no release of Hudi writes.*hudi_bridge\.read\.unreleased"
    ):
        writer.open()
    with pytest.raises(QueryError, match="true or false"):
        HudiTable.open(str(tmp_path), options={"hudi_bridge.read.unreleased": "10"})


def test_native_logs_in_tables_before_version_10_are_refused_whatever_the_option(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path, version=9).create()
    writer.base_file(at(1), BASE)
    native_rows(writer, at(1), ROWS, FORMS[0])
    writer.commit(at(1))
    with pytest.raises(UnsupportedTableError, match="native log file"):
        opened(writer).snapshot().to_table()


def test_native_logs_of_other_kinds_are_refused_by_name(tmp_path: Path) -> None:
    writer = started(tmp_path)
    path = native_rows(writer, at(2), ROWS, FORMS[0])
    writer.commit(at(2))
    orc = path.with_name(path.name.replace(".parquet", ".orc"))
    path.rename(orc)
    with pytest.raises(UnsupportedTableError, match=r"native log file f1-0_.*\.orc"):
        opened(writer).snapshot().to_table()


@pytest.mark.parametrize(
    ("header", "error", "found"),
    [
        ({}, CorruptLogFileError, "without SCHEMA"),
        ({"hudi.log.format.metadata": "{"}, CorruptLogFileError, "no JSON"),
        ({"hudi.log.format.metadata": "[1]"}, CorruptLogFileError, r"\[1\]"),
        ({"hudi.log.format.VERSION": "9", "hudi.log.format.SCHEMA": "{}"}, UnsupportedTableError, "version 9"),
        ({"hudi.log.format.VERSION": "new"}, UnsupportedTableError, "version new"),
    ],
)
def test_what_a_native_log_has_to_say_of_itself(
    tmp_path: Path, header: dict[str, str], error: type[Exception], found: str
) -> None:
    writer = started(tmp_path)
    path = native(writer, at(2), "log", pa.table({"id": ["a"]}), header, 1)
    with pytest.raises(error, match=found):
        native_block(pa.py_buffer(path.read_bytes()), path.name)


def test_change_data_and_deletes_without_their_columns_are_refused(tmp_path: Path) -> None:
    writer = started(tmp_path)
    cdc = native(writer, at(2), "cdc", pa.table({"id": ["a"]}), {}, 1)
    with pytest.raises(UnsupportedTableError, match=r"cdc\.parquet"):
        native_block(pa.py_buffer(cdc.read_bytes()), cdc.name)
    native(writer, at(2), "deletes", pa.table({"_hoodie_record_key": ["a"]}), {}, 2)
    writer.commit(at(2))
    with pytest.raises(CorruptLogFileError, match="deletes without ts"):
        opened(writer).snapshot().to_table()
