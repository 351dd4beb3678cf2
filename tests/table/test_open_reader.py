"""A split that has travelled gives the same rows as the dataset it comes from."""

import gc
import pickle
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiTable, QueryError, QueryType, RealtimeCompactedReader, RealtimeFileSplit, open_reader
from hudi_bridge.errors import CorruptTableError
from tests.support.compare import differences
from tests.support.table_writer import KEY_AND_VALUE, TableWriter, at


@pytest.fixture(params=[6, 9])
def table(tmp_path: Path, request: Any) -> HudiTable:
    fields = (*KEY_AND_VALUE, ("part", "string"))
    writer = TableWriter(folder=tmp_path, version=request.param, fields=fields, partition_fields=("part",)).create()
    old, new = [], []
    for part in "pq":
        where: dict[str, Any] = {"partition": part, "file_id": f"f{part}-0"}
        rows = [{"id": key, "ts": 1, "value": "old", "part": part} for key in "abc"]
        old.append(writer.base_file(at(1), rows, row_group_size=2, **where))
        blocks = [
            writer.data_block(at(2), [{"id": "a", "ts": 2, "value": "new", "part": part}], **where),
            writer.delete_block(at(2), [("b", 1)], partition=part),
        ]
        new.append(writer.log_file(at(2), blocks, base_instant=at(1), **where))
    writer.commit(at(1), wrote=old)
    writer.commit(at(2), wrote=new)
    return writer.open()


def json_copy(split: RealtimeFileSplit) -> RealtimeFileSplit:
    return RealtimeFileSplit.from_json(split.to_json())


def pickled_copy(split: RealtimeFileSplit) -> RealtimeFileSplit:
    copy: RealtimeFileSplit = pickle.loads(pickle.dumps(split))
    return copy


@pytest.mark.parametrize("travel", [json_copy, pickled_copy])
@pytest.mark.parametrize("query_type", [QueryType.SNAPSHOT, QueryType.READ_OPTIMIZED])
def test_travelled_splits_give_the_rows_of_the_dataset(table: HudiTable, query_type: QueryType, travel: Any) -> None:
    dataset = table.read_optimized() if query_type is QueryType.READ_OPTIMIZED else table.snapshot()
    splits = [travel(split) for split in table.splits(query_type=query_type)]
    assert len(splits) == 2
    for columns, row_filter in ((None, None), (["value", "part"], None), (["id"], pc.field("value") == "new")):
        readers = [open_reader(split, columns=columns, row_filter=row_filter) for split in splits]
        batches = [batch for reader in readers for batch in reader.batches()]
        actual = pa.Table.from_batches(batches, readers[0].schema)
        assert differences(dataset.to_table(columns=columns, filter=row_filter), actual) == []


def test_columns_and_filters_are_checked_at_once(table: HudiTable) -> None:
    split = table.splits()[0]
    with pytest.raises(QueryError, match="nope"):
        open_reader(split, columns=["nope"])
    with pytest.raises(QueryError, match="nope"):
        open_reader(split, row_filter=pc.field("nope") == 1)


def test_a_split_whose_paths_leave_the_table_is_refused(table: HudiTable) -> None:
    split = table.splits(query_type=QueryType.READ_OPTIMIZED)[0]
    for path in ("../secret.parquet", "/etc/passwd", "p/../../x"):
        with pytest.raises(CorruptTableError, match="leaves the table"):
            list(open_reader(replace(split, base_path=path)).batches())


def test_a_reader_is_iterable(table: HudiTable) -> None:
    split = table.splits()[0]
    reader = open_reader(split, columns=["id", "value"])
    expected = pa.table({"id": ["a", "c"], "value": ["new", "old"]})
    for _ in range(2):
        assert differences(expected, pa.Table.from_batches(list(reader))) == []
        assert differences(expected, reader.to_table()) == []
    assert differences(expected, reader.to_reader().read_all()) == []
    assert differences(expected, pa.table(reader)) == []
    assert pl.DataFrame(reader).height == 2
    assert reader.schema == reader.to_table().schema == reader.to_reader().schema == expected.schema


def all_readers(table: HudiTable) -> list[RealtimeCompactedReader]:
    changes = table.changes("earliest").splits()
    assert changes
    splits = [*table.splits(), *table.splits(query_type=QueryType.READ_OPTIMIZED), *changes]
    return [open_reader(split) for split in splits]


def test_readers_of_all_splits_are_context_managers(table: HudiTable) -> None:
    for reader in all_readers(table):
        with reader as entered:
            assert entered is reader
            assert sum(batch.num_rows for batch in entered) == reader.to_table().num_rows


def test_whoever_leaves_early_leaves_nothing_open(table: HudiTable, tmp_path: Path) -> None:
    threads, is_open = set(threading.enumerate()), False
    for reader in all_readers(table):
        with reader:
            begun = [iter(reader), reader.to_reader(), iter(reader)]
            assert next(begun[0]).num_rows
            assert next(begun[1]).num_rows
            is_open |= bool(open_files(tmp_path))
        assert open_files(tmp_path) == []
        # Threads of earlier tests may have ended.
        assert set(threading.enumerate()) <= threads
        for batches in begun:
            # What has been taken is not all: it must not look so.
            with pytest.raises(QueryError, match="closed"):
                list(batches)
        for again in (reader.batches, reader.to_table, reader.to_reader, reader.__arrow_c_stream__):
            with pytest.raises(QueryError, match="closed"):
                again()
        reader.close()
    assert is_open


def test_a_reader_that_is_not_closed_ends_with_its_consumer(table: HudiTable, tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    for reader in all_readers(table):
        for batch in reader:
            assert batch.num_rows
            break
    del reader, batch
    gc.collect()
    assert open_files(tmp_path) == []
    assert set(threading.enumerate()) <= threads


def test_an_error_within_leaves_as_it_is(table: HudiTable) -> None:
    with pytest.raises(ZeroDivisionError), open_reader(table.splits()[0]) as reader:  # noqa: PT012
        next(iter(reader))
        raise ZeroDivisionError


def open_files(folder: Path) -> list[Path]:
    """The files below a folder that this process has open."""
    links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [link for link in links if link.is_relative_to(folder)]


def test_a_split_of_no_files_is_refused(table: HudiTable) -> None:
    with pytest.raises(QueryError, match="split"):
        open_reader(replace(table.splits()[0], base_path=None, log_paths=()))
