"""Small log blocks that follow one another are decoded together, and give what they give alone."""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge import HudiTable
from hudi_bridge.errors import CorruptLogFileError
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.merge.record_map import LogRecords
from hudi_bridge.readers import block_decoder, log_scan
from hudi_bridge.readers.block_decoder import BlockDecoder, adjacent_groups
from hudi_bridge.readers.log_scan import LogScan
from tests.support.compare import differences
from tests.support.slice_reads import slice_read
from tests.support.strength import one_in
from tests.support.table_writer import Row, TableWriter, at, record_positions

FIELDS = (("id", "string"), ("ts", "long"), ("value", "string"), ("note", "string"))


def block_of(size: int) -> LogBlock:
    return LogBlock(
        block_type=BlockType.AVRO_DATA,
        version=1,
        header={},
        content=pa.py_buffer(bytes(size)),
        footer={},
        path="f",
        offset=0,
        content_offset=0,
        size_bytes=size,
    )


@given(st.lists(st.tuples(st.sampled_from([None, "a", "b"]), st.integers(0, 12)), max_size=30))
def test_runs_keep_the_order_and_their_limits(given_blocks: list[tuple[str | None, int]]) -> None:
    blocks = [block_of(size) for _, size in given_blocks]
    likeness = {id(block): alike for block, (alike, _) in zip(blocks, given_blocks, strict=True)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_decoder, "_SMALL_BYTES", 10)
        patch.setattr(block_decoder, "_GROUP_BYTES", 25)
        actual = list(adjacent_groups(deque(blocks), lambda block: likeness[id(block)]))
    assert [id(block) for run in actual for block in run] == [id(block) for block in blocks]
    for run in actual:
        sizes = [block.content.size for block in run]
        assert len(run) == 1 or (max(sizes) <= 10 and sum(sizes) <= 25)
        assert len(run) == 1 or {likeness[id(block)] for block in run} in ({"a"}, {"b"})
    for before, after in pairwise(actual):
        sizes = [block.content.size for block in (*before, after[0])]
        alike = {likeness[id(block)] for block in (*before, after[0])}
        assert alike not in ({"a"}, {"b"}) or max(sizes) > 10 or sum(sizes) > 25


def row(key: str, ts: int) -> Row:
    return {"id": key, "ts": ts, "value": f"{key} at {ts}", "note": f"note {key}{ts}"}


def written(folder: Path, *, with_positions: bool) -> TableWriter:
    """A table with a log of many small data blocks, partial updates and deletes, of which keys occur several times."""
    table = TableWriter(folder=folder, fields=FIELDS).create()
    keys = [f"k{number}" for number in range(20)]
    table.base_file(at(1), [row(key, 1) for key in keys])
    table.commit(at(1))
    for number in range(2, 30):
        chosen = sorted({number % 20, (7 * number) % 20, (11 * number) % 20})
        positions = record_positions(chosen, at(1)) if with_positions else None
        rows = [row(keys[item], number) for item in chosen]
        blocks = [table.data_block(at(number), rows, positions=positions)]
        if number % 9 == 0:
            deletes = [(keys[number % 5], number)]
            at_position = record_positions([number % 5], at(1)) if with_positions else None
            blocks.append(table.delete_block(at(number), deletes, positions=at_position))
        if number % 11 == 0:
            partial = [{"id": keys[3], "ts": number, "note": "partial"}]
            at_position = record_positions([3], at(1)) if with_positions else None
            blocks.append(table.data_block(at(number), partial, only=("id", "ts", "note"), positions=at_position))
        table.log_file(at(number), blocks)
        table.commit(at(number))
    return table


def answers(table: HudiTable) -> Sequence[pa.Table]:
    dataset = table.snapshot()
    return (
        dataset.to_table(),
        dataset.to_table(columns=["note"]),
        dataset.to_table(filter=pc.field("value") > "k5"),
        dataset.to_table(columns=["note"], filter=pc.field("ts") > 25),
        table.get(["k3", "k18", "none"]),
    )


@pytest.mark.parametrize("with_positions", one_in(2, [False, True]))
@pytest.mark.parametrize("log_memory", [None, 300])
def test_rows_are_those_of_blocks_that_are_decoded_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, with_positions: bool, log_memory: int | None
) -> None:
    written(tmp_path, with_positions=with_positions)
    options: dict[str, Any] = {} if log_memory is None else {"log_memory_bytes": log_memory}
    monkeypatch.setattr(log_scan, "_MIN_LATE_BYTES", 0)
    together = answers(HudiTable.open(tmp_path, **options))
    monkeypatch.setattr(block_decoder, "_SMALL_BYTES", -1)
    for alone, actual in zip(answers(HudiTable.open(tmp_path, **options)), together, strict=True):
        assert actual.num_rows
        assert differences(alone, actual) == []


@pytest.mark.parametrize("with_positions", [False, True])
def test_blocks_are_decoded_together_and_keep_their_positions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, with_positions: bool
) -> None:
    table = written(tmp_path, with_positions=with_positions).open()
    (split,) = table.splits()
    decoded: list[int] = []
    decode_group = BlockDecoder.decode_group

    def noting(self: BlockDecoder, blocks: Sequence[LogBlock], *joined: Any) -> LogRecords:
        decoded.append(len(blocks))
        return decode_group(self, blocks, *joined)

    monkeypatch.setattr(BlockDecoder, "decode_group", noting)
    records = LogScan(slice_read(table._state.storage, split), base_rows=20).records()
    assert max(decoded) > 5
    assert (records.base_positions is not None) == with_positions


def damaged(table: TableWriter, number: int, text: str) -> Path:
    """Make a text in a log file, which has it once, one that is no UTF-8."""
    (path,) = table.folder.glob(f".*_{at(number)}.log.*")
    content = path.read_bytes()
    assert content.count(text.encode()) == 1
    path.write_bytes(content.replace(text.encode(), b"\xff" * len(text)))
    return path


@pytest.mark.parametrize("text", ["note k1717", "k17 at 17"])
@pytest.mark.parametrize("row_filter", [None, pc.field("ts") > 0])
def test_damage_is_said_of_the_block_that_it_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, row_filter: pc.Expression | None
) -> None:
    monkeypatch.setattr(log_scan, "_MIN_LATE_BYTES", 0)
    path = damaged(written(tmp_path, with_positions=False), 17, text)
    with pytest.raises(CorruptLogFileError, match=path.name.replace(".", r"\.")):
        HudiTable.open(tmp_path).snapshot().to_table(filter=row_filter)
