"""Files whose dictionaries have long values that many rows refer to: a few kilobytes, gigabytes once decoded."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge import HudiTable, UnsupportedTableError
from hudi_bridge.logformat.parquet import PARQUET_ERRORS, decode_parquet_block
from hudi_bridge.logformat.parquet_dictionaries import DictionaryPage, DictionaryValues, StoredPage, longest_values
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at

ROWS, TEXT_BYTES = 3_000, 1_000_000
MOST_BYTES = 1 << 26
"""What a batch takes at most; the rows take 3 GB."""
MOST_RESIDENT_KB = 3 << 18
"""What a read takes at most, together with the interpreter and libraries; 0.38 GB were seen."""


def referring(value: Any, kind: pa.DataType | None = None, rows: int = ROWS) -> Any:
    """Rows that all refer to one value of a dictionary."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value], kind))


@pytest.fixture(params=one_in(2, ["value", "_hoodie_record_key"]))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A table of one base file, which has a column of such values, and a log."""
    writer = TableWriter(folder=tmp_path / "t", version=9).create()
    path = writer.base_file(at(1), [{"id": "k0", "ts": 1, "value": "x"}])
    columns: dict[str, Any] = {name: referring("x") for name in writer.arrow_schema.names}
    columns |= {"_hoodie_commit_time": referring(at(1)), "ts": pa.array([1] * ROWS, pa.int64())}
    columns["_hoodie_record_key"] = pa.array([f"k{number}" for number in range(ROWS)])
    columns[request.param] = referring("v" * TEXT_BYTES)
    pq.write_table(pa.table(columns), path, store_schema=False, compression="zstd")
    writer.commit(at(1), action="commit", wrote=[path])
    log = writer.log_file(
        at(2), [writer.data_block(at(2), [{"id": "k0", "ts": 2, "value": "new"}])], base_instant=at(1)
    )
    writer.commit(at(2), wrote=[log])
    return writer.folder


@pytest.mark.heavy
def test_batches_are_bounded_by_what_they_expand_to(table: Path) -> None:
    rows, most = 0, 0
    for batch in HudiTable.open(table).snapshot().to_batches():
        rows, most = rows + batch.num_rows, max(most, batch.nbytes)
    assert rows in (ROWS, ROWS + 1)
    assert most < MOST_BYTES


@pytest.mark.heavy
@pytest.mark.parametrize("what", one_in(2, ["count_rows()", "to_table(columns=['ts']).num_rows"]))
def test_reads_stay_within_memory(table: Path, what: str) -> None:
    program = (
        "import sys; from hudi_bridge import HudiTable; "
        f"rows = HudiTable.open(sys.argv[1]).snapshot().{what}; "
        "status = open('/proc/self/status').read(); print(rows, status.partition('VmHWM:')[2].split()[0])"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    # What it says of an error is shown with the test's own output.
    output = subprocess.check_output([sys.executable, "-c", program, str(table)], text=True, env=environment)
    rows, resident_kb = map(int, output.split())
    assert rows in (ROWS, ROWS + 1)
    assert resident_kb < MOST_RESIDENT_KB


def values_of(path: Path, columns: dict[str, Any], **options: Any) -> tuple[DictionaryValues, list[Any]]:
    pq.write_table(pa.table(columns), path, store_schema=False, compression="zstd", **options)
    footer = pq.read_metadata(path)
    values = DictionaryValues(file=pa.OSFile(str(path), "rb"), footer=footer, row_group=0, path="f.parquet")
    return values, [footer.row_group(0).column(number) for number in range(footer.num_columns)]


def test_usual_values_are_read_as_ever(tmp_path: Path) -> None:
    texts = pa.array([f"a text {number % 1000}" for number in range(200_000)])
    columns = {"t": texts, "l": pa.array([["x", "y"]] * 200_000), "n": pa.array(range(200_000))}
    values, chunks = values_of(tmp_path / "f.parquet", columns)
    assert values.max_rows(chunks, 131_072) == 131_072


@pytest.mark.heavy
@pytest.mark.parametrize("kind", one_in(3, [pa.string(), pa.binary(), pa.binary(TEXT_BYTES)]))
def test_long_values_make_batches_short(tmp_path: Path, kind: pa.DataType) -> None:
    values, chunks = values_of(tmp_path / "f.parquet", {"t": referring(b"v" * TEXT_BYTES, kind)})
    assert 1 <= values.max_rows(chunks, ROWS) <= MOST_BYTES // TEXT_BYTES
    structs = pa.StructArray.from_arrays([referring(b"v" * TEXT_BYTES, kind)], names=["a"])
    values, chunks = values_of(tmp_path / "s.parquet", {"t": structs})
    assert 1 <= values.max_rows(chunks, ROWS) <= MOST_BYTES // TEXT_BYTES


def test_a_dictionary_that_the_first_page_does_not_refer_to_is_seen(tmp_path: Path) -> None:
    """A page without values leaves Arrow's reader without the dictionary."""
    texts = pa.DictionaryArray.from_arrays(pa.array([None] * 2000 + [0] * 2000, pa.int32()), ["v" * TEXT_BYTES])
    values, chunks = values_of(tmp_path / "f.parquet", {"t": texts}, data_page_size=64, write_batch_size=100)
    assert 1 <= values.max_rows(chunks, ROWS) <= MOST_BYTES // TEXT_BYTES


