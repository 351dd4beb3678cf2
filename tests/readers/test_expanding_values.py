"""Files whose dictionaries have long values that many rows refer to: a few kilobytes, gigabytes once decoded."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiTable, UnsupportedTableError
from hudi_bridge.logformat.parquet import decode_parquet_block
from hudi_bridge.logformat.parquet_dictionaries import DictionaryValues
from tests.table_writer import TableWriter, at

ROWS, TEXT_BYTES = 3_000, 1_000_000
MOST_BYTES = 1 << 26
"""What a batch takes at most; the rows take 3 GB."""


def referring(value: Any, kind: pa.DataType | None = None, rows: int = ROWS) -> Any:
    """Rows that all refer to one value of a dictionary."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value], kind))


@pytest.fixture(params=["value", "_hoodie_record_key"])
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


def test_batches_are_bounded_by_what_they_expand_to(table: Path) -> None:
    rows, most = 0, 0
    for batch in HudiTable.open(table).snapshot().to_batches():
        rows, most = rows + batch.num_rows, max(most, batch.nbytes)
    assert rows in (ROWS, ROWS + 1)
    assert most < MOST_BYTES


@pytest.mark.parametrize("what", ["count_rows()", "to_table(columns=['ts']).num_rows"])
def test_reads_stay_within_memory(table: Path, what: str) -> None:
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30));"
        f"from hudi_bridge import HudiTable; print(HudiTable.open(sys.argv[1]).snapshot().{what})"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(table)], capture_output=True, text=True, check=True, env=environment
    )
    assert int(done.stdout) in (ROWS, ROWS + 1)


def values_of(path: Path, columns: dict[str, Any], **options: Any) -> tuple[DictionaryValues, list[Any]]:
    pq.write_table(pa.table(columns), path, store_schema=False, compression="zstd", **options)
    footer = pq.read_metadata(path)
    values = DictionaryValues(file=pa.OSFile(str(path), "rb"), footer=footer, row_group=0, path="f.parquet")
    return values, [footer.row_group(0).column(number) for number in range(footer.num_columns)]


def test_usual_values_are_read_as_ever(tmp_path: Path) -> None:
    texts = pa.array([f"a text {number % 1000}" for number in range(200_000)])
    columns = {"t": texts, "l": pa.array([["x", "y"]] * 200_000), "n": pa.array(range(200_000))}
    values, chunks = values_of(tmp_path / "f.parquet", columns)
    assert values.most_rows(chunks, 131_072) == 131_072


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.binary(TEXT_BYTES)])
def test_long_values_make_batches_short(tmp_path: Path, kind: pa.DataType) -> None:
    values, chunks = values_of(tmp_path / "f.parquet", {"t": referring(b"v" * TEXT_BYTES, kind)})
    assert 1 <= values.most_rows(chunks, ROWS) <= MOST_BYTES // TEXT_BYTES
    structs = pa.StructArray.from_arrays([referring(b"v" * TEXT_BYTES, kind)], names=["a"])
    values, chunks = values_of(tmp_path / "s.parquet", {"t": structs})
    assert 1 <= values.most_rows(chunks, ROWS) <= MOST_BYTES // TEXT_BYTES


def test_a_dictionary_that_the_first_page_does_not_refer_to_is_seen(tmp_path: Path) -> None:
    """A page without values leaves Arrow's reader without the dictionary."""
    texts = pa.DictionaryArray.from_arrays(pa.array([None] * 2000 + [0] * 2000, pa.int32()), ["v" * TEXT_BYTES])
    values, chunks = values_of(tmp_path / "f.parquet", {"t": texts}, data_page_size=64, write_batch_size=100)
    assert 1 <= values.most_rows(chunks, ROWS) <= MOST_BYTES // TEXT_BYTES


def test_lists_make_batches_short_or_are_refused(tmp_path: Path) -> None:
    lists = pa.ListArray.from_arrays(pa.array(range(0, ROWS + 1, 3), pa.int32()), referring("v" * TEXT_BYTES))
    values, chunks = values_of(tmp_path / "f.parquet", {"l": lists})
    assert 1 <= values.most_rows(chunks, ROWS) <= MOST_BYTES // TEXT_BYTES
    one_row = pa.ListArray.from_arrays(pa.array([0, ROWS], pa.int32()), referring("v" * TEXT_BYTES))
    values, chunks = values_of(tmp_path / "g.parquet", {"l": one_row})
    with pytest.raises(UnsupportedTableError, match=r"size of rows.*3000000000 bytes of l.list.element.*f.parquet"):
        values.most_rows(chunks, ROWS)


def test_a_log_block_that_expands_to_more_than_a_batch_holds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "block.parquet"
    pq.write_table(pa.table({"t": referring("v" * TEXT_BYTES)}), path, store_schema=False, compression="zstd")
    content = pa.py_buffer(path.read_bytes())
    with pytest.raises(UnsupportedTableError, match=r"size of a log block.*3000000000 bytes"):
        decode_parquet_block(content, ["t"], "log", 7)
