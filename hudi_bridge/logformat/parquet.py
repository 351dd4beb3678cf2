"""The content of a Parquet data block, a whole Parquet file -> its schema and rows; and how damaged Parquet shows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.errors import CorruptLogFileError

# Run lengths let a few bytes announce any number of rows. Records have keys of their own, which take more than this.
_MOST_ROWS_A_BYTE = 64
# Names that are not text are a bare UnicodeDecodeError, a column that is not there a KeyError.
PARQUET_ERRORS = (ValueError, LookupError, OSError, pa.ArrowTypeError, pa.ArrowNotImplementedError)


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


def first_line(error: Exception) -> str:
    """What to say of an error of pyarrow, some of which go on for pages."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def contradiction(footer: pq.FileMetaData) -> tuple[str, str] | None:
    """What was found and what was expected in a footer that contradicts itself; None for one that does not.

    A flipped bit in a footer would otherwise be another column, or fewer rows.

    Source: ``ParquetMetadataConverter.fromParquetMetadata`` of Parquet for Java, which refuses a column chunk whose
    column the schema does not have.
    """
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    rows = sum(group.num_rows for group in groups)
    if rows != footer.num_rows:
        return f"row groups of {rows} rows", f"{footer.num_rows}"
    if any(group.num_columns != footer.num_columns for group in groups):
        return "row groups of other columns", f"{footer.num_columns} columns"
    if not footer.num_columns:
        return None
    # A value that is repeated is no row of its own.
    if not footer.schema.column(0).max_repetition_level:
        for group in groups:
            values = group.column(0).num_values
            if values != group.num_rows:
                return f"a row group of {group.num_rows} rows", f"{values}, as its first column has"
    # Later row groups are read by the place of their columns, not by name.
    for group in groups[:1]:
        for place in range(footer.num_columns):
            stored, named = group.column(place).path_in_schema, footer.schema.column(place).path
            if stored != named:
                return f"the column {named!r}", f"{stored!r}, as its data are named"
    return None
