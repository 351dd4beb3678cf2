"""Opens Parquet files with the decryption properties of pyarrow that a table was opened with.

Properties are used for every file that has them, encrypted or not: they may refuse files that are not encrypted.

Column chunks in a footer are not read, because pyarrow ends the process for a column without a key.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.errors import CorruptBaseFileError, QueryError, StorageError, UnsupportedTableError
from hudi_bridge.logformat.parquet import END_BYTES, PARQUET_ERRORS, first_line, require_not_encrypted
from hudi_bridge.storage.storage import DecryptionProperties, Storage

_ARGUMENT = "decryption_properties"
_PIECE_BYTES = 1 << 20
"""How much of each column of a local file is read at a time, as of files without keys."""
_EXPECTED = "the keys of the file and of each column that is read; or the file is damaged"


def require_decryption_properties(given: DecryptionProperties | None) -> DecryptionProperties | None:
    """The properties, after a check of their type.

    Raises:
        QueryError: they are not decryption properties.
    """
    if given is None or callable(given) or isinstance(given, pq.FileDecryptionProperties):
        return given
    expected = "pyarrow's FileDecryptionProperties, or a function from the path of a file to them"
    raise QueryError(_ARGUMENT, type(given).__name__, expected)


def properties_of(storage: Storage, path: str) -> DecryptionProperties | None:
    """The properties for a Parquet file of the table; None if it is to be read without.

    Raises:
        QueryError: the user's function failed.
    """
    given = storage.decryption
    if not callable(given):
        return given
    try:
        return given(storage.location(path))
    except Exception as error:
        # Whatever a user's function raises.
        raise _no_keys(path, error) from error


def open_decrypted(
    storage: Storage,
    path: str,
    opened: pa.NativeFile,
    properties: DecryptionProperties,
    footer: pq.FileMetaData | None = None,
) -> pq.ParquetFile:
    """An open Parquet file with its keys; its ``footer`` is read unless it is given.

    Raises:
        CorruptBaseFileError: the file is not encrypted, and has no footer that can be read.
        FileNotFoundError: the file no longer exists.
        QueryError: the properties are not for this file.
        StorageError: the file cannot be read.
    """

    def decode(file: pa.NativeFile) -> pq.ParquetFile:
        return pq.ParquetFile(
            file,
            metadata=footer,
            decryption_properties=properties,
            coerce_int96_timestamp_unit="us",
            pre_buffer=False,
            # Elsewhere than on a local disk, each column chunk is fetched as a whole.
            buffer_size=_PIECE_BYTES if storage.is_local else 0,
            page_checksum_verification=True,
        )

    with decrypting(storage, path, decode, is_opening=True):
        return decode(opened)
    raise AssertionError("a context that does not suppress errors")


@contextmanager
def decrypting(
    storage: Storage, path: str, decode: Callable[[pa.NativeFile], object], *, is_opening: bool = False
) -> Iterator[None]:
    """A context for calls of pyarrow that decrypt a file, and for nothing else; raises like ``open_decrypted``.

    What fetches keys may raise any error. ``decode`` does the same with another copy of the file.
    """
    try:
        yield
    except (pa.ArrowCancelled, MemoryError):
        raise
    except Exception as error:
        raise _cause_of(storage, path, error, decode, is_opening=is_opening) from error


def _cause_of(
    storage: Storage, path: str, error: Exception, decode: Callable[[pa.NativeFile], object], *, is_opening: bool
) -> Exception:
    if not isinstance(error, PARQUET_ERRORS):
        return _no_keys(path, error)
    failure = storage.failure_of(path, error, decode)
    # What fetches keys may miss files of its own.
    if failure is not None and not (isinstance(failure, FileNotFoundError) and storage.exists(path)):
        return failure
    try:
        with storage.open_input(path) as file:
            content: Any = file  # the stubs lack read_at's second argument
            end = content.read_at(END_BYTES, max(0, content.size() - END_BYTES))
            require_not_encrypted(end, path)
            require_not_encrypted(end, path, pq.read_metadata(file))
    except (UnsupportedTableError, StorageError) as answer:
        return answer if isinstance(answer, StorageError) else _no_keys(path, error)
    except PARQUET_ERRORS:
        return CorruptBaseFileError(path, None, first_line(error), "a readable Parquet file")
    if is_opening:
        # The properties refuse files that are not encrypted.
        return _no_keys(path, error)
    return CorruptBaseFileError(path, None, first_line(error), "a readable Parquet file")


def _no_keys(path: str, error: Exception) -> QueryError:
    reason = f"{type(error).__name__}: {first_line(error)}"
    return QueryError(_ARGUMENT, f"keys that do not decrypt {path} ({reason})", _EXPECTED)
