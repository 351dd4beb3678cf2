"""The reads of base files alone, whose answer is stale: the floor of what a read may cost.

Every file group of the tables has one base file. With the argument ``with-key``, the record key is read as well, which
every merge needs.
"""

import sys
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs  # noqa: TID251 - what pyarrow does without hudi_bridge

from benchmarks import measurement
from benchmarks.base_files import NoBaseFilesError, is_base_file
from benchmarks.reader_hudi_bridge import filter_of
from benchmarks.scenarios import Read

KEY = "_hoodie_record_key"


class BaseFiles:
    """``pyarrow`` on the base files of a table."""

    def __init__(self, *, with_key: bool = False) -> None:
        self._with_key = with_key

    def table(self, path: str, read: Read) -> pa.Table:
        """All rows, in memory."""
        return self._dataset(path).to_table(columns=self._columns(read), filter=filter_of(read))

    def batches(self, path: str, read: Read) -> Iterator[pa.RecordBatch]:
        """The same rows, one batch after another."""
        return iter(self._dataset(path).to_batches(columns=self._columns(read), filter=filter_of(read)))

    def _columns(self, read: Read) -> list[str] | None:
        if read.columns is None:
            return None
        return [*read.columns, KEY] if self._with_key else list(read.columns)

    def _dataset(self, path: str) -> ds.Dataset:
        filesystem, folder = pafs.FileSystem.from_uri(path) if "://" in path else (pafs.LocalFileSystem(), path)
        listed = filesystem.get_file_info(pafs.FileSelector(folder, recursive=True))
        files = [info.path for info in listed if is_base_file(info.path)]
        if not files:
            raise NoBaseFilesError
        return ds.dataset(files, filesystem=filesystem, format="parquet")


if __name__ == "__main__":
    measurement.serve(BaseFiles(with_key=sys.argv[1:] == ["with-key"]))
