"""The content of a Parquet data block, a whole Parquet file -> its schema, and one RecordBatch."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.errors import CorruptLogFileError
from hudi_bridge.logformat.parquet_damage import PARQUET_ERRORS, contradiction, first_line

# Run lengths let a few bytes announce any number of rows. Records have keys of their own, which take more than this.
_MOST_ROWS_A_BYTE = 64


def parquet_block_schema(content: pa.Buffer, path: str, offset: int) -> pa.Schema:
    """The schema of a block's rows; ``path`` and ``offset`` are those of the content, for errors.

    Raises:
        CorruptLogFileError: the content is no readable Parquet.
    """
    with _open(content, path, offset) as file:
        return file.schema_arrow


def decode_parquet_block(content: pa.Buffer, columns: Sequence[str], path: str, offset: int) -> pa.RecordBatch:
    """Some columns of a block's rows; ``path`` and ``offset`` are those of the content, for errors.

    Raises:
        CorruptLogFileError: the content is no readable Parquet, or not of as many rows as its footer says.
    """
    with _open(content, path, offset) as file:
        announced = file.metadata.num_rows
        most = _MOST_ROWS_A_BYTE * content.size
        if not 0 <= announced <= most:
            raise CorruptLogFileError(path, offset, f"{announced} rows in {content.size} bytes", f"up to {most}")
        rows = file.read(list(columns)).combine_chunks()
    # A damaged page may end a column early without an error.
    if rows.num_rows != announced:
        raise CorruptLogFileError(path, offset, f"{rows.num_rows} rows", f"{announced}, as the footer says")
    batches = rows.to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
    return pa.concat_batches(batches)  # type: ignore[attr-defined,no-any-return]


@contextmanager
def _open(content: pa.Buffer, path: str, offset: int) -> Iterator[pq.ParquetFile]:
    try:
        source = pa.BufferReader(content)
        with pq.ParquetFile(source, coerce_int96_timestamp_unit="us", page_checksum_verification=True) as file:
            if wrong := contradiction(file.metadata):
                raise CorruptLogFileError(path, offset, *wrong)
            yield file
    except PARQUET_ERRORS as error:
        raise CorruptLogFileError(path, offset, first_line(error), "a readable Parquet file") from error
