import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.connectors.trino.publication import CURRENT, Publication, PublishedSlice, read_slices
from hudi_bridge.connectors.trino.publish import publish_log_records
from hudi_bridge.connectors.trino.views import statements
from hudi_bridge.errors import QueryError, UnsupportedTableError
from hudi_bridge.table import HudiTable
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at


def row(key: str, ts: int = 1, value: str = "v") -> dict[str, object]:
    return {"id": key, "ts": ts, "value": value}


@pytest.fixture
def table(tmp_path: Path) -> TableWriter:
    """Two file groups, each with a base file and a log file."""
    writer = TableWriter(folder=tmp_path / "table").create()
    for name in ("f1-0", "f2-0"):
        writer.base_file(at(1), [row(f"{name}-{key}") for key in "abc"], file_id=name)
        writer.log_file(at(2), [writer.data_block(at(2), [row(f"{name}-a", 2), row(f"{name}-n")])], file_id=name)
    writer.commit(at(1))
    writer.commit(at(2))
    return writer


def slices_of(folder: Path, publication: Publication) -> tuple[PublishedSlice, ...]:
    return read_slices(Scratch.open(str(folder)), publication)


def files_below(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_the_winning_log_records_are_published_and_the_table_is_not_written_to(
    table: TableWriter, tmp_path: Path
) -> None:
    before = files_below(table.folder)
    done = publish_log_records(
        table.open(), str(tmp_path / "own"), locations=Locations.of((f"{tmp_path}=s3://lake/x",))
    )
    assert files_below(table.folder) == before
    assert (done.built, done.reused) == (2, 0)
    assert (done.publication.records, done.publication.contested) == (4, 2)
    one, _ = slices_of(tmp_path / "own", done.publication)
    assert one.base_uri == f"s3://lake/x/table/{one.base_path}"
    assert one.log_uri == f"s3://lake/x/own/{done.publication.folder}/log/{one.log_file}"
    rows = pq.read_table(tmp_path / "own" / done.publication.folder / "log" / str(one.log_file)).to_pylist()
    assert {(item["_log_key"], item["_log_contested"], item["_log_ordering_0"]) for item in rows} == {
        ("f1-0-a", True, 2),
        ("f1-0-n", False, 1),
    }


def test_a_slice_that_has_not_changed_is_not_read_again(table: TableWriter, tmp_path: Path) -> None:
    first = publish_log_records(table.open(), str(tmp_path / "own"))
    again = publish_log_records(table.open(), str(tmp_path / "own"))
    assert (again.built, again.reused, again.publication) == (0, 2, first.publication)
    table.log_file(at(3), [table.delete_block(at(3), [("f1-0-b", 2)])], file_id="f1-0")
    table.commit(at(3))
    third = publish_log_records(table.open(), str(tmp_path / "own"))
    assert (third.built, third.reused) == (1, 1)
    published = (first.publication, third.publication)
    assert third.publication.kept == tuple((item.folder, item.publication) for item in published)


def test_a_block_that_comes_to_count_makes_its_slice_a_changed_one(tmp_path: Path) -> None:
    # Before version 8 the log file of a base file grows: it may hold blocks of a write that is still running.
    table = TableWriter(folder=tmp_path / "table", version=6).create()
    table.base_file(at(1), [row("a")])
    table.commit(at(1))
    table.pending(at(2))
    table.log_file(at(2), [table.data_block(at(2), [row("a", 2, "new")])], base_instant=at(1))
    table.commit(at(3))
    before = publish_log_records(table.open(), str(tmp_path / "own"))
    assert before.publication.records == 0
    (table.timeline_folder / f"{at(2)}.deltacommit.requested").unlink()
    table.commit(at(2))
    after = publish_log_records(table.open(), str(tmp_path / "own"))
    assert (after.built, after.publication.records) == (1, 1)


def test_files_that_no_kept_publication_names_are_removed(table: TableWriter, tmp_path: Path) -> None:
    own = tmp_path / "own"
    first = publish_log_records(table.open(), str(own), keep=1)
    (old,) = {item.log_file for item in slices_of(own, first.publication)} - {
        item.log_file for item in slices_of(own, first.publication)[1:]
    }
    table.log_file(at(3), [table.delete_block(at(3), [("f1-0-b", 2)])], file_id="f1-0")
    table.commit(at(3))
    done = publish_log_records(table.open(), str(own), keep=1, leave_seconds=0)
    names = {path.name for path in own.rglob("*.parquet")}
    assert done.removed_files == 2
    assert old not in names
    assert f"{first.publication.publication}.parquet" not in names
    assert names >= {str(item.log_file) for item in slices_of(own, done.publication)} | {"empty.parquet"}


def test_files_stay_for_queries_that_read_them(table: TableWriter, tmp_path: Path) -> None:
    publish_log_records(table.open(), str(tmp_path / "own"), keep=1)
    table.log_file(at(3), [table.delete_block(at(3), [("f1-0-b", 2)])], file_id="f1-0")
    table.commit(at(3))
    assert publish_log_records(table.open(), str(tmp_path / "own"), keep=1).removed_files == 0


@pytest.mark.parametrize("place", ["table/.hoodie", "table/part", "table"])
def test_nothing_is_written_into_the_table(table: TableWriter, tmp_path: Path, place: str) -> None:
    with pytest.raises(QueryError, match="lies in the table"):
        publish_log_records(table.open(), str(tmp_path / place))


def test_a_folder_is_for_one_table(table: TableWriter, tmp_path: Path) -> None:
    publish_log_records(table.open(), str(tmp_path / "own"))
    other = TableWriter(folder=tmp_path / "other").create()
    other.base_file(at(1), [row("a")])
    other.commit(at(1))
    with pytest.raises(QueryError, match="a folder for"):
        publish_log_records(other.open(), str(tmp_path / "own"))


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "context": {}}', '{"format": 1, "context": 5}', "\x00"]
)
def test_a_damaged_publication_is_named(table: TableWriter, tmp_path: Path, content: str) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / CURRENT).write_text(content)
    with pytest.raises(QueryError, match=CURRENT):
        publish_log_records(table.open(), str(own))


