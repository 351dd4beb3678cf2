"""Opens the bytes of base files, and tells why one cannot be read."""

from collections.abc import Callable

import pyarrow as pa

from hudi_bridge.errors import CorruptBaseFileError, HudiReadError
from hudi_bridge.logformat.parquet import first_line
from hudi_bridge.ranges import FileOfRanges
from hudi_bridge.readers.missing_files import data_file_gone
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage


def open_stored(storage: Storage, split: RealtimeFileSplit, path: str) -> tuple[pa.NativeFile, FileOfRanges | None]:
    """The base file, opened, and its ranges if they have to be fetched.

    Raises:
        FileNotFoundError: the file no longer exists.
        StorageError: the file cannot be opened.
    """
    if storage.is_local:
        return storage.open_input(path), None
    fetched = storage.fetched.get(path)
    if isinstance(fetched, pa.Buffer):
        return pa.BufferReader(fetched), None
    # It is closed after use.
    storage.fetched.pop(path, None)
    ranges = storage.open_ranges(path, split.base_size_bytes or None) if fetched is None else fetched
    return pa.PythonFile(ranges, mode="r"), ranges


def cause_of(
    storage: Storage,
    split: RealtimeFileSplit,
    path: str,
    error: Exception,
    decode: Callable[[pa.NativeFile], object],
    kind: str,
) -> HudiReadError:
    """The error to raise for an Arrow error: the file is not of its ``kind``, it is missing, or storage has failed."""
    failure = storage.failure_of(path, error, decode)
    if failure is None:
        return CorruptBaseFileError(path, None, first_line(error), f"a readable {kind} file")
    return failure if isinstance(failure, HudiReadError) else data_file_gone(storage, split, path)
