"""A type of log block that a later release adds is taken for no other, wherever blocks are decoded or looked into.

Each type has an entry in ``BLOCK_KINDS``, which is all that a new type takes.
"""

from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

from hudi_bridge import HudiTable, UnsupportedTableError, tools
from hudi_bridge.connectors.trino.blocks import Blocks
from hudi_bridge.connectors.trino.compatibility import LogColumns
from hudi_bridge.connectors.trino.sql_types import Engine
from hudi_bridge.logformat import block
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.kinds import BLOCK_KINDS
from hudi_bridge.logformat.layout import BlockType
from tests.support.table_writer import TableWriter, at


class LaterType(IntEnum):
    """As if ``BlockType`` had one more."""

    VECTOR_DATA = 7


def read_snapshot(table: HudiTable, _: str) -> object:
    return table.snapshot().to_table()


def trace(table: HudiTable, _: str) -> object:
    return tools.history_of(table, "a")


def map_columns(table: HudiTable, log_path: str) -> object:
    return table.file_columns(log_path)


def publish_blocks(table: HudiTable, _: str) -> object:
    splits = table.splits()
    context = splits[0].context
    storage, columns = table.storage, LogColumns.of(context, Engine.TRINO)
    return list(Blocks.of(storage, context, columns, "one", for_merging=False).tables(splits))


READS: dict[str, Callable[[HudiTable, str], object]] = {
    "snapshot": read_snapshot,
    "story of a record": trace,
    "columns of a file": map_columns,
    "published blocks": publish_blocks,
}


@pytest.fixture
def written(tmp_path: Path) -> tuple[HudiTable, str]:
    """A table, and its log file, which has one block of rows."""
    table = TableWriter(folder=tmp_path).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])
    table.commit(at(1))
    file = table.log_file(at(2), [table.data_block(at(2), [{"id": "a", "ts": 2, "value": "y"}])], base_instant=at(1))
    table.commit(at(2))
    return table.open(), file.relative_to(tmp_path).as_posix()


def has_type(block_type: IntEnum, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "_block_type", lambda *_: block_type)


@pytest.mark.parametrize("name", READS)
def test_a_type_without_an_entry_is_read_by_nothing(
    name: str, written: tuple[HudiTable, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    READS[name](*written)
    has_type(LaterType.VECTOR_DATA, monkeypatch)
    with pytest.raises(KeyError, match="VECTOR_DATA"):
        READS[name](*written)


@pytest.mark.parametrize("name", READS)
def test_an_entry_is_all_that_a_new_type_takes(
    name: str, written: tuple[HudiTable, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = READS[name](*written)
    entries: Any = {**BLOCK_KINDS, LaterType.VECTOR_DATA: BLOCK_KINDS[BlockType.AVRO_DATA]}
    monkeypatch.setattr(block, "BLOCK_KINDS", entries)
    has_type(LaterType.VECTOR_DATA, monkeypatch)
    actual = READS[name](*written)
    assert actual == expected if name in ("snapshot", "columns of a file") else type(actual) is type(expected)


def test_each_type_has_an_entry_and_records_take_memory() -> None:
    assert set(BLOCK_KINDS) == set(BlockType)
    for kind in BLOCK_KINDS.values():
        assert (kind.memory_factor > 0) is (kind.holds_deletes or kind.rows is not None)


def test_a_number_that_is_no_type_is_refused(written: tuple[HudiTable, str], monkeypatch: pytest.MonkeyPatch) -> None:
    known = block._block_type
    monkeypatch.setattr(block, "_block_type", lambda _, offset, path: known(7, offset, path))
    with pytest.raises(UnsupportedTableError, match="7 in"):
        read_snapshot(*written)


@pytest.mark.parametrize("block_type", [BlockType.CDC_DATA, BlockType.CORRUPT])
def test_blocks_without_records_are_not_decoded(
    block_type: BlockType, written: tuple[HudiTable, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    has_type(block_type, monkeypatch)
    monkeypatch.setattr(LogBlock, "is_data", property(lambda _: True))
    with pytest.raises(ValueError, match=block_type.name):
        read_snapshot(*written)
