"""Fetches the files of a split before it is read: small files as a whole, others in part."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from hudi_bridge.common.caching import cached_property
from hudi_bridge.errors import StorageError
from hudi_bridge.logformat.parquet import PARQUET_ERRORS
from hudi_bridge.merge.arrays import ordering_path
from hudi_bridge.readers.base_file import data_file_gone
from hudi_bridge.readers.base_formats.footers import base_fragment, cached_footer, hold_footer
from hudi_bridge.readers.base_formats.parquet import ColumnChunks
from hudi_bridge.readers.log_scan import read_log_file
from hudi_bridge.readers.request import SliceRead
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN
from hudi_bridge.storage.ranges import FileOfRanges

_ALWAYS_WHOLE_BYTES = 1 << 20
"""Base files up to this size are fetched whole: a second request would take longer."""
_WHOLE_BYTES = 1 << 23
"""Base files up to this size are fetched whole if half of the columns are needed."""
_FOOTER_BYTES = 1 << 16

LargeFetchSlot = Callable[[int], AbstractContextManager[object]]
"""Returns a context in which the given number of bytes may be fetched."""

FetchFile = Callable[[], pa.Buffer | FileOfRanges]
"""Fetches a file.

Raises:
    DataFileGoneError: it no longer exists.
    StorageError: it cannot be read.
"""


@dataclass(frozen=True)
class FilesOfSlice:
    """The files of one file slice in a store, for one read."""

    read: SliceRead

    @cached_property
    def _is_selective(self) -> bool:
        request = self.read.request.with_keys_of_filter(self.read.context)
        return request.is_selective(dict(self.read.split.partition_values))

    @cached_property
    def _columns(self) -> tuple[str, ...]:
        """The columns to read, as far as they are known without the footer."""
        context, request = self.read.context, self.read.request
        # The reader fetches what it reads of columns that it reads in part.
        partial_columns = () if self.read.has_logs else {path.column for path in request.variant_paths}
        needed = [name for name in request.needed if name not in partial_columns]
        names = [*needed, *((COMMIT_TIME_COLUMN,) if context.commit_times is not None else ())]
        if self.read.has_logs:
            names += self.read.columns
            names += context.key_columns
            names += [ordering_path(name)[0] for name in self.read.rule.ordering_fields]
        return tuple(dict.fromkeys(names))

    @property
    def _logs_fit(self) -> bool:
        return self.read.split.log_size_bytes <= self.read.log_memory_bytes

    @property
    def _is_base_whole(self) -> bool:
        size, all_columns = self.read.split.base_size_bytes, len(self.read.context.schema.names)
        if size <= _ALWAYS_WHOLE_BYTES:
            return True
        return size <= _WHOLE_BYTES and not self._is_selective and 2 * len(self._columns) >= all_columns

    @property
    def size_bytes(self) -> int:
        """About the number of bytes to fetch ahead."""
        split = self.read.split
        logs = split.log_size_bytes if self._logs_fit else 0
        if self._is_base_whole:
            return logs + split.base_size_bytes
        if self._is_selective:
            return logs + _FOOTER_BYTES
        # Columns differ in size, but the footer is not known yet.
        columns, all_columns = len(self._columns), len(split.context.schema.names)
        return logs + (
            split.base_size_bytes if 2 * columns >= all_columns else split.base_size_bytes * columns // all_columns
        )

    def to_fetch(self, large_fetch_slot: LargeFetchSlot) -> Iterator[tuple[str, FetchFile]]:
        """Yields the path of each file and a function that fetches it.

        Columns of large files are fetched in a ``large_fetch_slot``.
        """
        storage, split = self.read.storage, self.read.split
        for path, size in split.log_files if self._logs_fit else ():
            yield path, partial(read_log_file, storage, split, path, size, on_disk=False)
        # A base file of unknown size is left to its reader.
        path = split.base_path or ""
        # Statistics of a cached footer may show that no row group is needed.
        is_filtered = self._is_selective or self.read.request.row_filter is not None
        is_cached = is_filtered and cached_footer(storage, split, path) is not None
        # It is not known what a reader of other formats, or of encrypted files, reads first.
        has_plain_footer = path.endswith(".parquet") and storage.decryption is None
        can_fetch = self._is_base_whole or has_plain_footer
        if path and split.base_size_bytes and not is_cached and can_fetch:
            yield path, partial(self._base, path, large_fetch_slot)

    def _base(self, path: str, large_fetch_slot: LargeFetchSlot) -> pa.Buffer | FileOfRanges:
        storage, split = self.read.storage, self.read.split
        try:
            if self._is_base_whole:
                return storage.read_buffer(path, split.base_size_bytes)
            file = storage.open_ranges(path, split.base_size_bytes)
            hold_footer(storage, file)
            if not self._is_selective:
                self._fetch_first_columns(file, path, large_fetch_slot)
        except FileNotFoundError as error:
            raise data_file_gone(storage, split, path) from error
        return file

    def _fetch_first_columns(self, file: FileOfRanges, path: str, large_fetch_slot: LargeFetchSlot) -> None:
        opened = pa.PythonFile(file, mode="r")
        try:
            footer = base_fragment(self.read.storage, self.read.split, path, opened).metadata
            if footer.num_row_groups:
                with large_fetch_slot(self.size_bytes):
                    chunks = ColumnChunks(file, footer)
                    if not chunks.are_large(0, self._columns):
                        file.hold_for_first_read(chunks.fetch(0, self._columns))
        except (StorageError, FileNotFoundError):
            raise
        except PARQUET_ERRORS:
            # The reader of the file raises the error.
            return
