"""Parquet base files that are read with keys, without the statistics in their footers.

Their footers are not kept, nor are columns fetched ahead.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge.errors import CorruptBaseFileError
from hudi_bridge.readers.base_file import DICTIONARY_COLUMNS, ROWS_PER_BATCH, OpenBaseFile, decoded_schema
from hudi_bridge.readers.base_formats.legacy_dates import LegacyDates
from hudi_bridge.readers.base_formats.parquet import ParquetBaseFile
from hudi_bridge.readers.base_formats.stored import data_file_gone, open_stored
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN
from hudi_bridge.splits.decryption import decrypting, open_decrypted, properties_of
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import DecryptionProperties, Storage


class EncryptedParquetFile(OpenBaseFile):
    """An open Parquet base file with its keys."""

    def __init__(
        self,
        storage: Storage,
        split: RealtimeFileSplit,
        path: str,
        properties: DecryptionProperties,
        *,
        use_threads: bool,
    ) -> None:
        """Opens the file; raises like ``open_base_file``.

        Raises:
            QueryError: the properties are not for this file.
        """
        self._storage, self._properties, self._use_threads = storage, properties, use_threads
        try:
            self._opened, _ = open_stored(storage, split, path)
            first = open_decrypted(storage, path, self._opened, properties)
        except FileNotFoundError as error:
            raise data_file_gone(storage, split, path) from error
        footer = self._footer = first.metadata
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        rows, self._sizes = [group.num_rows for group in groups], [group.total_byte_size for group in groups]
        super().__init__(split, path, decoded_schema(first.schema_arrow), rows)
        if sum(rows) != footer.num_rows:
            raise CorruptBaseFileError(path, None, f"row groups of {sum(rows)} rows", f"{footer.num_rows}")
        self._legacy_dates = LegacyDates.of(footer, self.arrow_schema, path, has_statistics=False)
        self._readers = {ROWS_PER_BATCH: first}

    def close(self) -> None:
        """Close the file."""
        for reader in self._readers.values():
            reader.close(force=True)
        self._opened.close()

    def batches(
        self,
        row_group: int,
        columns: Sequence[str],
        rows_per_batch: int,
        then: int | None = None,  # noqa: ARG002 - nothing is fetched ahead
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one row group, in top-level columns of the file, with dates of the Gregorian calendar.

        Raises:
            CorruptBaseFileError: the data of a file that is not encrypted cannot be decoded.
            QueryError: the properties lack the key of a column.
            UnsupportedTableError: times are of a time zone that is not known.
        """
        rows = self._stored(row_group, list(columns), rows_per_batch)
        return rows if self._legacy_dates is None else map(self._legacy_dates.rebased, rows)

    def _stored(self, row_group: int, columns: list[str], rows_per_batch: int) -> Iterator[pa.RecordBatch]:
        storage, path = self._storage, self.path

        def iter_batches(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
            return file.iter_batches(
                rows_per_batch, row_groups=[row_group], columns=columns, use_threads=self._use_threads
            )

        def decode(opened: pa.NativeFile) -> None:
            for _ in iter_batches(pq.ParquetFile(opened, decryption_properties=self._properties)):
                pass

        # All iterations of one reader share the size.
        if rows_per_batch not in self._readers:
            self._readers[rows_per_batch] = open_decrypted(storage, path, self._opened, self._properties, self._footer)
        try:
            with decrypting(storage, path, decode):
                batches = iter_batches(self._readers[rows_per_batch])
            while True:
                with decrypting(storage, path, decode):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield batch
        except FileNotFoundError as error:
            raise data_file_gone(storage, self._split, path) from error

    def text_range(self, row_group: int, column: str) -> tuple[str, str] | None:
        """The least and greatest commit time in a row group, by its rows; None of other columns.

        On commit times it depends which rows are merged, and on other columns only how many are read.
        """
        if column != COMMIT_TIME_COLUMN or column not in self.arrow_schema.names:
            return None
        least, greatest = None, None
        for batch in self.batches(row_group, [column], ROWS_PER_BATCH):
            ends: Any = pc.min_max(batch.column(0)).as_py()
            if ends["min"] is not None:
                least = min(least or ends["min"], ends["min"])
                greatest = max(greatest or ends["max"], ends["max"])
        return None if least is None or greatest is None else (least, greatest)

    def stored_bytes(self, row_group: int, columns: Iterable[str]) -> int:
        """About the stored size of some top-level columns in a row group, as if all were of one size."""
        return sum(self.leaf_bytes(row_group, columns))

    def leaf_bytes(self, row_group: int, columns: Iterable[str]) -> Iterable[int]:
        """About the size of each of some top-level columns in a row group, of which the sum is known."""
        each = self._sizes[row_group] // max(1, len(self.arrow_schema.names))
        return [each for _ in columns]


def open_parquet(
    storage: Storage,
    split: RealtimeFileSplit,
    path: str,
    *,
    use_threads: bool,
    keep_footer: bool = False,
    dictionaries: Sequence[str] = DICTIONARY_COLUMNS,
) -> OpenBaseFile:
    """Opens a Parquet file, with its keys if there are any; arguments are as for ``ParquetBaseFile.open``.

    Raises like ``open_base_file``.
    """
    properties = properties_of(storage, path)
    if properties is not None:
        return EncryptedParquetFile(storage, split, path, properties, use_threads=use_threads)
    return ParquetBaseFile.open(
        storage, split, path, use_threads=use_threads, keep_footer=keep_footer, dictionaries=dictionaries
    )
