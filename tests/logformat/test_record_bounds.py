import random
import struct
from collections.abc import Sequence
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge.errors import CorruptLogFileError
from hudi_bridge.logformat import avro_columns as module
from hudi_bridge.logformat.avro_columns import bounds_in_pieces, content_bounds, record_bounds
from tests.support.strength import examples

PATH, OFFSET = "p/.f1_1.log.1_0-1-0", 4096
HEAD = b"skip"
MANY = 5_000


def content(lengths: Sequence[int], seed: int, alphabet: int = 256) -> bytes:
    """Records of these lengths; with few letters, the records hold much that looks like a length."""
    letters = random.Random(seed)
    records = (bytes(letters.choices(range(alphabet), k=length)) for length in lengths)
    return HEAD + b"".join(struct.pack(">i", len(record)) + record for record in records)


def expected(lengths: Sequence[int]) -> list[tuple[int, int]]:
    bounds, position = [], len(HEAD)
    for length in lengths:
        bounds.append((position + 4, position + 4 + length))
        position += 4 + length
    return bounds


def found(block: bytes, count: int) -> list[tuple[int, int]]:
    starts, ends = record_bounds(block, len(HEAD), count, PATH, OFFSET)
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def lengths_between(low: int, high: int, seed: int, count: int = MANY) -> list[int]:
    numbers = random.Random(seed)
    return [numbers.randint(low, high) for _ in range(count)]


@settings(max_examples=examples(60), deadline=None)
@given(
    count=st.integers(0, 3 * MANY),
    low=st.integers(0, 60),
    spread=st.integers(0, 40),
    alphabet=st.sampled_from([1, 2, 3, 256]),
    odd=st.lists(st.tuples(st.integers(0, 3 * MANY), st.sampled_from([0, 1, 5_000, 70_000])), max_size=3),
    seed=st.integers(0, 2**32),
)
def test_the_records_are_found_whatever_their_lengths_and_bytes(
    count: int, low: int, spread: int, alphabet: int, odd: list[tuple[int, int]], seed: int
) -> None:
    lengths = lengths_between(low, low + spread, seed, count)
    for place, length in odd:
        if place < count:
            lengths[place] = length
    assert found(content(lengths, seed, alphabet), count) == expected(lengths)


def test_a_large_block_is_read_from_many_places(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = lengths_between(100, 250, 1)
    block = content(lengths, 1)
    monkeypatch.delattr(module, "_offsets_in_turn")
    assert found(block, MANY) == expected(lengths)


@settings(max_examples=examples(60), deadline=None)
@given(place=st.integers(0, MANY - 1), damage=st.sampled_from([-(2**31), -5, 0, 1, 2**31 - 1]), seed=st.integers(0, 99))
def test_damage_is_found_as_when_all_lengths_are_read_in_turn(place: int, damage: int, seed: int) -> None:
    lengths = lengths_between(20, 40, seed)
    block = bytearray(content(lengths, seed))
    start = expected(lengths)[place][0]
    struct.pack_into(">i", block, start - 4, damage)
    with pytest.raises(CorruptLogFileError) as raised:
        found(bytes(block), MANY)
    with (
        mock.patch.object(module, "_offsets_by_chains", return_value=None),
        pytest.raises(CorruptLogFileError) as in_turn,
    ):
        found(bytes(block), MANY)
    assert str(raised.value) == str(in_turn.value)


@pytest.mark.parametrize("count", [MANY - 1, MANY + 1, 3 * MANY])
def test_another_number_of_records_is_refused(count: int) -> None:
    with pytest.raises(CorruptLogFileError):
        found(content(lengths_between(20, 40, 1), 1), count)


def records_in_pieces(block: bytes, piece_bytes: int) -> list[bytes]:
    def read_into(start: int, buffer: memoryview) -> None:
        buffer.cast("B")[:] = block[start : start + len(buffer)]

    found = []
    with mock.patch.object(module, "_PIECE_BYTES", piece_bytes):
        for buffer, starts, ends in bounds_in_pieces(pa.py_buffer(block[:8]), len(block), read_into, PATH, OFFSET):
            data = buffer.to_pybytes()
            found += [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    return found


def avro_content(lengths: Sequence[int], seed: int, alphabet: int = 256) -> bytes:
    return struct.pack(">ii", 3, len(lengths)) + content(lengths, seed, alphabet)[len(HEAD) :]


@settings(max_examples=examples(60), deadline=None)
@given(
    count=st.integers(0, 3 * MANY),
    low=st.integers(0, 60),
    spread=st.integers(0, 40),
    alphabet=st.sampled_from([1, 2, 3, 256]),
    odd=st.lists(st.tuples(st.integers(0, 3 * MANY), st.sampled_from([0, 1, 5_000, 70_000])), max_size=3),
    piece_bytes=st.sampled_from([5, 64, 100_000, 200_001, 1 << 23]),
    seed=st.integers(0, 2**32),
)
def test_records_that_are_read_in_pieces_are_those_of_the_whole_content(
    count: int, low: int, spread: int, alphabet: int, odd: list[tuple[int, int]], piece_bytes: int, seed: int
) -> None:
    lengths = lengths_between(low, low + spread, seed, min(count, 50 * piece_bytes))
    for place, length in odd:
        if place < len(lengths):
            lengths[place] = length
    block = avro_content(lengths, seed, alphabet)
    starts, ends = content_bounds(pa.py_buffer(block), PATH, OFFSET)
    expected = [block[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    assert records_in_pieces(block, piece_bytes) == expected


def test_a_piece_is_read_from_many_places_up_to_the_record_that_it_ends_in(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = lengths_between(100, 250, 1, 4 * MANY)
    monkeypatch.setattr(module, "array", None)
    # What is left of the content for the last piece are as many records.
    assert len(records_in_pieces(avro_content(lengths, 1), 1_000_000)) == len(lengths)


@settings(max_examples=examples(60), deadline=None)
@given(
    place=st.integers(0, MANY - 1),
    damage=st.sampled_from([-(2**31), -5, 0, 1, 2**31 - 1]),
    piece_bytes=st.sampled_from([1_000, 100_001, 1 << 23]),
    seed=st.integers(0, 99),
)
def test_damage_is_found_in_pieces_as_well(place: int, damage: int, piece_bytes: int, seed: int) -> None:
    lengths = lengths_between(20, 40, seed)
    block = bytearray(avro_content(lengths, seed))
    struct.pack_into(">i", block, expected(lengths)[place][0], damage)
    with pytest.raises(CorruptLogFileError):
        content_bounds(pa.py_buffer(bytes(block)), PATH, OFFSET)
    with pytest.raises(CorruptLogFileError):
        records_in_pieces(bytes(block), piece_bytes)


@pytest.mark.parametrize("count", [-1, MANY - 1, MANY + 1])
def test_another_number_of_records_is_refused_in_pieces(count: int) -> None:
    block = avro_content(lengths_between(20, 40, 1), 1)
    with pytest.raises(CorruptLogFileError):
        records_in_pieces(struct.pack(">ii", 3, count) + block[8:], 10_000)
