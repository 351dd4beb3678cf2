"""Native log files: a whole Parquet file in place of a block, as Hudi's main branch writes them from version 10 on.

The header of the block is in the file's key-value metadata, either as one JSON object under
``hudi.log.format.metadata`` or as one entry for each key with the prefix ``hudi.log.format.``; both were written on the
main branch. What the file holds is in its name: rows (``log``), deletes (``deletes`` or ``delete``), or change data.
Deletes have a record key and the ordering fields as columns. Change data has the fields of a block of change data as
columns, with the images as structs, and no header.

Source: RFC-103; ``NativeLogFooterMetadata``, ``HoodieNativeLogFileReader``, ``HoodieNativeDeleteBlock``,
``HoodieNativeCDCLogger``.
"""

import json
import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.layout import LOG_FORMAT_VERSION, BlockType, HeaderKey
from hudi_bridge.logformat.parquet import decode_parquet_block, parquet_block_schema
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN

PARQUET_MAGIC = b"PAR1"
_PREFIX = "hudi.log.format."
_DOCUMENT = f"{_PREFIX}metadata"
_VERSION = "VERSION"
_KIND = re.compile(r"_(?P<version>\d+)\.(?P<kind>log|deletes?|cdc)\.parquet$")
_NEWEST_VERSION = LOG_FORMAT_VERSION + 1
_INSTANT = re.compile(r"_([^_/]+)_\d+\.[a-z]+\.parquet$")


def is_native_name(path: str) -> bool:
    """Whether a file is named as a native log file in Parquet is."""
    return _KIND.search(path) is not None


def native_block(content: pa.Buffer, path: str) -> LogBlock:
    """The one block that a native log file is.

    Raises:
        CorruptLogFileError: the file is not readable Parquet, or its metadata is not that of a log block.
        UnsupportedTableError: it holds change data, or its format is newer.
    """
    name = _KIND.search(path)
    if name is None or name["kind"] == "cdc":
        raise UnsupportedTableError("log file", f"native log file {path}", "rows and deletes as Parquet")
    stored = parquet_block_schema(content, path, 0).metadata or {}
    texts = _texts({key.decode(): value.decode("utf-8", "replace") for key, value in stored.items()}, path)
    version = texts.pop(_VERSION, str(LOG_FORMAT_VERSION)).strip()
    if not version.isdecimal() or int(version) > _NEWEST_VERSION:
        raise UnsupportedTableError("log format", f"version {version} of {path}", f"up to {_NEWEST_VERSION}")
    header: dict[int, str] = {HeaderKey[key]: text for key, text in texts.items() if key in HeaderKey.__members__}
    instant = _INSTANT.search(path)
    if instant is not None:
        header.setdefault(HeaderKey.INSTANT_TIME, instant[1])
    is_rows = name["kind"] == "log"
    if is_rows and HeaderKey.SCHEMA not in header:
        raise CorruptLogFileError(path, 0, "a native log file without SCHEMA", "the writer's schema in its metadata")
    return LogBlock(
        block_type=BlockType.PARQUET_DATA if is_rows else BlockType.DELETE,
        version=int(version),
        header=header,
        content=content,
        footer={},
        path=path,
        offset=0,
        content_offset=0,
        size_bytes=content.size,
    )


def native_changes(content: pa.Buffer, path: str) -> pa.RecordBatch:
    """The rows of a native log file of change data.

    Raises:
        CorruptLogFileError: the file is not readable Parquet.
    """
    return decode_parquet_block(content, parquet_block_schema(content, path, 0).names, path, 0)


def is_native(block: LogBlock) -> bool:
    """Whether a block is a whole Parquet file with deletes; those of other delete blocks begin with a small number."""
    return block.content.size > len(PARQUET_MAGIC) and block.content.slice(0, 4).to_pybytes() == PARQUET_MAGIC


def native_deletes(block: LogBlock, fields: Sequence[str]) -> pa.RecordBatch:
    """The deletes of a native log file: the record key, and the columns of these ordering fields, as they are stored.

    Raises:
        CorruptLogFileError: a column is missing, or a record key is null.
    """
    columns = [RECORD_KEY_COLUMN, *fields]
    missing = set(columns) - set(parquet_block_schema(block.content, block.path, 0).names)
    if missing:
        raise CorruptLogFileError(block.path, 0, f"deletes without {', '.join(sorted(missing))}", "record keys")
    found = decode_parquet_block(block.content, columns, block.path, 0).select(columns)
    if found.column(0).null_count:
        raise CorruptLogFileError(block.path, 0, "a delete without a record key", "a record key")
    return found


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
