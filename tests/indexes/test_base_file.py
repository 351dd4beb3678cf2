from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge.errors import CorruptTableError, UnsupportedTableError
from hudi_bridge.indexes import slice_records
from hudi_bridge.indexes.slice_records import HFileInMemory, IndexedHFile, KeyRange, MetadataBaseFile
from hudi_bridge.logformat.hfile_blocks import HFileSource
from hudi_bridge.storage.storage import Storage
from tests.logformat.hfile_writer import GZ, NONE, hfile_of_levels
from tests.support.strength import one_in

KEYS = [f"key{number:04d}" for number in range(0, 400, 2)]
BLOCKS = [[(key, b"value of " + key.encode()) for key in KEYS[first : first + 5]] for first in range(0, len(KEYS), 5)]
SHAPES = pytest.mark.parametrize(("levels", "fanout", "codec"), [(1, 1, NONE), (2, 7, NONE), (3, 3, GZ), (4, 2, NONE)])


def base_file(folder: Path, data: bytes) -> MetadataBaseFile:
    (folder / "f.hfile").write_bytes(data)
    return MetadataBaseFile(Storage.open(folder), "f.hfile", len(data))


def rows(file: IndexedHFile, wanted: KeyRange | list[str] | None) -> list[str]:
    parts = (
        file.cells_of_keys([key.encode() for key in wanted])
        if isinstance(wanted, list)
        else file.cells_of_range(wanted)
    )
    actual = []
    for part in parts:
        values = memoryview(part.values)
        for key, start, end in zip(map(str, part.keys.to_pylist()), part.value_starts, part.value_ends, strict=True):
            assert bytes(values[start:end]) == f"value of {key}".encode()
            actual.append(key)
    return actual


@SHAPES
def test_all_cells(tmp_path: Path, levels: int, fanout: int, codec: int) -> None:
    file = base_file(tmp_path, hfile_of_levels(BLOCKS, levels, fanout, codec=codec))
    assert rows(file, None) == KEYS
    assert file.entries == len(KEYS)


@SHAPES
def test_only_some_keys(tmp_path: Path, levels: int, fanout: int, codec: int) -> None:
    file = base_file(tmp_path, hfile_of_levels(BLOCKS, levels, fanout, codec=codec))
    assert rows(file, ["a", "key0000"]) == ["key0000"]
    assert rows(file, ["key0009", "key0100", "key0103", "key0104", "zzz"]) == ["key0100", "key0104"]
    assert rows(file, KEYS[:64:3]) == KEYS[:64:3]


@SHAPES
def test_only_blocks_that_may_hold_many_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, levels: int, fanout: int, codec: int
) -> None:
    monkeypatch.setattr(slice_records, "FEW_KEYS", 0)
    file = base_file(tmp_path, hfile_of_levels(BLOCKS, levels, fanout, codec=codec))
    assert rows(file, ["a", "key0000"]) == KEYS[:5]
    assert rows(file, ["key0009", "key0100", "key0103", "zzz"]) == KEYS[:5] + KEYS[50:55] + KEYS[195:]
    assert rows(file, ["a"]) == []
    assert rows(file, []) == []


@SHAPES
def test_a_prefix(tmp_path: Path, levels: int, fanout: int, codec: int) -> None:
    file = base_file(tmp_path, hfile_of_levels(BLOCKS, levels, fanout, codec=codec))
    assert rows(file, KeyRange.of_prefix(b"key010")) == KEYS[45:55]
    assert rows(file, KeyRange.of_prefix(b"key03")) == KEYS[145:]


@given(st.sets(st.sampled_from(KEYS)), st.integers(1, 4), st.integers(1, 9), st.integers(1, 60))
def test_every_key_is_in_the_blocks_that_are_read(
    tmp_path_factory: pytest.TempPathFactory, asked: set[str], levels: int, fanout: int, size: int
) -> None:
    cells = [(key, b"value of " + key.encode()) for key in KEYS]
    blocks = [cells[first : first + size] for first in range(0, len(cells), size)]
    file = base_file(tmp_path_factory.mktemp("f"), hfile_of_levels(blocks, levels, fanout))
    actual = rows(file, sorted(asked))
    assert actual == sorted(asked) if len(asked) <= slice_records.FEW_KEYS else asked <= set(actual)
    assert actual == sorted(set(actual))
    assert len(actual) <= size * len(asked)


@pytest.mark.parametrize("codec", [NONE, GZ])
def test_an_hfile_in_memory_is_one_of_a_file(tmp_path: Path, codec: int) -> None:
    data = hfile_of_levels(BLOCKS, 2, 7, codec=codec)
    in_memory = HFileInMemory(HFileSource(buffer=pa.py_buffer(data), path="f.log.1", offset=100))
    file = base_file(tmp_path, data)
    for keys in (["key0000", "key0399"], KEYS[::2], KeyRange.of_prefix(b"key01"), None):
        assert rows(in_memory, keys) == rows(file, keys)
    assert in_memory.entries == len(KEYS)


