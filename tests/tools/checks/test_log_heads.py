"""Log files read in parts have the blocks that they have when they are read as a whole."""

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_bridge.errors import HudiReadError
from hudi_bridge.logformat.layout import BlockType, HeaderKey
from hudi_bridge.logformat.scan import ScanResult, scan_blocks
from hudi_bridge.splits.query_schema import newest_schema, scan_heads
from hudi_bridge.storage.storage import Storage
from tests.logformat.log_writer import log_block
from tests.support.counting_files import CountingFileSystem
from tests.support.golden_cases import golden_table
from tests.support.table_writer import at

EMPTY = pa.py_buffer(b"")


def heads_of(path: Path) -> ScanResult | str:
    try:
        return without_contents(scan_heads(Storage.open(path.parent), path.name, path.stat().st_size))
    except HudiReadError as error:
        return str(error)


def blocks_of(path: Path) -> ScanResult | str:
    try:
        return without_contents(scan_blocks(path.read_bytes(), path.name))
    except HudiReadError as error:
        return str(error)


def without_contents(scan: ScanResult) -> ScanResult:
    return replace(scan, blocks=tuple(replace(block, content=EMPTY) for block in scan.blocks))


@pytest.mark.parametrize("name", ["a_story_v6_0150", "c_corrupt_middle_0150", "c_many_blocks_0150", "i_cdc_cow_120"])
def test_golden_log_files(name: str) -> None:
    paths = [path for path in golden_table(name).rglob(".*.log.*") if not path.name.endswith(".crc")]
    assert paths
    for path in paths:
        assert heads_of(path) == blocks_of(path)


def test_large_blocks_and_headers(tmp_path: Path) -> None:
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: at(1), HeaderKey.SCHEMA: "é" * 100_000}
    blocks = [log_block(BlockType.AVRO_DATA, bytes(size), header) for size in (0, 7, 70_000, 1_000_000)]
    path = tmp_path / "log"
    path.write_bytes(b"".join(blocks))
    assert heads_of(path) == blocks_of(path)


def test_contents_are_not_read(tmp_path: Path) -> None:
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: at(1), HeaderKey.RECORD_POSITIONS: "positions" * 20_000}
    block = log_block(BlockType.AVRO_DATA, bytes(4_000_000), header)
    (tmp_path / ".f1-0_1.log.1").write_bytes(block * 3)
    files = CountingFileSystem()
    scan = scan_heads(Storage.open(str(tmp_path), files), ".f1-0_1.log.1", 3 * len(block))
    assert len(scan.blocks) == 3
    # The end of each block is read with the head of the next.
    assert files.requests.reads == 1 + 3
    assert 0 < files.requests.read_bytes < len(block) / 2


def schema_in_heads(path: Path) -> str | None:
    blocks = scan_heads(Storage.open(path.parent), path.name, 0).blocks
    return next((block.schema_text for block in reversed(blocks) if block.is_data), None)


@pytest.mark.parametrize("name", ["a_story_v6_0150", "c_many_blocks_0150", "c_corrupt_middle_0150", "i_cdc_cow_120"])
def test_the_newest_schema_of_golden_log_files(name: str) -> None:
    paths = list(golden_table(name).rglob(".*.log.*[0-9]"))
    assert paths
    for path in paths:
        assert newest_schema(Storage.open(path.parent), path.name) == schema_in_heads(path)


@pytest.mark.parametrize(
    "after", [b"", b"\0" * 5, b"#HUDI#" + bytes(100), bytes(8), b"\xff" * 60, bytes([0] * 7 + [50])]
)
def test_the_newest_schema_is_that_of_the_last_data_block(tmp_path: Path, after: bytes) -> None:
    def header(version: int) -> dict[int, str]:
        return {HeaderKey.INSTANT_TIME: at(version), HeaderKey.SCHEMA: f"schema {version}"}

    rows = [log_block(BlockType.AVRO_DATA, bytes(4_000_000), header(version)) for version in (1, 2)]
    deletes = log_block(BlockType.DELETE, bytes(70), {HeaderKey.INSTANT_TIME: at(3)})
    name = ".f1-0_1.log.1"
    (tmp_path / name).write_bytes(b"".join((*rows, deletes, after)))
    files = CountingFileSystem()
    assert newest_schema(Storage.open(str(tmp_path), files), name) == "schema 2"
    if not after:
        assert files.requests.reads == 2
    (tmp_path / name).write_bytes(deletes + after)
    assert newest_schema(Storage.open(tmp_path), name) is None


def test_any_damage(tmp_path: Path) -> None:
    blocks = [log_block(BlockType.AVRO_DATA, bytes(50), {HeaderKey.INSTANT_TIME: at(number)}) for number in range(4)]
    whole = b"".join(blocks)
    generator = random.Random(18)
    path = tmp_path / "log"
    for _ in range(400):
        data = bytearray(whole)
        position = generator.randrange(len(data))
        data[position] ^= 1 << generator.randrange(8)
        path.write_bytes(data[: generator.randrange(len(data)) + 1] if generator.random() < 0.3 else data)
        assert heads_of(path) == blocks_of(path)
