"""Reads the footers of Parquet base files, and keeps those that are likely to be needed again.

Hudi never writes another file under the name of a base file.
"""

from functools import partial
from typing import Any

import pyarrow as pa

from hudi_bridge.imported_later import ds
from hudi_bridge.logformat.parquet import PARQUET_ERRORS
from hudi_bridge.splits.partitions import partition_guarantee
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage

_MAGIC = b"PAR1"
_END_BYTES = 8
"""The length of the footer and the magic, which end the file."""
_USUAL_FOOTER_BYTES = 1 << 16
_FOOTER_BYTES = "bytes of the largest footer"
_DECODED_RATIO = 3


def base_fragment(
    storage: Storage, split: RealtimeFileSplit, path: str, opened: pa.NativeFile, *, keep: bool
) -> "ds.ParquetFileFragment":
    """The footer of an open base file, as a fragment with complete metadata and the partition values as a guarantee.

    With ``keep``, or after ``keep_fragment``, later calls for the same file need not read it. The footer is read in one
    request if it is no larger than those of other files before it.

    Raises:
        PARQUET_ERRORS: the file is not Parquet, or cannot be read.
    """
    kept: ds.ParquetFileFragment | None = storage.kept.get(_key(split, path))
    if kept is not None:
        return kept
    parquet: Any = ds.ParquetFileFormat()
    guarantee = partition_guarantee(tuple(split.path_values.items()))
    fragment: Any = None
    footer = _read_footer(storage, path, opened)
    if footer is not None:
        try:
            fragment = parquet.make_fragment(pa.BufferReader(footer), partition_expression=guarantee)
            fragment.ensure_complete_metadata()
        except PARQUET_ERRORS:
            fragment = None
    if fragment is None:
        # Arrow finds out, and says, what is wrong with the file.
        fragment = parquet.make_fragment(opened, partition_expression=guarantee)
        storage.wait_for("read", path, fragment.ensure_complete_metadata)
    if keep:
        keep_fragment(storage, split, path, fragment)
    found: ds.ParquetFileFragment = fragment
    return found


def keep_fragment(storage: Storage, split: RealtimeFileSplit, path: str, fragment: "ds.ParquetFileFragment") -> None:
    """Keep the footer of a base file for the next time that the file is opened."""
    storage.kept.put(_key(split, path), fragment, fragment.metadata.serialized_size * _DECODED_RATIO)


def _key(split: RealtimeFileSplit, path: str) -> tuple[object, ...]:
    return ("footer", path, split.base_size_bytes, split.context.path_columns)


def _read_footer(storage: Storage, path: str, opened: pa.NativeFile) -> bytes | None:
    """A Parquet file of nothing but the footer; None if the file has no footer."""
    size = storage.wait_for("read", path, opened.size)
    expected = storage.kept.get(_FOOTER_BYTES) or _USUAL_FOOTER_BYTES
    tail = _read(storage, path, opened, max(0, size - expected), size)
    if len(tail) < _END_BYTES or tail[-len(_MAGIC) :] != _MAGIC:
        return None
    needed = int.from_bytes(tail[-_END_BYTES : -len(_MAGIC)], "little") + _END_BYTES
    if needed + len(_MAGIC) > size:
        return None
    if needed > len(tail):
        tail = _read(storage, path, opened, size - needed, size - len(tail)) + tail
        storage.kept.put(_FOOTER_BYTES, needed + _USUAL_FOOTER_BYTES, 0)
    return _MAGIC + tail[-needed:]


def _read(storage: Storage, path: str, opened: Any, start: int, end: int) -> bytes:  # noqa: ANN401 - the stubs lack read_at's second argument
    data: bytes = storage.wait_for("read", path, partial(opened.read_at, end - start, start))
    return data