def test_blocks_that_are_searched_are_counted(tmp_path: Path) -> None:
    file = base_file(tmp_path, hfile_of_levels(BLOCKS[:2], 1, 1))
    for searches in range(1, 20):
        rows(file, ["key0002" if searches % 2 else "x"])
        rows(file, ["a"])
        assert file.is_searched_through is (searches >= 16)


def test_searches_are_counted_by_key(tmp_path: Path) -> None:
    file = base_file(tmp_path, hfile_of_levels(BLOCKS[:2], 1, 1))
    for searches in range(1, 5):
        rows(file, ["key0002", "key0002a", "key0002b", "key0002c"])
        assert file.is_searched_through is (searches >= 4)


def test_all_cells_of_a_key_are_found() -> None:
    cells = [("a", b"1"), ("b", b"2"), ("b", b"3"), ("b", b"4"), ("c", b"5")]
    data = hfile_of_levels([cells], 1, 1)
    in_memory = HFileInMemory(HFileSource(buffer=pa.py_buffer(data), path="f.log.1", offset=0))
    (actual,) = in_memory.cells_of_keys([b"", b"b", b"x"])
    values = memoryview(actual.values)
    ends = zip(actual.value_starts, actual.value_ends, strict=True)
    assert [bytes(values[start:end]) for start, end in ends] == [b"2", b"3", b"4"]


def test_a_key_within_a_value_or_another_key_is_no_cell() -> None:
    cells = [("a", b"x"), ("b", b"\x00\x01d"), ("c\x00\x01d", b"y"), ("e", b"\x00\x01a"), ("f", b"z")]
    data = hfile_of_levels([cells], 1, 1)
    in_memory = HFileInMemory(HFileSource(buffer=pa.py_buffer(data), path="f.log.1", offset=0))
    (actual,) = in_memory.cells_of_keys([b"a", b"d", b"f", b"f" * 40_000])
    assert actual.keys.to_pylist() == ["a", "f"]


def test_entries_without_an_index_are_an_error() -> None:
    in_memory = HFileInMemory(HFileSource(buffer=pa.py_buffer(hfile_of_levels(BLOCKS, 1, 1)), path="f", offset=0))
    in_memory.__dict__["_trailer"] = replace(in_memory._trailer, data_index_count=0)
    with pytest.raises(CorruptTableError, match=f"{len(KEYS)} entries without an index"):
        in_memory.cells_of_keys([b"a"])
    in_memory.__dict__["_trailer"] = replace(in_memory._trailer, entry_count=0)
    assert list(in_memory.cells_of_keys([b"a"])) == []


def test_a_large_file_is_read_by_ranges(tmp_path: Path) -> None:
    blocks = [[(f"key{number:03d}", bytes(100_000))] for number in range(100)]
    data = hfile_of_levels(blocks, 1, 1)
    storage = _Counting.open(tmp_path)
    (tmp_path / "f.hfile").write_bytes(data)
    file = MetadataBaseFile(storage, "f.hfile", len(data))
    (part,) = file.cells_of_keys([b"key010"])
    assert part.keys.to_pylist() == ["key010"]
    tail, block = READ
    assert tail == (len(data) - (1 << 18), 1 << 18)
    assert block[1] < 101_000
    READ.clear()
    assert sum(len(part.keys) for part in file.cells_of_keys([b"key010", b"key011", b"key050"])) == 3
    assert len(READ) == 2
    READ.clear()
    assert sum(len(part.keys) for part in file.cells_of_range()) == 100
    assert all(size <= 1 << 22 for _, size in READ)
    assert len(READ) <= 4


READ: list[tuple[int, int]] = []


class _Counting(Storage):
    def read_range(self, file: pa.NativeFile, path: str, start: int, size: int) -> pa.Buffer:
        READ.append((start, size))
        return super().read_range(file, path, start, size)


def test_a_cut_file_is_corrupt(tmp_path: Path) -> None:
    data = hfile_of_levels(BLOCKS, 2, 7)
    for size in (0, 100, 5000, len(data) - 1):
        with pytest.raises(CorruptTableError):
            rows(base_file(tmp_path, data[:size]), ["key0100"])


@pytest.mark.heavy
@pytest.mark.parametrize("byte", one_in(3, [0x00, 0x7F, 0xFF]))
def test_damage_is_an_error_or_changes_only_values(tmp_path: Path, byte: int) -> None:
    data = hfile_of_levels(BLOCKS[:4], 3, 2)
    for position in range(0, len(data), 7):
        damaged = base_file(tmp_path, data[:position] + bytes([byte]) + data[position + 1 :])
        try:
            parts = list(damaged.cells_of_range())
        except (CorruptTableError, UnsupportedTableError):
            continue
        for part in parts:
            assert all(start <= end for start, end in zip(part.value_starts, part.value_ends, strict=True))
            assert all(before <= after for before, after in pairwise(part.value_starts))
