"""Native log files: whole files in a format of base files, each of which holds what one log block would.

From table version 10 on, writers put the rows, the deletes and the change data of a write into files of their own,
beside log files of blocks in the same file slice:

    ``{fileId}_{writeToken}_{instant}_{version}.{log|deletes|cdc}.{parquet|orc|hfile|lance}``

Such a file is one ``LogBlock`` whose content is the file. The header is in the key-value metadata of the file (in the
file info of an HFile): one entry for each key, such as ``hudi.log.format.SCHEMA``, or one JSON object under
``hudi.log.format.metadata``. Hudi's main branch has written both, and deletes under the names ``deletes`` and
``delete``. Deletes have a record key and the ordering fields as columns; change data has the fields of a change data
block as columns, with the images as structs, and no header.

An HFile has Avro records of the schema in its file info. Its writer empties the column ``key``, if there is one.

Source: RFC-103; ``FileNameParser``, ``NativeLogFooterMetadata``, ``HoodieNativeLogFileReader``,
``HoodieNativeLogFormatWriter``, ``HoodieNativeLogDeleteBlock``, ``HoodieNativeCDCLogger``.
"""

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from hudi_bridge.common.imports import how_to_install, orc
from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.avro_columns import decode_avro_records
from hudi_bridge.logformat.block import ByteSource, LogBlock
from hudi_bridge.logformat.hfile import read_file_info, read_hfile
from hudi_bridge.logformat.hfile_blocks import TRAILER_SIZE, HFileSource, parse_trailer
from hudi_bridge.logformat.kinds import (
    BLOCK_KINDS,
    PARQUET_ROWS,
    AvroRows,
    BlockKind,
    ColumnRows,
    DatumBounds,
    cells_of_hfile,
)
from hudi_bridge.logformat.layout import LOG_FORMAT_VERSION, BlockType, HeaderKey
from hudi_bridge.logformat.parquet import END_BYTES, PARQUET_ERRORS, first_line, parquet_block_schema
from hudi_bridge.schema.avro import AvroRecord, arrow_schema, parse_avro_schema
from hudi_bridge.schema.evolve import StoredAs
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN

_NAME = re.compile(
    r"(?P<file_id>[^._/]+)_(?P<partition>\d+)-(?P<stage>\d+)-(?P<attempt>\d+)_(?P<instant>\d+)_(?P<version>\d+)"
    r"\.(?P<kind>log|deletes?|cdc)\.(?P<format>[a-z]+)"
)
_PREFIX = "hudi.log.format."
_DOCUMENT = f"{_PREFIX}metadata"
_VERSION = "VERSION"
_NEWEST_VERSION = LOG_FORMAT_VERSION + 1
_SCHEMA_OF_HFILE = "schema"
BLANKED_IN_HFILE = "key"
"""The writer of HFiles removes the values of a column with this name from the records."""
_MAX_ROWS_PER_BYTE = 64
"""More rows than any real file has, as in Parquet blocks."""
_IS_BLOB = ((b"hudi_type", b"BLOB"), (b"lance-encoding:blob", b"true"))
"""Metadata of fields whose bytes are stored outside of the pages of their column."""
_ORC_ERRORS = (*PARQUET_ERRORS, pa.ArrowException)
_LANCE_ERRORS = (ValueError, OSError, pa.ArrowException)


class LogKind(StrEnum):
    """What a native log file holds, in the order in which files of one write are merged."""

    ROWS = "log"
    DELETES = "deletes"
    CHANGES = "cdc"


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeLogName:
    """The parts of a native log file's name; ``file_format`` is an extension of base files."""

    file_id: str
    write_token: tuple[int, int, int]
    instant_time: str
    version: int
    kind: LogKind
    file_format: str


def parse_native_log_name(path: str) -> NativeLogName | None:
    """The parts of the name at the end of a path; None for a name of another kind of file."""
    match = _NAME.fullmatch(path, path.rfind("/") + 1)
    if match is None:
        return None
    kind = LogKind.DELETES if match["kind"] == "delete" else LogKind(match["kind"])
    return NativeLogName(
        file_id=match["file_id"],
        write_token=(int(match["partition"]), int(match["stage"]), int(match["attempt"])),
        instant_time=match["instant"],
        version=int(match["version"]),
        kind=kind,
        file_format=match["format"],
    )


def native_block(source: ByteSource, name: NativeLogName, path: str) -> LogBlock:
    """The single block of a native log file.

    Its content is what ``source`` returns as the content of a block, which may be less than the file.

    Raises:
        CorruptTableError: the file is not readable in its format, or its metadata are not a log block's header.
        UnsupportedTableError: the file format is unknown, or the log format is newer.
    """
    file_format = _FORMATS.get(name.file_format)
    if file_format is None:
        supported = ", ".join(_FORMATS)
        raise UnsupportedTableError("log file", f"native log file {path}", f"native log files in {supported}")
    return _block(file_format.metadata(source, path), name, path, source.content(0, source.size), source.size)


