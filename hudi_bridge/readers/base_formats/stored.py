"""Opens the bytes of base files, and maps low-level errors to the error that describes the cause."""

from collections.abc import Callable

import pyarrow as pa

from hudi_bridge.config import read_table_config
from hudi_bridge.errors import CorruptBaseFileError, DataFileGoneError, HudiReadError
from hudi_bridge.logformat.parquet import first_line
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage.ranges import FileOfRanges
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.timeline import load_timeline


def data_file_gone(storage: Storage, planned: RealtimeFileSplit | ReadContext, path: str) -> DataFileGoneError:
    """The error for a missing data file; the timeline is read again, so that it names the newest instant."""
    return DataFileGoneError(path, planned.latest_instant, _newest_instant(storage))


def _newest_instant(storage: Storage) -> str | None:
    try:
        latest = load_timeline(storage, read_table_config(storage)).latest_commit()
    except HudiReadError:
        return None
    return latest.requested_time if latest else None


def open_stored(storage: Storage, split: RealtimeFileSplit, path: str) -> tuple[pa.NativeFile, FileOfRanges | None]:
    """Opens the base file; the second value fetches its ranges if it is in a store.

    Raises:
        FileNotFoundError: the file no longer exists.
        StorageError: the file cannot be opened.
    """
    if storage.is_local:
        return storage.open_input(path), None
    fetched = storage.prefetched.get(path)
    if isinstance(fetched, pa.Buffer):
        return pa.BufferReader(fetched), None
    # The caller closes the file after use, so it must not be found again.
    storage.prefetched.pop(path, None)
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
    """The error to raise for an Arrow error: the file is not in the format ``kind``, it is
    missing, or the storage failed.
    """
    failure = storage.failure_of(path, error, decode)
    if failure is None:
        return CorruptBaseFileError(path, None, first_line(error), f"a readable {kind} file")
    return failure if isinstance(failure, HudiReadError) else data_file_gone(storage, split, path)
