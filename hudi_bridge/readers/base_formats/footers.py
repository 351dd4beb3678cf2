"""Reads the footers of Parquet base files, and caches footers that are likely to be needed again.

Hudi never writes another file under the name of a base file, so cached footers stay valid.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge.common.imports import ds
from hudi_bridge.errors import CorruptBaseFileError
from hudi_bridge.logformat.parquet import END_BYTES, PARQUET_ERRORS, footer_mismatch, require_not_encrypted
from hudi_bridge.schema.meta_columns import FILE_NAME_COLUMN, META_COLUMNS, PARTITION_PATH_COLUMN
from hudi_bridge.splits.notes import warn_of_foreign_rows
from hudi_bridge.splits.partitions import partition_guarantee
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.ranges import FileOfRanges
from hudi_bridge.storage.storage import Storage

_MAGIC = b"PAR1"
_USUAL_FOOTER_BYTES = 1 << 16
_FOOTER_BYTES = "bytes of the largest footer"
_DECODED_RATIO = 3
# A KeyValue in Thrift's compact protocol: a field with the key after its length, and a field with the value after its
# length.
_BLOOM_FILTER = b"\x18\x1borg.apache.hudi.bloomfilter\x18"
_LENGTH_BYTES = 4
_CONTINUATION_BIT = 0x80
_MAX_LENGTH_BYTES = 5


class BaseFooter(NamedTuple):
    """A footer as a fragment, with the partition values as its guarantee, and as an Arrow schema."""

    fragment: "ds.ParquetFileFragment"
    arrow_schema: pa.Schema

    def keep(self, storage: Storage, split: RealtimeFileSplit, path: str) -> None:
        """Caches the footer for the next time that the file is opened."""
        storage.cache.put(_key(split, path), self, self.fragment.metadata.serialized_size * _DECODED_RATIO)


def cached_footer(storage: Storage, split: RealtimeFileSplit, path: str) -> BaseFooter | None:
    """The cached footer of a base file, or None."""
    footer: BaseFooter | None = storage.cache.get(_key(split, path))
    return footer


def base_fragment(
    storage: Storage, split: RealtimeFileSplit, path: str, opened: pa.NativeFile
) -> "ds.ParquetFileFragment":
    """The footer of an open base file as a fragment with complete metadata, and the partition values as its guarantee.

    The footer is read in one request if it is no larger than earlier ones, and not at all if it was read for an index.
    Hudi's Bloom filter is left out of it.

    Raises:
        CorruptBaseFileError: the parts of the footer do not agree.
        UnsupportedTableError: the file is encrypted.
        PARQUET_ERRORS: the file is not Parquet, or cannot be read.
    """
    cached: bytes | None = storage.cache.get(_stored_key(split, path))
    footer = cached or _read_footer(storage, opened, path)
    fragment = None
    if footer is not None:
        # Decoded, a Bloom filter of Hudi takes twice its size as long as the file is open or the footer is cached.
        decoded = without_bloom_filter(footer, len(_MAGIC), footer, len(footer)) or footer
        fragment = _fragment_of(decoded, split)
        if fragment is None:
            decoded = footer
        metadata = pq.read_metadata(pa.BufferReader(footer)) if fragment is None else fragment.metadata
        require_not_encrypted(decoded[-END_BYTES:], path, metadata)
    if fragment is None:
        # Arrow raises an error that describes what is wrong with the file.
        fragment = _parquet().make_fragment(opened, partition_expression=_guarantee(split))
        fragment.ensure_complete_metadata()
    _require_agreement(fragment.metadata, path)
    result: ds.ParquetFileFragment = fragment
    return result


class BaseFileFooter:
    """The footer of a base file, read without opening the file for its data."""

    def __init__(self, storage: Storage, split: RealtimeFileSplit, path: str) -> None:
        """Reads the footer.

        Raises:
            CorruptBaseFileError: the file has no footer, or one whose parts do not agree.
            UnsupportedTableError: the file is encrypted.
            PARQUET_ERRORS: the footer cannot be decoded.
            StorageError: the file cannot be read.
        """
        with storage.open_input(path, split.base_size_bytes or None) as opened:
            content = _read_footer(storage, opened, path)
        if content is None:
            raise CorruptBaseFileError(path, None, "no footer", "a readable Parquet file")
        self.content = pq.read_metadata(pa.BufferReader(content))
        """The decoded footer."""
        require_not_encrypted(content[-END_BYTES:], path, self.content)
        _require_agreement(self.content, path)
        self._storage, self._split, self._path = storage, split, path
        self._stored = content

    def keep(self) -> None:
        """Caches the footer for the time when the file is opened."""
        self._storage.cache.put(_stored_key(self._split, self._path), self._stored, len(self._stored))


def value_range(footer: pq.FileMetaData, row_group: int, column: str) -> tuple[Any, Any] | None:
    """The least and greatest value of a top-level column in a row group; None if its statistics lack them."""
    group = footer.row_group(row_group)
    chunks = map(group.column, range(group.num_columns))
    statistics = next((chunk.statistics for chunk in chunks if chunk.path_in_schema == column), None)
    return None if statistics is None or not statistics.has_min_max else (statistics.min, statistics.max)


def text_range(footer: pq.FileMetaData, row_group: int, column: str) -> tuple[str, str] | None:
    """As ``value_range``; None if the values are no texts."""
    least, greatest = value_range(footer, row_group, column) or (None, None)
    return (least, greatest) if isinstance(least, str) and isinstance(greatest, str) else None


def check_origin(footer: pq.FileMetaData, split: RealtimeFileSplit, path: str) -> None:
    """Warns if the rows of the first row group were written into another file or partition, by its statistics."""
    context = split.context
    if not context.populates_meta_fields or not footer.num_row_groups:
        return
    group = footer.row_group(0)
    for column, own in ((PARTITION_PATH_COLUMN, split.partition_path), (FILE_NAME_COLUMN, split.file_id)):
        # Hudi writes the meta columns first, so the column is at its position among them or is not checked.
        position = META_COLUMNS.index(column)
        chunk = group.column(position) if position < group.num_columns else None
        if chunk is None or chunk.path_in_schema != column:
            continue
        statistics = chunk.statistics
        try:
            text = statistics.min if statistics is not None and statistics.has_min_max else None
        except UnicodeDecodeError:
            # The column may not be needed, so damaged statistics of it are ignored.
            continue
        if isinstance(text, str) and is_foreign(column, text, own):
            warn_of_foreign_rows(context.table_path, path, column, text)


def is_foreign(column: str, text: str, own: str) -> bool:
    """Whether a row's partition path or file name does not belong to the partition or the file id ``own``.

    Rows in logs have only the file id as their file name. File systems drop extra slashes of partition paths.
    """
    if column == FILE_NAME_COLUMN:
        return bool(text) and text.partition("_")[0] != own
    return text != own and [part for part in text.split("/") if part] != [part for part in own.split("/") if part]


def chunks_of(footer: pq.FileMetaData, row_group: int, columns: Iterable[str]) -> Iterator[pq.ColumnChunkMetaData]:
    """The column chunks of top-level columns in a row group, one for each leaf."""
    names, group = set(columns), footer.row_group(row_group)
    for chunk in map(group.column, range(group.num_columns)):
        if chunk.path_in_schema in names or chunk.path_in_schema.partition(".")[0] in names:
            yield chunk


def leaf_paths(footer: pq.FileMetaData, schema: pa.Schema, column: str) -> Sequence[str]:
    """The paths of the leaves of a top-level column, in order; none if a path is another one's, too.

    Arrow and Parquet have the same leaves in the same order. Names may contain dots.
    """
    before = sum(map(_leaves, schema.types[: schema.get_field_index(column)]))
    paths = [footer.schema.column(number).path for number in range(footer.num_columns)]
    leaves = paths[before : before + _leaves(schema.field(column).type)]
    are_like_schema = sum(map(_leaves, schema.types)) == len(paths)
    is_ambiguous = any(sum(path == leaf or path.startswith(f"{leaf}.") for path in paths) > 1 for leaf in leaves)
    return leaves if are_like_schema and not is_ambiguous else ()


def _leaves(kind: Any) -> int:  # noqa: ANN401 - a type of Arrow
    kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if pa.types.is_nested(kind):
        return sum(_leaves(kind.field(position).type) for position in range(kind.num_fields))
    return 1


def _require_agreement(footer: pq.FileMetaData, path: str) -> None:
    if wrong := footer_mismatch(footer):
        raise CorruptBaseFileError(path, None, *wrong)


def _fragment_of(footer: bytes, split: RealtimeFileSplit) -> "ds.ParquetFileFragment | None":
    """A fragment with the metadata of a footer; None if it cannot be decoded."""
    try:
        fragment = _parquet().make_fragment(pa.BufferReader(footer), partition_expression=_guarantee(split))
        fragment.ensure_complete_metadata()
    except PARQUET_ERRORS:
        return None
    result: ds.ParquetFileFragment = fragment
    return result


def _guarantee(split: RealtimeFileSplit) -> pc.Expression:
    return partition_guarantee(tuple(split.path_values.items()))


def _key(split: RealtimeFileSplit, path: str) -> tuple[object, ...]:
    # The guarantee of the fragment depends on the partition values.
    return ("footer", path, split.base_size_bytes, tuple(split.path_values.items()))


def _stored_key(split: RealtimeFileSplit, path: str) -> tuple[object, ...]:
    return ("stored footer", path, split.base_size_bytes)


def hold_footer(storage: Storage, file: FileOfRanges) -> None:
    """Reads the end of a base file, with its footer if it has one, and keeps it with the file."""
    end = _end_with_footer(storage, file.size_bytes, lambda start, size: file.read_range(start, size).to_pybytes())
    file.hold(file.size_bytes - len(end), pa.py_buffer(end))


def _expecting(storage: Storage, footer_bytes: int) -> int:
    """The larger value of ``_expected_bytes`` after a footer of this size was read; it is stored for later reads."""
    # Another thread may have seen a larger footer meanwhile.
    expected = max(_expected_bytes(storage), footer_bytes + _USUAL_FOOTER_BYTES)
    storage.cache.put(_FOOTER_BYTES, expected, 0)
    return expected


def _expected_bytes(storage: Storage) -> int:
    expected: int | None = storage.cache.get(_FOOTER_BYTES)
    return expected or _USUAL_FOOTER_BYTES


def _read_footer(storage: Storage, opened: Any, path: str) -> bytes | None:  # noqa: ANN401 - the stubs lack read_at's second argument
    """The footer as the content of a Parquet file without data; None if the file has no footer."""
    end = _end_with_footer(storage, opened.size(), lambda start, size: opened.read_at(size, start))
    require_not_encrypted(end[-END_BYTES:], path)
    needed = _footer_bytes(end)
    return None if needed is None or needed > len(end) else _MAGIC + end[-needed:]


def _end_with_footer(storage: Storage, size: int, read: Callable[[int, int], bytes]) -> bytes:
    """The end of a file with its whole footer, if it has one; ``read`` takes an offset and a size.

    The result has as many bytes as ``_expected_bytes`` then returns, so that a later read of the footer needs no more.
    """
    start = max(0, size - _expected_bytes(storage))
    end = read(start, size - start)
    needed = _footer_bytes(end)
    if needed is None or needed <= len(end) or needed + len(_MAGIC) > size:
        return end
    first = max(0, size - _expecting(storage, needed))
    return read(first, start - first) + end


def without_bloom_filter(head: bytes, footer_start: int, tail: bytes, size: int) -> bytes | None:
    """The file with an empty Bloom filter, from its head and tail; None unless exactly one filter is all between them.

    The text that marks the filter may occur anywhere, such as in a record key. If it occurs twice, nothing is changed.
    """
    value = head.find(_BLOOM_FILTER, footer_start) + len(_BLOOM_FILTER)
    if value < len(_BLOOM_FILTER):
        return None
    after = _end_of_text(head, value) - (size - len(tail))
    rest = tail[after:-END_BYTES]
    if after < 0 or not rest or _BLOOM_FILTER in rest:
        return None
    footer = head[footer_start:value] + b"\0" + rest
    return b"".join((head[:footer_start], footer, len(footer).to_bytes(_LENGTH_BYTES, "little"), _MAGIC))


def _end_of_text(head: bytes, position: int) -> int:
    """The end of a text that starts with its length as a varint."""
    length = shift = 0
    for byte in head[position : position + _MAX_LENGTH_BYTES]:
        length |= (byte & ~_CONTINUATION_BIT) << shift
        position, shift = position + 1, shift + 7
        if byte < _CONTINUATION_BIT:
            break
    return position + length


def _footer_bytes(end: bytes) -> int | None:
    """The size of the footer including its length and magic, by the last bytes of a file; None if
    they are not Parquet's.
    """
    if len(end) < END_BYTES or end[-len(_MAGIC) :] != _MAGIC:
        return None
    return int.from_bytes(end[-END_BYTES : -len(_MAGIC)], "little") + END_BYTES


@cache
def _parquet() -> Any:  # noqa: ANN401 - the stubs lack arguments of make_fragment
    return ds.ParquetFileFormat()