def block_of_metadata(metadata: Mapping[bytes, bytes], name: NativeLogName, path: str, size_bytes: int) -> LogBlock:
    """As ``native_block``, without content, from the key-value metadata of a file of ``size_bytes``.

    Raises:
        CorruptLogFileError: they are not a log block's header.
        UnsupportedTableError: the file format is unknown, or the log format is newer.
    """
    return _block(_decoded(metadata), name, path, pa.py_buffer(b""), size_bytes)


def _block(stored: Mapping[str, str], name: NativeLogName, path: str, content: pa.Buffer, size_bytes: int) -> LogBlock:
    file_format, texts = _FORMATS[name.file_format], _texts(stored, path)
    version = texts.pop(_VERSION, str(LOG_FORMAT_VERSION)).strip()
    if not version.isdecimal() or int(version) > _NEWEST_VERSION:
        raise UnsupportedTableError("log format", f"version {version} of {path}", f"up to {_NEWEST_VERSION}")
    header: dict[int, str] = {HeaderKey[key]: text for key, text in texts.items() if key in HeaderKey.__members__}
    header.setdefault(HeaderKey.INSTANT_TIME, name.instant_time)
    if name.kind is LogKind.ROWS and HeaderKey.SCHEMA not in header:
        raise CorruptLogFileError(path, 0, "a native log file without SCHEMA", "the writer's schema in its metadata")
    return LogBlock(
        block_type=file_format.block_types[name.kind],
        version=int(version),
        header=header,
        content=content,
        footer={},
        path=path,
        offset=0,
        content_offset=0,
        size_bytes=size_bytes,
        native_kind=file_format.kinds[name.kind],
    )


def _texts(stored: Mapping[str, str], path: str) -> dict[str, str]:
    """The header by the names of its keys."""
    if _DOCUMENT not in stored:
        return {key.removeprefix(_PREFIX): text for key, text in stored.items() if key.startswith(_PREFIX)}
    try:
        document = json.loads(stored[_DOCUMENT])
    except ValueError as error:
        raise CorruptLogFileError(path, 0, f"{_DOCUMENT} that is no JSON: {error}", "a JSON object") from error
    if not isinstance(document, dict) or not all(isinstance(text, str) for text in document.values()):
        raise CorruptLogFileError(path, 0, f"{_DOCUMENT} {document!r:.80}", "a JSON object of texts")
    return document