def test_what_is_known_of_a_table_comes_back(table: TableWriter, tmp_path: Path) -> None:
    done = publish_log_records(table.open(), str(tmp_path / "own"))
    read = Publication.read(Scratch.open(str(tmp_path / "own")))
    assert read is not None
    assert json.loads(read.to_json()) == json.loads(done.publication.to_json())
    assert Publication.read(Scratch.open(str(tmp_path / "nothing"))) is None


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("e_null_part_120", "begins with _"),
        ("g_sor_nested_120", "changed inside"),
        ("g_logs_rename_0150", "renamed"),
        ("g_logs_drop_readd_0150", "dropped and added again"),
        ("g_widen_120", "cast int to float"),
    ],
)
def test_base_files_that_sql_would_misread_are_published_whole(case: str, reason: str, tmp_path: Path) -> None:
    done = publish_log_records(_golden(case), str(tmp_path))
    assert done.publication.whole > 0
    assert any(reason in (item.why_whole or "") for item in slices_of(tmp_path, done.publication))


def test_a_key_that_is_twice_in_a_base_file_is_published_whole(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "table").create()
    table.base_file(at(1), [row("a"), row("a", 1, "second"), row("b")])
    table.log_file(at(2), [table.data_block(at(2), [row("a", 2)])])
    table.commit(at(1))
    table.commit(at(2))
    done = publish_log_records(table.open(), str(tmp_path / "own"))
    assert done.publication.why_whole == "its base file has several rows of one record key"


@pytest.mark.parametrize(
    ("keys", "column"),
    [("k", "k of type double"), ("id,k", "k of type double"), ("n.id", "n of type struct<id: string>")],
)
def test_slices_whose_keys_sql_cannot_build_are_published_whole(keys: str, column: str, tmp_path: Path) -> None:
    struct = {"type": "record", "name": "n", "fields": [{"name": "id", "type": "string"}]}
    fields = (("id", "string"), ("ts", "long"), ("k", "double"), ("n", struct))
    options = {"hoodie.populate.meta.fields": "false", "hoodie.table.recordkey.fields": keys}
    table = TableWriter(folder=tmp_path / "table", fields=fields, options=options).create()
    table.base_file(at(1), [{"id": key, "ts": 1, "k": 1.0, "n": {"id": key}} for key in "ab"])
    table.log_file(at(2), [table.delete_block(at(2), [("a", 2)])])
    table.commit(at(1))
    table.commit(at(2))
    done = publish_log_records(table.open(), str(tmp_path / "own"))
    assert done.publication.why_whole == f"record keys are made of column {column}"
    *_, view = statements(done.publication, catalog="hive", schema="lake", view="v")
    assert "CAST(NULL AS varchar) AS record_key" in view


def test_a_table_without_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedTableError, match="no columns"):
        publish_log_records(_golden("i_only_inflight_120"), str(tmp_path))


def _golden(case: str) -> HudiTable:
    return HudiTable.open(str(golden_table(case)))
