"""Base files: what is read of them, and what is not."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge.errors import CorruptBaseFileError, DataFileGoneError, SchemaEvolutionError
from tests.support.table_writer import KEY_AND_VALUE, Row, TableWriter, at, sorted_column

Reads = list[tuple[int, frozenset[str]]]
"""The row groups and columns that were read."""


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    actual: Reads = []
    iter_batches = pq.ParquetFile.iter_batches

    def recorded(file: pq.ParquetFile, *arguments: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        groups = options.get("row_groups", range(file.num_row_groups))
        actual.extend((group, frozenset(options["columns"])) for group in groups)
        return iter_batches(file, *arguments, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", recorded)
    return actual


def rows(*ids: str, **fields: Any) -> list[Row]:
    return [{"id": key, "ts": number, "value": key} | fields for number, key in enumerate(ids)]


def table_of(folder: Path, base: list[Row], *log: Row, row_group_size: int = 2, **changes: Any) -> TableWriter:
    table = TableWriter(folder=folder, **changes).create()
    table.base_file(at(1), base, row_group_size=row_group_size)
    table.commit(at(1))
    if log:
        table.log_file(at(2), [table.data_block(at(2), log)], base_instant=at(1))
        table.commit(at(2))
    return table


def test_row_groups_that_cannot_pass_are_not_read(tmp_path: Path, reads: Reads) -> None:
    dataset = table_of(tmp_path, rows(*"abcdef")).open().snapshot()
    actual = dataset.to_table(columns=["id"], filter=pc.field("ts") == 3)
    assert actual.column("id").to_pylist() == ["d"]
    assert {group for group, _ in reads} == {1}


def test_key_filters_prune_row_groups(tmp_path: Path, reads: Reads) -> None:
    dataset = table_of(tmp_path, rows(*"abcdef")).open().snapshot()
    for column in ("id", "_hoodie_record_key"):
        reads.clear()
        assert dataset.to_table(columns=["ts"], filter=pc.field(column) == "f").num_rows == 1
        assert {group for group, _ in reads} == {2}


def test_only_the_wanted_columns_are_read(tmp_path: Path, reads: Reads) -> None:
    dataset = table_of(tmp_path, rows(*"abcd")).open().snapshot()
    assert dataset.to_table(columns=["value"]).num_rows == 4
    assert {name for _, names in reads for name in names} == {"value"}
    reads.clear()
    assert dataset.to_table(columns=["value"], filter=pc.field("ts") > 2).num_rows == 1
    assert {name for _, names in reads for name in names} == {"value", "ts"}


def test_merging_reads_keys_and_ordering_beside_the_wanted_columns(tmp_path: Path, reads: Reads) -> None:
    late = {"id": "a", "ts": 9, "value": "new"}
    event_time = table_of(tmp_path / "event", rows(*"abcd"), late).open().snapshot()
    assert sorted_column(event_time.to_table(columns=["value"]), "value") == ["b", "c", "d", "new"]
    assert {name for _, names in reads for name in names} == {"value", "_hoodie_record_key", "ts"}
    reads.clear()
    option = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
    commit_time = table_of(tmp_path / "commit", rows(*"abcd"), late, options=option).open().snapshot()
    assert sorted_column(commit_time.to_table(columns=["value"]), "value") == ["b", "c", "d", "new"]
    assert {name for _, names in reads for name in names} == {"value", "_hoodie_record_key"}


def test_the_wanted_columns_of_row_groups_that_cannot_pass_are_not_read_under_logs(
    tmp_path: Path, reads: Reads
) -> None:
    dataset = table_of(tmp_path, rows(*"abcdef"), {"id": "a", "ts": 9, "value": "new"}).open().snapshot()
    actual = dataset.to_table(columns=["value"], filter=pc.field("ts") >= 4)
    assert sorted_column(actual, "value") == ["e", "f", "new"]
    assert {group for group, names in reads if "value" in names} == {2}


def test_rows_of_nan_are_found(tmp_path: Path) -> None:
    fields = (*KEY_AND_VALUE, ("x", "double"))
    base = [*rows("a", "b", x=2.0), *rows("c", "d", x=math.nan), *rows("e", x=2.0), *rows("f", x=math.nan)]
    dataset = table_of(tmp_path, base, fields=fields).open().snapshot()
    for row_filter in (
        pc.field("x") != 2.0,
        ~(pc.field("x") <= 5.0),
        pc.is_nan(pc.field("x")),
        ~pc.field("x").isin([2.0]),
    ):
        actual = dataset.to_table(columns=["id"], filter=row_filter)
        assert actual.column("id").to_pylist() == ["c", "d", "f"]


def test_no_columns_at_all_still_count_rows(tmp_path: Path) -> None:
    dataset = table_of(tmp_path, rows(*"abc")).open().snapshot()
    assert sum(batch.num_rows for batch in dataset.to_batches(columns=[])) == 3
    assert sum(batch.num_rows for batch in dataset.to_batches(columns=[], filter=pc.field("ts") > 0)) == 2


def test_a_file_without_a_column_of_the_table_gives_nulls(tmp_path: Path) -> None:
    table = table_of(tmp_path, rows(*"abc"))
    wider = TableWriter(folder=tmp_path, fields=(*KEY_AND_VALUE, ("late", "string")))
    wider.commit(at(2))
    dataset = table.open().snapshot()
    assert dataset.to_table(columns=["late"]).column("late").null_count == 3
    assert dataset.count_rows(pc.field("late").is_null()) == 3
    assert dataset.count_rows(pc.field("late") == "x") == 0


def test_statistics_of_a_widened_column_do_not_mislead(tmp_path: Path) -> None:
    fields = (("id", "string"), ("ts", "long"), ("value", "int"))
    table = table_of(tmp_path, [{"id": str(value), "ts": value, "value": value} for value in range(6)], fields=fields)
    TableWriter(folder=tmp_path, fields=KEY_AND_VALUE).commit(at(2))
    dataset = table.open().snapshot()
    assert dataset.schema.field("value").type == pa.string()
    assert dataset.to_table(columns=["id"], filter=pc.field("value") == "4").column("id").to_pylist() == ["4"]


def test_a_column_that_cannot_become_the_query_s_is_named(tmp_path: Path) -> None:
    fields = (("id", "string"), ("ts", "long"), ("value", {"type": "array", "items": "int"}))
    table = table_of(tmp_path, [{"id": "a", "ts": 1, "value": [1]}], fields=fields)
    TableWriter(folder=tmp_path).commit(at(2))
    with pytest.raises(SchemaEvolutionError, match="value") as caught:
        table.open().snapshot().to_table()
    assert caught.value.path.endswith(".parquet")
    assert table.open().snapshot().to_table(columns=["id"]).num_rows == 1


@pytest.mark.parametrize("log", [(), ({"id": "a", "ts": 9, "value": "new"},)], ids=["alone", "with logs"])
def test_a_damaged_file_is_named(tmp_path: Path, log: tuple[Row, ...]) -> None:
    table = table_of(tmp_path, rows(*"abc"), *log)
    (path,) = tmp_path.glob("*.parquet")
    whole = path.read_bytes()
    cut = len(whole) // 2
    for damaged in (
        b"",
        b"PAR1",
        whole[:-20],
        whole[:4] + b"\xff" * (cut - 4) + whole[cut:],
        b"PAR1" + b"\0" * 99 + b"PAR1",
    ):
        path.write_bytes(damaged)
        with pytest.raises(CorruptBaseFileError) as caught:
            table.open().snapshot().to_table()
        assert caught.value.path == path.name


@pytest.mark.parametrize("log", [(), ({"id": "a", "ts": 9, "value": "new"},)], ids=["alone", "with logs"])
def test_a_file_that_was_cleaned_is_named_with_the_instant_to_read_instead(
    tmp_path: Path, log: tuple[Row, ...]
) -> None:
    table = table_of(tmp_path, rows(*"abc"), *log)
    dataset = table.open().snapshot()
    assert list(dataset.splits())
    (path,) = tmp_path.glob("*.parquet")
    path.unlink()
    table.commit(at(5))
    with pytest.raises(DataFileGoneError) as caught:
        dataset.to_table()
    assert (caught.value.path, caught.value.query_instant) == (path.name, at(2) if log else at(1))
    assert caught.value.newest_instant == at(5)