def _decoded(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {key.decode("utf-8", "replace"): text.decode("utf-8", "replace") for key, text in (metadata or {}).items()}


def _whole(source: ByteSource) -> pa.Buffer:
    """All bytes of a file, without a copy if the source has them in memory."""
    content = source.content(0, source.size)
    return content if content.size == source.size else pa.py_buffer(source.at(0, source.size))


def _metadata_of_parquet(source: ByteSource, path: str) -> Mapping[str, str]:
    # A footer alone can be parsed like a file, as its offsets count from the start of the file.
    end = source.at(max(0, source.size - END_BYTES), END_BYTES)
    footer_bytes = min(source.size, END_BYTES + int.from_bytes(end[:4], "little"))
    footer = pa.py_buffer(source.at(source.size - footer_bytes, footer_bytes))
    return _decoded(parquet_block_schema(footer, path, 0).metadata)


def _metadata_of_hfile(source: ByteSource, path: str) -> Mapping[str, str]:
    start = max(0, source.size - TRAILER_SIZE)
    end = HFileSource(
        buffer=pa.py_buffer(source.at(start, TRAILER_SIZE)), path=path, offset=0, start=start, total_bytes=source.size
    )
    trailer = parse_trailer(end)
    if not 0 <= trailer.file_info_offset < start:
        raise end.corrupt(start, f"file info at byte {trailer.file_info_offset}", "file info before the trailer")
    info_start = trailer.file_info_offset
    info = HFileSource(
        buffer=pa.py_buffer(source.at(info_start, source.size - info_start)),
        path=path,
        offset=0,
        start=info_start,
        total_bytes=source.size,
    )
    return {key: text.decode("utf-8", "replace") for key, text in read_file_info(info, trailer).items()}


def _bounds_in_hfile(content: pa.Buffer, path: str, offset: int) -> DatumBounds:
    hfile = read_hfile(content, path, offset)
    return DatumBounds(data=hfile.values, starts=hfile.value_starts, ends=hfile.value_ends, keys=None)


def _writer_of_hfile(info: Mapping[str, bytes], path: str, offset: int) -> AvroRecord:
    text = info.get(_SCHEMA_OF_HFILE)
    if text is None:
        raise CorruptLogFileError(path, offset, "no schema", "an HFile with the schema of its records")
    return parse_avro_schema(text.decode("utf-8", "replace"), path, offset)


def _schema_of_hfile(content: pa.Buffer, path: str, offset: int) -> pa.Schema:
    source = HFileSource(buffer=content, path=path, offset=offset)
    return arrow_schema(_writer_of_hfile(read_file_info(source, parse_trailer(source)), path, offset))


def _columns_of_hfile(content: pa.Buffer, columns: Sequence[str], path: str, offset: int) -> pa.RecordBatch:
    hfile = read_hfile(content, path, offset)
    writer = _writer_of_hfile(hfile.file_info, path, offset)
    rows = decode_avro_records(hfile.values, hfile.value_starts, hfile.value_ends, writer, tuple(columns), path, offset)
    position = rows.schema.get_field_index(RECORD_KEY_COLUMN)
    return rows if position < 0 else rows.set_column(position, RECORD_KEY_COLUMN, hfile.keys)


def _size_of_hfile(content: pa.Buffer) -> tuple[int, int]:
    return cells_of_hfile(content, "", 0), content.size


def _metadata_of_orc(source: ByteSource, path: str) -> Mapping[str, str]:
    with _decoding_orc(path):
        return _decoded(orc.ORCFile(pa.BufferReader(_whole(source))).metadata)


def _schema_of_orc(content: pa.Buffer, path: str, offset: int) -> pa.Schema:  # noqa: ARG001 - it is the whole file
    with _decoding_orc(path):
        schema: pa.Schema = orc.ORCFile(pa.BufferReader(content)).schema
        return schema


def _columns_of_orc(content: pa.Buffer, columns: Sequence[str], path: str, offset: int) -> pa.RecordBatch:  # noqa: ARG001
    with _decoding_orc(path):
        file: Any = orc.ORCFile(pa.BufferReader(content))
        for name in columns:
            if has_times(file.schema.field(name).type):
                actual = f"{name}: {file.schema.field(name).type}, in {path}"
                raise UnsupportedTableError("column of an ORC log file", actual, "no times")
        _require_rows(file.nrows, content, path)
        # Without a column, no rows would be returned.
        return _one_batch(file.read(columns=list(columns) or file.schema.names[:1]), columns, path)


def _size_of_orc(content: pa.Buffer) -> tuple[int, int]:
    try:
        rows: int = orc.ORCFile(pa.BufferReader(content)).nrows
    except _ORC_ERRORS:
        # Decoding the block raises the error.
        return 0, 0
    return max(0, min(rows, _MAX_ROWS_PER_BYTE * content.size)), content.size


@contextmanager
def _decoding_orc(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowMemoryError, pa.ArrowCancelled):
        raise
    except _ORC_ERRORS as error:
        raise CorruptLogFileError(path, 0, first_line(error), "a readable ORC file") from error


def has_times(kind: Any) -> bool:  # noqa: ANN401 - of any type
    """Whether a type has timestamps: in ORC, they depend on the writer's time zone, which Arrow does not return."""
    if pa.types.is_nested(kind):
        return any(has_times(kind.field(position).type) for position in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind))


def _metadata_of_lance(source: ByteSource, path: str) -> Mapping[str, str]:
    with _lance_file(_whole(source), path) as file:
        return _decoded(file.metadata().schema.metadata)


def _schema_of_lance(content: pa.Buffer, path: str, offset: int) -> pa.Schema:  # noqa: ARG001 - it is the whole file
    with _lance_file(content, path) as file:
        schema: pa.Schema = file.metadata().schema
        return schema


def _columns_of_lance(content: pa.Buffer, columns: Sequence[str], path: str, offset: int) -> pa.RecordBatch:  # noqa: ARG001
    with _lance_file(content, path) as file:
        metadata = file.metadata()
        for name in columns:
            if has_lance_blobs(metadata.schema.field(name)):
                raise UnsupportedTableError("BLOB in a Lance file", f"the column {name} of {path}", "a base file")
        _require_rows(metadata.num_rows, content, path)
    with _lance_file(content, path, list(columns) or metadata.schema.names[:1]) as file:
        return _one_batch(file.read_all().to_table(), columns, path)


def _size_of_lance(content: pa.Buffer) -> tuple[int, int]:
    try:
        with _lance_file(content, "") as file:
            return max(0, min(file.metadata().num_rows, _MAX_ROWS_PER_BYTE * content.size)), content.size
    except CorruptLogFileError:
        # Decoding the block raises the error.
        return 0, 0


