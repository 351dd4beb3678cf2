"""The memory of streams, of Arrow and of NumPy: bounded, whatever the size and the number of file slices."""

import gc
import tempfile
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice, starmap
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiTable
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.merge.record_map import LogRecords
from hudi_bridge.readers.block_decoder import BlockDecoder
from tests.support.lsm_tables import LSM_TREE, opened
from tests.support.strength import one_in
from tests.support.table_writer import META_FIELDS, TableWriter, at

MB = 1 << 20
ROWS_OF_A_MB = MB // 500
STREAM_BYTES = 64 * MB
"""What a stream of these tables takes at most: some batches, a queue of them and the pages that are being decoded."""

_POOLS: list[pa.MemoryPool] = []
"""All pools of these tests: what they have allocated must not outlive them."""


def peak_bytes(read: Callable[[], object]) -> int:
    """The most bytes that Arrow has allocated at the same time meanwhile, and the most of Python and NumPy."""
    usual = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(usual)
    _POOLS.append(counted)
    pa.set_memory_pool(counted)
    tracemalloc.start()
    try:
        read()
        _, of_python = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    return (counted.max_memory() or 0) + of_python


def streamed(table: TableWriter, **options: Any) -> int:
    """The number of rows of a stream, whose consumer gives the threads time to fill the queues."""
    rows = 0
    for number, batch in enumerate(table.open().snapshot().to_batches(**options)):
        rows += batch.num_rows
        if number < 3:
            time.sleep(0.05)
    return rows


def table_of(
    folder: Path, slices: int, megabytes: int, *, row_group_size: int, logged: int = 10, text_of_log: str = "new"
) -> TableWriter:
    """A table of file slices of that size in memory each, with some rows updated in the log."""
    table = TableWriter(folder=folder).create()
    rows = megabytes * ROWS_OF_A_MB
    text = pa.array(["x" * 400 + f"{number:09d}" for number in range(1000)])
    for number in range(slices):
        keys = pa.array([f"{number}-{row:09d}" for row in range(rows)])
        path = folder / f"f{number}-0_0-1-1_{at(1)}.parquet"
        columns: dict[str, Any] = {name: pa.repeat(at(1), rows) for name in META_FIELDS}
        columns |= {"_hoodie_record_key": keys, "id": keys, "ts": pa.array(np.ones(rows, dtype=np.int64))}
        columns["value"] = text.take(pa.array(np.arange(rows) % len(text), pa.int64()))
        stored = pa.table(columns).cast(table.arrow_schema)
        pq.write_table(stored, path, row_group_size=row_group_size, use_dictionary=False)
        updates = [{"id": key.as_py(), "ts": 2, "value": text_of_log} for key in keys[:logged]]
        table.log_file(at(2), [table.data_block(at(2), updates)], file_id=f"f{number}-0")
    table.commit(at(1))
    table.commit(at(2))
    return table


