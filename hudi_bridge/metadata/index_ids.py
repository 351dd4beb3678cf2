"""The ids by which the metadata table's keys name columns, partitions and files: hashes as Base64 text.

Source: ``ColumnIndexID``, ``PartitionIndexID``, ``FileIndexID`` and ``HashID`` of Hudi.
"""

from base64 import b64encode
from functools import lru_cache
from hashlib import md5

from xxhash import xxh64_digest

_SEED = 0xFFFFFFFFDABADABA


def column_id(column: str) -> str:
    """The id of a column, which may be a field within columns: ``a.b``."""
    return _text(xxh64_digest(column.encode(), _SEED))


@lru_cache(maxsize=4096)
def partition_id(partition: str) -> str:
    """The id of a partition; the path of the only one of a table without partitions is empty."""
    return _text(xxh64_digest((partition or ".").encode(), _SEED))


def file_id(name: str) -> str:
    """The id of a base file or log file, by its name without a folder."""
    return _text(md5(name.encode(), usedforsecurity=False).digest())


def _text(digest: bytes) -> str:
    return b64encode(digest).decode()
