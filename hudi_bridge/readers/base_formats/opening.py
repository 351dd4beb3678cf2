"""Opens the base file of a split in its format."""

from hudi_bridge.readers.base_file import OpenBaseFile
from hudi_bridge.readers.base_formats.bootstrapped import BootstrappedBaseFile
from hudi_bridge.readers.base_formats.encrypted_parquet import open_parquet
from hudi_bridge.readers.base_formats.hfile import HFileBaseFile
from hudi_bridge.readers.base_formats.lance import LanceBaseFile
from hudi_bridge.readers.base_formats.orc import OrcBaseFile
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage


def open_base_file(
    storage: Storage, split: RealtimeFileSplit, path: str, *, use_threads: bool, keep_footer: bool = False
) -> OpenBaseFile:
    """Opens the base file at a path relative to the table; with ``use_threads``, columns are decoded in parallel.

    With ``keep_footer``, the storage keeps the footer, in a format that has one, for the next time.

    Raises:
        CorruptBaseFileError: the file is not one of its format.
        DataFileGoneError: the file no longer exists.
        QueryError: the keys that the table was opened with are not those of the file.
        StorageError: the file cannot be opened, or its footer cannot be read.
        UnsupportedTableError: the format lacks what the file needs.
    """
    if split.source_path is not None:
        return BootstrappedBaseFile.open(storage, split, path, use_threads=use_threads)
    match path.rpartition(".")[2]:
        case "orc":
            return OrcBaseFile.open(storage, split, path)
        case "hfile":
            return HFileBaseFile.open(storage, split, path)
        case "lance":
            return LanceBaseFile.open(storage, split, path)
    return open_parquet(storage, split, path, use_threads=use_threads, keep_footer=keep_footer)