def test_lists_make_batches_short_or_are_refused(tmp_path: Path) -> None:
    lists = pa.ListArray.from_arrays(pa.array(range(0, ROWS + 1, 3), pa.int32()), referring("v" * TEXT_BYTES))
    values, chunks = values_of(tmp_path / "f.parquet", {"l": lists})
    assert 1 <= values.max_rows(chunks, ROWS) <= MOST_BYTES // TEXT_BYTES
    one_row = pa.ListArray.from_arrays(pa.array([0, ROWS], pa.int32()), referring("v" * TEXT_BYTES))
    values, chunks = values_of(tmp_path / "g.parquet", {"l": one_row})
    with pytest.raises(UnsupportedTableError, match=r"size of rows.*3000000000 bytes of l.list.element.*f.parquet"):
        values.max_rows(chunks, ROWS)


def test_a_log_block_that_expands_to_more_than_a_batch_holds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "block.parquet"
    pq.write_table(pa.table({"t": referring("v" * TEXT_BYTES)}), path, store_schema=False, compression="zstd")
    content = pa.py_buffer(path.read_bytes())
    with pytest.raises(UnsupportedTableError, match=r"size of a log block.*3000000000 bytes"):
        decode_parquet_block(content, ["t"], "log", 7)


@dataclass
class CountingFile:
    """A file in memory, with the sizes of all reads."""

    content: bytes
    sizes: list[int] = field(default_factory=list)

    def read_at(self, size: int, offset: int) -> bytes:
        self.sizes.append(size)
        return self.content[offset : offset + size]


def counting(table: pa.Table, **options: Any) -> tuple[CountingFile, DictionaryValues, list[Any]]:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, store_schema=False, **options)
    content: Any = CountingFile(sink.getvalue().to_pybytes())
    footer = pq.read_metadata(pa.BufferReader(content.content))
    values = DictionaryValues(file=content, footer=footer, row_group=0, path="f.parquet")
    return content, values, [footer.row_group(0).column(number) for number in range(footer.num_columns)]


def test_no_more_is_read_than_it_takes_to_know() -> None:
    texts = pa.array([f"a text {number}" for number in range(40_000)])
    few, many = pa.array([f"{number % 50}" for number in range(40_000)]), pa.array([["x", "y"]] * 40_000)
    file, values, chunks = counting(pa.table({"few": few, "many": many, "texts": texts}), compression="gzip")
    assert values.max_rows([chunks[0], chunks[2]], 100) == 100
    assert not file.sizes
    # Headers alone, then the lengths of the long dictionary as well.
    assert values.max_rows(chunks[:2], 10_000) == 10_000
    assert max(file.sizes) < 100
    assert values.max_rows(chunks, 10_000) == 10_000
    assert [size for size in file.sizes if size > 100] == [file.sizes[-1]]
    before = list(file.sizes)
    assert len(before) <= len(chunks) + 1
    assert values.max_rows(chunks, 10_000) == 10_000
    assert file.sizes == before


@pytest.mark.long
@pytest.mark.heavy
def test_many_columns_with_harmless_dictionaries_make_no_short_batches() -> None:
    texts = {f"c{number}": [f"{row % 300:08}" for row in range(20_000)] for number in range(200)}
    _, values, chunks = counting(pa.table(texts))
    assert values.max_rows(chunks, 20_000) == 20_000


@pytest.mark.parametrize("compression", one_in(2, ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]))
def test_lengths_are_known_in_every_compression(compression: str) -> None:
    texts = pa.array([f"a text {number}" for number in range(40_000)])
    _, values, chunks = counting(pa.table({"t": texts}), compression=compression)
    assert values.max_rows(chunks, 40_000) == 40_000
    long = pa.array([*(f"a text {number}" for number in range(39_990)), *["v" * 100_000] * 10])
    _, values, chunks = counting(pa.table({"t": long}), compression=compression)
    assert 1 <= values.max_rows(chunks, 40_000) <= MOST_BYTES // 100_000