@contextmanager
def _lance_file(content: pa.Buffer, path: str, columns: list[str] | None = None) -> Iterator[Any]:
    """A reader of a file with this content; the package reads only files."""
    reader = lance_reader("log file")
    with tempfile.NamedTemporaryFile(prefix="hudi-bridge-", suffix=".lance") as copy:
        copy.write(content)
        copy.flush()
        try:
            yield reader(copy.name, columns=columns)
        except BaseException as error:
            if not is_of_lance(error):
                raise
            raise CorruptLogFileError(path, 0, first_line(error), "a readable Lance file") from error


def lance_reader(feature: str) -> Any:  # noqa: ANN401 - a class of a package without types
    """The class that reads Lance files; ``feature`` names what is read, for the error.

    Raises:
        UnsupportedTableError: the package is not installed.
    """
    try:
        from lance.file import LanceFileReader  # noqa: PLC0415 - only where there are such files
    except ImportError as error:
        actual = f"Lance, and no package to read it ({error})"
        raise UnsupportedTableError(feature, actual, how_to_install("lance")) from error
    return LanceFileReader


def is_of_lance(error: BaseException) -> bool:
    """Whether the package raises such errors for damaged files."""
    # A panic of Rust is not an Exception, and its class cannot be imported.
    return isinstance(error, _LANCE_ERRORS) or type(error).__name__ == "PanicException"


def has_lance_blobs(field: "pa.Field[Any]") -> bool:
    """Whether a column of a Lance file, or a nested field, is a BLOB."""
    if any((field.metadata or {}).get(key) == value for key, value in _IS_BLOB):
        return True
    return any(has_lance_blobs(field.type.field(position)) for position in range(field.type.num_fields))


def _require_rows(rows: int, content: pa.Buffer, path: str) -> None:
    limit = _MAX_ROWS_PER_BYTE * content.size
    if not 0 <= rows <= limit:
        raise CorruptLogFileError(path, 0, f"{rows} rows in {content.size} bytes", f"up to {limit}")


def _one_batch(rows: pa.Table, columns: Sequence[str], path: str) -> pa.RecordBatch:
    batches = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
    if len(batches) > 1:
        # Arrow has concatenated as much as its offsets allow.
        actual = f"{rows.nbytes} bytes of rows in {path}"
        raise UnsupportedTableError("size of a log block", actual, f"{(1 << 31) - 1} bytes in a column")
    return batches[0].select(list(columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Format:
    """A file format: its key-value metadata, and for each kind of log how records are stored."""

    metadata: Callable[[ByteSource, str], Mapping[str, str]]
    kinds: Mapping[LogKind, BlockKind]
    block_types: Mapping[LogKind, BlockType]


def _format(
    metadata: Callable[[ByteSource, str], Mapping[str, str]],
    columns: ColumnRows,
    *,
    rows: AvroRows | None = None,
    block_type: BlockType = BlockType.PARQUET_DATA,
) -> _Format:
    """A format whose files are read as columns; ``rows`` if rows of the table are Avro datums.

    ``HoodieNativeLogDataBlock`` calls itself a Parquet block in any format but HFile's.
    """
    factor = BLOCK_KINDS[block_type].memory_factor
    return _Format(
        metadata=metadata,
        kinds={
            LogKind.ROWS: BlockKind(rows=rows or columns, memory_factor=factor),
            LogKind.DELETES: BlockKind(holds_deletes=True, columns=columns, memory_factor=factor),
            LogKind.CHANGES: BlockKind(columns=columns, memory_factor=factor),
        },
        block_types={
            LogKind.ROWS: block_type,
            LogKind.DELETES: BlockType.DELETE,
            LogKind.CHANGES: BlockType.CDC_DATA,
        },
    )


_FORMATS: Mapping[str, _Format] = {
    "parquet": _format(_metadata_of_parquet, PARQUET_ROWS),
    "orc": _format(
        _metadata_of_orc,
        ColumnRows(stored_as=StoredAs.ORC, schema=_schema_of_orc, decode=_columns_of_orc, size=_size_of_orc),
    ),
    "hfile": _format(
        _metadata_of_hfile,
        ColumnRows(stored_as=StoredAs.AVRO, schema=_schema_of_hfile, decode=_columns_of_hfile, size=_size_of_hfile),
        rows=AvroRows(bounds=_bounds_in_hfile, count=cells_of_hfile, are_plain=False, blanked=BLANKED_IN_HFILE),
        block_type=BlockType.HFILE_DATA,
    ),
    "lance": _format(
        _metadata_of_lance,
        ColumnRows(stored_as=StoredAs.LANCE, schema=_schema_of_lance, decode=_columns_of_lance, size=_size_of_lance),
    ),
}