@pytest.mark.parametrize(("groups", "logged"), one_in(3, starmap(pytest.param, [(1, 0), (1, 3000), (4, 3000)])))
def test_a_stream_of_a_large_file_takes_little_memory(groups: int, logged: int, tmp_path: Path) -> None:
    rows = 160 * ROWS_OF_A_MB
    table = table_of(tmp_path, 1, 160, row_group_size=rows // groups, logged=logged)
    actual: list[int] = []
    assert peak_bytes(lambda: actual.append(streamed(table))) < STREAM_BYTES
    assert actual == [rows]


@pytest.mark.long
def test_a_stream_of_many_slices_takes_little_memory(tmp_path: Path) -> None:
    table = table_of(tmp_path, 16, 10, row_group_size=1 << 20)
    actual: list[int] = []
    assert peak_bytes(lambda: actual.append(streamed(table))) < STREAM_BYTES
    assert actual == [160 * ROWS_OF_A_MB]


def test_a_few_rows_of_a_large_file_take_little_memory(tmp_path: Path) -> None:
    table = table_of(tmp_path, 1, 100, row_group_size=1 << 20)
    actual: list[int] = []

    def read() -> None:
        actual.append(streamed(table, filter=pc.field("id") == f"0-{1234:09d}"))
        actual.append(table.open().snapshot().head(1).num_rows)

    assert peak_bytes(read) < STREAM_BYTES
    assert actual == [1, 1]


@pytest.mark.parametrize("logged", one_in(2, [0, 1000]))
def test_the_rows_of_a_filter_take_no_more_in_a_table_than_in_a_stream(logged: int, tmp_path: Path) -> None:
    table = table_of(tmp_path, 4, 24, row_group_size=1 << 20, logged=logged)
    passes = pc.ends_with(pc.field("id"), "77")
    actual: list[int] = []
    stream = peak_bytes(lambda: actual.append(streamed(table, filter=passes)))
    whole = peak_bytes(lambda: actual.append(table.open().snapshot().to_table(filter=passes).num_rows))
    assert whole < stream + 6 * MB
    assert actual == [actual[0]] * 2


@pytest.mark.parametrize(("most_kept", "releases"), [(0, 1), (1 << 30, 0)])
def test_a_large_read_has_arrow_give_back_what_it_keeps(
    most_kept: int, releases: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path, 2, 1, row_group_size=1 << 20)
    pool = Mock(spec=pa.MemoryPool)
    monkeypatch.setattr("hudi_bridge.split_reader._RELEASED_BYTES", most_kept)
    batches = table.open().snapshot().to_batches()
    next(batches)
    monkeypatch.setattr("hudi_bridge.split_reader.pa.default_memory_pool", lambda: pool)
    deque(batches, 0)
    assert pool.release_unused.call_count == releases


@pytest.mark.heavy
@pytest.mark.parametrize("is_left_early", one_in(2, [False, True]))
def test_the_memory_for_logs_is_kept_and_no_file_stays(
    is_left_early: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = 48 * ROWS_OF_A_MB
    table = table_of(tmp_path / "t", 1, 48, row_group_size=1 << 20, logged=logged, text_of_log="y" * 300)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    memory = 4 * MB
    actual: list[int] = []
    decoded: list[LogBlock] = []
    decode = BlockDecoder.decode_in_chunks

    def counted(decoder: BlockDecoder, block: LogBlock, *, materialized: bool = True) -> Iterator[LogRecords]:
        decoded.append(block)
        return decode(decoder, block, materialized=materialized)

    monkeypatch.setattr(BlockDecoder, "decode_in_chunks", counted)

    def read(limit: int | None) -> None:
        batches = HudiTable.open(str(table.folder), log_memory_bytes=limit).snapshot().to_batches()
        actual.append(sum(batch.num_rows for batch in (islice(batches, 1) if is_left_early else batches)))

    whole = peak_bytes(lambda: read(None))
    in_parts = peak_bytes(lambda: read(memory))
    assert actual[1] == actual[0] == logged or is_left_early
    # A batch of log records is decoded, written and read at a time.
    assert in_parts < whole - 20 * MB
    # The file of the logs, a few pieces of decoded records, and one part of them.
    assert in_parts < 0.75 * STREAM_BYTES + 1.3 * memory
    assert len(decoded) == 2
    gc.collect()
    assert list(scratch.iterdir()) == []


@pytest.mark.long
@pytest.mark.heavy
def test_the_memory_for_logs_is_kept_where_most_values_are_null(tmp_path: Path) -> None:
    fields = (("id", "string"), ("ts", "long"), *((f"n{number}", "long") for number in range(400)))
    table = TableWriter(folder=tmp_path, fields=fields).create()
    for number in range(4):
        rows = [{"id": f"{number}-{row:05d}", "ts": 1} for row in range(4000)]
        table.log_file(at(1 + number), [table.data_block(at(1 + number), rows)])
        table.commit(at(1 + number))
    logs = sum(path.stat().st_size for path in tmp_path.glob(".*.log.*"))
    # A record has 0.4 KB in the log, and 3.2 in memory.
    memory = 16 * MB
    assert logs < memory / 2
    actual: list[int] = []

    def read() -> None:
        batches = HudiTable.open(str(table.folder), log_memory_bytes=memory).snapshot().to_batches()
        actual.append(sum(batch.num_rows for batch in batches))

    read()
    assert peak_bytes(read) < logs + 30 * MB
    assert actual == [16_000, 16_000]


def large_tree(folder: Path, megabytes: int) -> HudiTable:
    """A base file and two log files of as many megabytes each, whose keys lie between one another."""
    count = megabytes * 2000
    writer = TableWriter(folder=folder, version=10, options=LSM_TREE).create()
    names = writer.arrow_schema.names
    for number, instant in enumerate((at(1), at(2), at(3))):
        if number:
            path = writer.native_log(instant, [{"id": "0", "ts": 0, "value": ""}])
        else:
            path = writer.base_file(instant, [{"id": "0", "ts": 0, "value": ""}])
        metadata = pq.read_schema(path).metadata
        keys = [f"{row * 3 + number:012}" for row in range(count)]
        text = np.random.default_rng(number).bytes(250 * count).hex()
        texts = pa.array([text[start : start + 500] for start in range(0, len(text), 500)])
        columns = dict.fromkeys(META_FIELDS, pa.array([""] * count)) | {
            "_hoodie_commit_time": pa.array([instant] * count),
            "_hoodie_record_key": pa.array(keys),
            "id": pa.array(keys),
            "ts": pa.array(np.arange(count)),
            "value": texts,  # 500 bytes each
        }
        rows = pa.table({name: columns[name] for name in names}).replace_schema_metadata(metadata)
        pq.write_table(rows, path, row_group_size=4000, compression="none", use_dictionary=False)
        writer.commit(instant, wrote=[path])
    return opened(writer)


def rows_of(table: HudiTable) -> int:
    return sum(batch.num_rows for batch in table.snapshot().to_batches())


@pytest.mark.long
def test_the_memory_of_a_merge_is_that_of_batches_and_not_of_files(tmp_path: Path) -> None:
    table = large_tree(tmp_path, 40)
    (split,) = table.splits()
    assert split.base_size_bytes + split.log_size_bytes > 120 * MB
    rows = []
    assert peak_bytes(lambda: rows.append(rows_of(table))) < STREAM_BYTES
    assert rows == [3 * 40 * 2000]
