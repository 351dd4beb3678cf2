"""``hoodie.meta.fields.mode``: which meta columns have values, in each kind of query."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import CorruptBaseFileError, HudiTable, UnsupportedTableError
from hudi_bridge.config import MetaFieldsMode
from hudi_bridge.options import COMPLETION_TIMES_KEY
from hudi_bridge.releases import Release
from tests.support.table_writer import META_FIELDS, Row, TableWriter, at, completion_of, sorted_column

FIRST = [{"id": "a", "ts": 1, "value": "a1"}, {"id": "b", "ts": 1, "value": "b1"}]
SECOND = [{"id": "a", "ts": 2, "value": "a2"}, {"id": "b", "ts": 1, "value": "b1"}, {"id": "c", "ts": 2, "value": "c2"}]
POPULATED = {
    "ALL": META_FIELDS,
    "NONE": (),
    "COMMIT_TIME_ONLY": META_FIELDS[:1],
    "FILE_NAME_ONLY": META_FIELDS[4:],
    "COMMIT_TIME_AND_FILE_NAME": (META_FIELDS[0], META_FIELDS[4]),
}
SELECTIVE = [mode for mode in MetaFieldsMode if mode.is_selective]
WITH_TIMES = [mode for mode in MetaFieldsMode if mode.has_commit_times]
WITHOUT_TIMES = [mode for mode in MetaFieldsMode if not mode.has_commit_times]
COPY_ON_WRITE, MERGE_ON_READ = "COPY_ON_WRITE", "MERGE_ON_READ"


def stored(writer: TableWriter, mode: str, instant: str, rows: Sequence[Row], older: Sequence[str] = ()) -> Path:
    """A base file with values in the columns of the mode; rows with an ``older`` key are of the first commit."""
    path = writer.base_file(instant, rows)
    table = pq.read_table(path)
    times = pc.if_else(pc.is_in(table["id"], pa.array(older, pa.string())), at(1), table[META_FIELDS[0]])
    table = table.set_column(0, META_FIELDS[0], times)
    for position, name in enumerate(META_FIELDS):
        if name not in POPULATED[mode]:
            table = table.set_column(position, name, pa.nulls(len(table), pa.string()))
    pq.write_table(table, path)
    return path


def table_of(folder: Path, mode: str, *, kind: str = COPY_ON_WRITE, version: int = 9, **options: str) -> HudiTable:
    stated = {"hoodie.table.type": kind, "hoodie.meta.fields.mode": mode} | options
    writer = TableWriter(folder=folder, version=version, options=stated).create()
    action = "commit" if kind == COPY_ON_WRITE else "deltacommit"
    writer.commit(at(1), action=action, wrote=[stored(writer, mode, at(1), FIRST)])
    if kind == COPY_ON_WRITE:
        writer.commit(at(2), action=action, wrote=[stored(writer, mode, at(2), SECOND, older=["b"])])
    else:
        log = writer.log_file(at(2), [writer.data_block(at(2), [SECOND[0], SECOND[2]])])
        writer.commit(at(2), action=action, wrote=[log])
    return HudiTable.open(str(folder), options={"hudi_bridge.read.unreleased": "true"})


@pytest.mark.parametrize("kind", [COPY_ON_WRITE, MERGE_ON_READ])
@pytest.mark.parametrize("mode", MetaFieldsMode)
def test_rows_have_the_values_of_the_mode(tmp_path: Path, mode: str, kind: str) -> None:
    table = table_of(tmp_path, mode, kind=kind)
    rows = table.snapshot().to_table()
    assert sorted_column(rows, "value") == ["a2", "b1", "c2"]
    assert rows.column_names == [*(META_FIELDS if mode != "NONE" else ()), "id", "ts", "value"]
    if kind == COPY_ON_WRITE:
        assert {name for name in META_FIELDS if mode != "NONE" and not rows[name].null_count} == set(POPULATED[mode])
    assert sorted_column(table.snapshot(at(1)).to_table(), "value") == ["a1", "b1"]
    optimized = ["a2", "b1", "c2"] if kind == COPY_ON_WRITE else ["a1", "b1"]
    assert sorted_column(table.read_optimized().to_table(), "value") == optimized
    assert table.get("a")["value"].to_pylist() == ["a2"]
    assert table.snapshot().to_table(filter=pc.field("id") == "c")["value"].to_pylist() == ["c2"]


@pytest.mark.parametrize("kind", [COPY_ON_WRITE, MERGE_ON_READ])
@pytest.mark.parametrize("mode", MetaFieldsMode)
def test_changes_are_found_by_the_keys_of_the_mode(tmp_path: Path, mode: str, kind: str) -> None:
    rows = table_of(tmp_path, mode, kind=kind).changes(completion_of(at(1))).to_table()
    changes = [(row["op"], row["before"] and row["before"]["value"], row["after"]["value"]) for row in rows.to_pylist()]
    assert sorted(changes) == [("i", None, "c2"), ("u", "a1", "a2")]


@pytest.mark.parametrize("mode", WITH_TIMES)
def test_ranges_of_tables_with_commit_times(tmp_path: Path, mode: str) -> None:
    table = table_of(tmp_path, mode)
    rows = table.incremental(completion_of(at(1))).to_table()
    assert sorted_column(rows, "value") == ["a2", "c2"]
    assert rows[META_FIELDS[0]].to_pylist() == [at(2)] * 2
    assert sorted_column(table.incremental("earliest").to_table(["id"]), "id") == ["a", "b", "c"]
    assert table.incremental(completion_of(at(1))).to_table(filter=pc.field("id") == "c")["id"].to_pylist() == ["c"]


@pytest.mark.parametrize("mode", WITHOUT_TIMES)
def test_ranges_of_tables_without_commit_times_are_refused(tmp_path: Path, mode: MetaFieldsMode) -> None:
    table = table_of(tmp_path, mode)
    actual = f"hoodie.meta.fields.mode={mode}" if mode.is_selective else "a table without meta columns"
    with pytest.raises(UnsupportedTableError, match=f"incremental query: found .*{actual}, supported: .*commit times"):
        table.incremental(completion_of(at(1))).to_table()


@pytest.mark.parametrize("mode", SELECTIVE)
def test_ranges_of_merge_on_read_tables_are_refused(tmp_path: Path, mode: MetaFieldsMode) -> None:
    table = table_of(tmp_path, mode, kind=MERGE_ON_READ)
    with pytest.raises(UnsupportedTableError, match=f"a MERGE_ON_READ table of hoodie.meta.fields.mode={mode}"):
        table.incremental(completion_of(at(1))).to_table()


@pytest.mark.parametrize("kind", [COPY_ON_WRITE, MERGE_ON_READ])
@pytest.mark.parametrize("mode", MetaFieldsMode)
def test_completion_times_are_those_of_commits_in_rows(tmp_path: Path, mode: MetaFieldsMode, kind: str) -> None:
    table_of(tmp_path, mode, kind=kind)
    table = HudiTable.open(str(tmp_path), options={COMPLETION_TIMES_KEY: "true"})
    if mode == "ALL" or (mode in WITH_TIMES and kind == COPY_ON_WRITE):
        times = sorted_column(table.snapshot().to_table(), "_hoodie_commit_completion_time")
        assert times == [completion_of(at(1)), completion_of(at(2)), completion_of(at(2))]
        return
    with pytest.raises(UnsupportedTableError, match=r"completion times: found a .*, supported: rows that tell"):
        table.snapshot().to_table()


def test_files_that_lack_the_commit_times_of_the_mode_are_no_empty_range(tmp_path: Path) -> None:
    table = table_of(tmp_path, "COMMIT_TIME_ONLY")
    for path in tmp_path.glob("*.parquet"):
        pq.write_table(pq.read_table(path).drop_columns(list(META_FIELDS)), path)
    with pytest.raises(CorruptBaseFileError, match=r"no column _hoodie_commit_time, expected .*hoodie\.meta\.fields"):
        table.incremental(completion_of(at(1))).to_table()


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, "ALL"),
        ({"hoodie.populate.meta.fields": "false"}, "NONE"),
        ({"hoodie.populate.meta.fields": "true", "hoodie.meta.fields.mode": "NONE"}, "NONE"),
        ({"hoodie.populate.meta.fields": "false", "hoodie.meta.fields.mode": "ALL"}, "ALL"),
        ({"hoodie.populate.meta.fields": "false", "hoodie.meta.fields.mode": ""}, "NONE"),
        ({"hoodie.meta.fields.mode": " commit_time_only "}, "COMMIT_TIME_ONLY"),
    ],
)
def test_the_mode_counts_more_than_the_older_property(tmp_path: Path, options: dict[str, str], mode: str) -> None:
    config = TableWriter(folder=tmp_path, options=options).create().open().config
    assert config.meta_fields == mode
    assert config.populates_meta_fields is (mode == "ALL")


def test_an_unknown_mode_is_refused(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path, options={"hoodie.meta.fields.mode": "KEYS_ONLY"}).create()
    with pytest.raises(UnsupportedTableError, match=r"hoodie\.meta\.fields\.mode: found KEYS_ONLY, supported: ALL"):
        writer.open()


def test_a_table_with_the_mode_is_maintained_by_a_hudi_that_knows_it(tmp_path: Path) -> None:
    assert table_of(tmp_path, "COMMIT_TIME_ONLY", version=6).config.release is Release.V1_1
