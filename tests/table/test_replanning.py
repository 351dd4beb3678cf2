"""Reads that plan again when the cleaner has removed files: never with rows of two instants."""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import DataFileGoneError, HudiDataset, HudiTable, InstantNotReadableError, OnFilesGone, QueryError
from hudi_bridge.scanner import Replanning
from tests.support.compacted_table import NAMES, Compacted
from tests.support.table_writer import TableWriter, at, sorted_column


@pytest.fixture
def table(tmp_path: Path) -> Compacted:
    return Compacted(tmp_path / "t")


def replanning(table: Compacted) -> HudiDataset:
    """A dataset that is planned, its files named, before the next compaction."""
    dataset = table.open().snapshot(on_files_gone="replan")
    list(dataset.splits())
    return dataset


READS: dict[str, Callable[[HudiDataset], pa.Table]] = {
    "to_table": lambda dataset: dataset.to_table(),
    "to_batches": lambda dataset: pa.Table.from_batches(dataset.to_batches()),
    "one thread": lambda dataset: dataset.to_table(use_threads=False),
    "stream": pa.table,
    "head": lambda dataset: dataset.head(5),
    "expressions": lambda dataset: dataset.to_table({"value": pc.field("value")}),
    "filter": lambda dataset: dataset.filter(pc.field("ts") == 1).to_table(),
    "get": lambda dataset: dataset.get(NAMES),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_whose_files_are_gone_is_planned_again(table: Compacted, read: Callable[[HudiDataset], Any]) -> None:
    dataset = replanning(table)
    table.compact()
    assert sorted_column(read(dataset), "value") == ["2", "2"]


def test_the_dataset_names_the_instant_that_was_read(table: Compacted) -> None:
    dataset = replanning(table)
    assert dataset.instant == at(3)
    table.compact()
    assert dataset.count_rows() == 2
    assert dataset.instant == at(6)


def test_a_dataset_that_has_given_out_rows_stays_at_its_instant(table: Compacted) -> None:
    """As in a join with itself."""
    dataset = replanning(table)
    assert sorted_column(dataset.to_table(), "value") == ["1", "1"]
    table.compact()
    for _ in range(2):
        with pytest.raises(DataFileGoneError):
            dataset.to_table()
    assert dataset.instant == at(3)


def test_scans_at_the_same_time_are_of_one_instant(table: Compacted) -> None:
    dataset = replanning(table)
    slower = dataset.to_batches(use_threads=False)
    table.compact()
    assert sorted_column(dataset.to_table(), "value") == ["2", "2"]
    # The other scan, which was begun by the earlier plan, is repeated by the new one.
    assert sorted_column(pa.Table.from_batches(slower), "value") == ["2", "2"]


def test_a_scan_whose_plan_was_replaced_gives_out_no_row_of_it() -> None:
    plans: list[int] = []
    replanning = Replanning(lambda _: plans.append(1))

    def read(value: int, meanwhile: Callable[[], object]) -> Generator[pa.RecordBatch, None, None]:
        meanwhile()
        yield pa.RecordBatch.from_pydict({"value": [value + len(plans)]})

    def gone() -> None:
        if not plans:
            raise DataFileGoneError("f", None, None)

    inner = [lambda: replanning.whole(gone)]
    batches = list(replanning.batches(lambda: read(10 + len(plans), lambda: inner.pop()() if inner else None)))
    assert [batch.to_pydict() for batch in batches] == [{"value": [12]}]


def test_without_the_option_the_error_names_the_file(table: Compacted) -> None:
    dataset = table.open().snapshot()
    list(dataset.splits())
    table.compact()
    with pytest.raises(DataFileGoneError, match=at(3)):
        dataset.to_table()


@pytest.mark.parametrize("on_files_gone", OnFilesGone)
def test_files_that_are_gone_before_they_were_listed(table: Compacted, on_files_gone: str) -> None:
    opened = table.open()
    datasets = [
        opened.snapshot(on_files_gone=on_files_gone),
        opened.read_optimized(on_files_gone=on_files_gone),
    ]
    reads: list[Callable[[], pa.Table]] = [dataset.to_table for dataset in datasets]
    reads.append(lambda: opened.get(NAMES, on_files_gone=on_files_gone))
    table.compact()
    table.note_clean()
    for read in reads:
        if on_files_gone == OnFilesGone.REPLAN:
            assert sorted_column(read(), "value") == ["2", "2"]
        else:
            with pytest.raises(InstantNotReadableError, match="since it was chosen"):
                read()


def test_after_the_first_rows_it_is_an_error(table: Compacted) -> None:
    dataset = replanning(table)
    batches = dataset.to_batches(use_threads=False)
    assert next(batches).num_rows == 1
    table.compact()
    with pytest.raises(DataFileGoneError):
        list(batches)
    assert dataset.instant == at(3)


def test_empty_batches_are_no_rows(table: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = replanning(table)
    once = dataset._batches

    def after_an_empty_one(*arguments: Any, **options: Any) -> Any:
        yield pa.RecordBatch.from_pylist([], schema=dataset.schema)
        yield from once(*arguments, **options)

    monkeypatch.setattr(dataset, "_batches", after_an_empty_one)
    table.compact()
    assert sum(batch.num_rows for batch in dataset.to_batches()) == 2


def test_it_is_planned_again_three_times_at_most(table: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = replanning(table)
    refresh = HudiTable.refresh

    def then_compacted(opened: HudiTable) -> HudiTable:
        newer = refresh(opened)
        newer.splits()
        table.compact()
        return newer

    monkeypatch.setattr(HudiTable, "refresh", then_compacted)
    table.compact()
    for read in (dataset.to_table, lambda: list(dataset.to_batches())):
        with pytest.raises(DataFileGoneError):
            read()
        assert table.instants == 5


def test_other_columns_are_not_promised_and_so_an_error(tmp_path: Path) -> None:
    table = Compacted(tmp_path / "t")
    dataset = replanning(table)
    table.writer = TableWriter(folder=tmp_path / "t", fields=(*table.writer.fields, ("more", "string")))
    table.compact()
    with pytest.raises(DataFileGoneError, match=at(3)):
        dataset.to_table()
    assert (dataset.instant, "more" in dataset.schema.names) == (at(3), False)


def test_an_instant_that_was_asked_for_is_not_changed(table: Compacted) -> None:
    opened = table.open()
    for read in (opened.snapshot, opened.read_optimized):
        with pytest.raises(QueryError, match=f"replan as of {at(3)}"):
            read(at(3), on_files_gone="replan")
        assert read(at(3), on_files_gone="error").count_rows() == 2
    with pytest.raises(QueryError, match="'later', expected error or replan"):
        opened.snapshot(on_files_gone="later")
