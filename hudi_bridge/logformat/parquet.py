"""Reads Parquet data blocks, whose content is a whole Parquet file, and checks Parquet files for damage."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.parquet_dictionaries import DictionaryValues

# With run-length encoding, a few bytes can announce any number of rows. Real rows have distinct record keys, which
# take far more space.
_MAX_ROWS_PER_BYTE = 64
_MAX_BYTES = (1 << 31) - 1
_ENCRYPTED_MAGIC = b"PARE"
_NOT_ENCRYPTED = "files that are not encrypted, or base files with the decryption_properties of HudiTable.open"
_SIGNATURE_BYTES = 28
"""The nonce and tag after a plain-text footer of a file with encrypted columns."""
_SHREDDED, _96_BITS = ".typed_value", "INT96"
END_BYTES = 8
"""The length of the footer and the magic, which end a Parquet file."""
PARQUET_ERRORS = (
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowNotImplementedError,
    pa.ArrowKeyError,
    pa.ArrowIndexError,
    pa.ArrowCapacityError,
    UnicodeDecodeError,
    OSError,
)
"""What pyarrow raises for damaged files; a UnicodeDecodeError for names that are not text.

A plain KeyError, IndexError or ValueError is a mistake of this package, such as a column that a whole file lacks. It is
never reported as damage.
"""


def parquet_block_schema(content: pa.Buffer, path: str, offset: int) -> pa.Schema:
    """The schema of a block's rows; ``path`` and ``offset`` of the content are for errors.

    Raises:
        CorruptLogFileError: the content is not readable Parquet.
    """
    with _open(content, path, offset) as file:
        return file.schema_arrow


def rows_and_bytes(content: pa.Buffer) -> tuple[int, int]:
    """The number of rows and the uncompressed bytes in a block's footer; zeros if it is damaged."""
    try:
        footer = pq.read_metadata(pa.BufferReader(content))
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    except PARQUET_ERRORS:
        return 0, 0
    limit = _MAX_ROWS_PER_BYTE * content.size
    return max(0, min(footer.num_rows, limit)), sum(max(0, group.total_byte_size) for group in groups)


def decode_parquet_block(content: pa.Buffer, columns: Sequence[str], path: str, offset: int) -> pa.RecordBatch:
    """Some columns of a block's rows; ``path`` and ``offset`` of the content are for errors.

    Raises:
        CorruptLogFileError: the content is not readable Parquet, or the number of rows differs from the footer's.
        UnsupportedTableError: the rows do not fit into one batch.
    """
    with _open(content, path, offset) as file:
        announced = file.metadata.num_rows
        limit = _MAX_ROWS_PER_BYTE * content.size
        if not 0 <= announced <= limit:
            raise CorruptLogFileError(path, offset, f"{announced} rows in {content.size} bytes", f"up to {limit}")
        _require_size(file, content, columns, path, offset)
        rows = file.read(list(columns)).combine_chunks()
    # A damaged page may end a column early without an error.
    if rows.num_rows != announced:
        raise CorruptLogFileError(path, offset, f"{rows.num_rows} rows", f"{announced}, as the footer says")
    batches = rows.to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
    if len(batches) > 1:
        # Arrow has concatenated as much as its offsets allow.
        actual = f"{rows.nbytes} bytes of rows in {path} at byte {offset}"
        raise UnsupportedTableError("size of a log block", actual, f"{_MAX_BYTES} bytes in a column")
    return batches[0]


def _require_size(file: pq.ParquetFile, content: pa.Buffer, columns: Sequence[str], path: str, offset: int) -> None:
    """Requires that rows fit into one batch, even if many of them share large dictionary values.

    Raises:
        UnsupportedTableError: they do not fit.
    """
    footer, source = file.metadata, pa.BufferReader(content)
    size = 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        values = DictionaryValues(file=source, footer=footer, row_group=number, path=path)
        chunks = map(group.column, range(group.num_columns))
        size += values.size_bytes([chunk for chunk in chunks if chunk.path_in_schema.partition(".")[0] in columns])
    if size > _MAX_BYTES:
        actual = f"{size} bytes of rows in {path} at byte {offset}"
        raise UnsupportedTableError("size of a log block", actual, f"{_MAX_BYTES} bytes")


@contextmanager
def _open(content: pa.Buffer, path: str, offset: int) -> Iterator[pq.ParquetFile]:
    try:
        end = content.slice(max(0, content.size - END_BYTES)).to_pybytes()
        require_not_encrypted(end, f"{path} at byte {offset}")
        source = pa.BufferReader(content)
        with pq.ParquetFile(source, coerce_int96_timestamp_unit="us", page_checksum_verification=True) as file:
            require_not_encrypted(end, f"{path} at byte {offset}", file.metadata)
            if mismatch := footer_mismatch(file.metadata):
                raise CorruptLogFileError(path, offset, *mismatch)
            yield file
    except PARQUET_ERRORS as error:
        raise CorruptLogFileError(path, offset, first_line(error), "a readable Parquet file") from error


def require_not_encrypted(end: bytes, path: str, footer: pq.FileMetaData | None = None) -> None:
    """Refuses an encrypted Parquet file, by its last ``END_BYTES`` and, if it is in plain text, its footer.

    Call it before other fields of a footer are read: pyarrow ends the process for encrypted columns.

    Raises:
        UnsupportedTableError: the file, or a column of it, is encrypted.
    """
    is_whole = end.endswith(_ENCRYPTED_MAGIC)
    length = int.from_bytes(end[:4], "little")
    if is_whole or (footer is not None and length - footer.serialized_size == _SIGNATURE_BYTES):
        what = "is encrypted" if is_whole else "has encrypted columns"
        raise UnsupportedTableError("Parquet encryption", f"{path}, which {what}", _NOT_ENCRYPTED)


def first_line(error: BaseException) -> str:
    """The first line of an error's message; some messages of pyarrow have pages."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def footer_mismatch(footer: pq.FileMetaData) -> tuple[str, str] | None:
    """The actual and the expected text for a footer whose parts do not agree; None if they agree.

    A flipped bit in a footer could otherwise mean another column, or fewer rows.

    Source: ``ParquetMetadataConverter.fromParquetMetadata`` of Parquet for Java refuses a column chunk of a column that
    is not in the schema.
    """
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    rows = sum(group.num_rows for group in groups)
    if rows != footer.num_rows:
        return f"row groups of {rows} rows", f"{footer.num_rows}"
    if any(group.num_columns != footer.num_columns for group in groups):
        return "row groups of other columns", f"{footer.num_columns} columns"
    if not footer.num_columns:
        return None
    # A repeated column has another number of values than of rows.
    if not footer.schema.column(0).max_repetition_level:
        for group in groups:
            values = group.column(0).num_values
            if values != group.num_rows:
                return f"a row group of {group.num_rows} rows", f"{values}, as its first column has"
    # The first row group is enough, because columns of later ones are read by position.
    chunks = [group.column(index) for group in groups[:1] for index in range(footer.num_columns)]
    return next(filter(None, map(_column_mismatch, chunks, map(footer.schema.column, range(len(chunks))))), None)


def _column_mismatch(chunk: pq.ColumnChunkMetaData, column: pq.ColumnSchema) -> tuple[str, str] | None:
    stored, named = chunk.path_in_schema, column.path
    if stored != named:
        return f"the column {named!r}", f"{stored!r}, as its data are named"
    if stored.endswith(_SHREDDED) and chunk.physical_type == _96_BITS:
        # Arrow reads them like times without a time zone, which are another type of a VARIANT.
        return f"times of 96 bits in {stored}", "a type that Parquet specifies for a shredded VARIANT"
    return None