def test_dictionaries_are_seen_that_the_footer_does_not_name() -> None:
    """As in files of Parquet for Java before 1.12: the first page is at the offset of data pages."""
    table = pa.table({"t": referring("v" * TEXT_BYTES)})
    file, _, [chunk] = counting(table, compression="zstd", write_statistics=False)
    # Fields 9 and 11 of the footer, followed by 13: the offsets of the first data page and of the dictionary.
    data_page = chunk.data_page_offset << 1
    varint = bytes([data_page & 0x7F | 0x80, data_page >> 7])
    assert chunk.dictionary_page_offset == 4
    stored, renamed = b"\x26" + varint + b"\x26\x08\x29", b"\x26\x08\x49"
    assert file.content.count(stored) == 1
    start = len(file.content) - 8 - int.from_bytes(file.content[-8:-4], "little")
    footer_bytes = file.content[start:-8].replace(stored, renamed)
    file.content = file.content[:start] + footer_bytes + len(footer_bytes).to_bytes(4, "little") + b"PAR1"
    footer = pq.read_metadata(pa.BufferReader(file.content))
    chunk = footer.row_group(0).column(0)
    assert not chunk.has_dictionary_page
    assert pq.ParquetFile(pa.BufferReader(file.content), read_dictionary=["t"]).read().num_rows == ROWS
    source: Any = file
    values = DictionaryValues(file=source, footer=footer, row_group=0, path="f.parquet")
    assert 1 <= values.max_rows([chunk], ROWS) <= MOST_BYTES // TEXT_BYTES


def longest_by_walk(content: bytes, values: int) -> int:
    """The longest of so many values; the size of the content if they do not fit into it."""
    longest = position = 0
    for _ in range(values):
        length = int.from_bytes(content[position : position + 4], "little")
        position += 4 + length
        if position > len(content):
            return len(content)
        longest = max(longest, length)
    return longest


VALUES = st.lists(st.binary(max_size=300) | st.just(b"\0" * 40), max_size=60)


@given(VALUES, st.sampled_from(["GZIP", "SNAPPY", "ZSTD", "BROTLI", "UNCOMPRESSED"]), st.data())
def test_the_longest_value_is_that_of_a_walk(values: list[bytes], compression: Any, data: st.DataObject) -> None:
    content = bytearray(b"".join(len(value).to_bytes(4, "little") + value for value in values))
    number = data.draw(st.just(len(values)) | st.integers(0, len(values) + 2))
    for _ in range(data.draw(st.integers(0, 2)) if content else 0):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] = data.draw(st.sampled_from([0, 1, 4, 0x7F, 0x80, 0xFF]))
    plain = bytes(content)
    stored = plain if compression == "UNCOMPRESSED" else pa.compress(plain, compression.lower(), asbytes=True)
    page = StoredPage(DictionaryPage(4, len(stored), len(plain), number), stored, compression)
    short = page._replace(stored=stored[:-1])
    assert longest_values([page]) == [longest_by_walk(plain, number)]
    assert longest_values([short]) == [len(plain)]
    other = StoredPage(DictionaryPage(9, 10, 10, 2), b"\1\0\0\0a\1\0\0\0b", "UNCOMPRESSED")
    assert longest_values([other, page, short, other]) == [1, longest_by_walk(plain, number), len(plain), 1]
    assert longest_values([page, other] * 8) == [longest_by_walk(plain, number), 1] * 8
    if plain:
        damaged = bytearray(stored)
        damaged[data.draw(st.integers(0, len(stored) - 1))] ^= data.draw(st.integers(1, 255))
        assert 0 <= longest_values([other, page._replace(stored=bytes(damaged))])[1] <= len(plain)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_page_or_none(stored: bytes) -> None:
    page = DictionaryPage.parse(b"\x15\x04\x15" + stored, 0)
    assert page is None or min(page) >= 0


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), min_size=1, max_size=4), st.booleans())
def test_damaged_pages_make_batches_shorter_or_are_errors(damage: list[tuple[int, int]], is_long: bool) -> None:
    """Whatever a header or a length says, nothing is read beyond what the footer says, and batches have rows."""
    texts = [f"{number}" for number in range(20_000)]
    file, values, chunks = counting(pa.table({"t": [*texts, "v" * 500_000] if is_long else texts}), compression="none")
    content = bytearray(file.content)
    for position, byte in damage:
        content[4 + position] = byte
    file.content = bytes(content)
    try:
        most = values.max_rows(chunks, 20_000)
    except PARQUET_ERRORS:
        most = 1
    assert 1 <= most <= 20_000
    assert max(file.sizes, default=0) <= chunks[0].total_compressed_size
