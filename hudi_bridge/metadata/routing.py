"""Which file group of a partition of the metadata table holds a key.

Source: ``HoodieTableMetadataUtil.mapRecordKeyToFileGroupIndex``.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_FACTOR = np.uint32(31)
# Keys are hashed in parts, each a matrix of characters of about this many cells.
_CELLS = 1 << 22

Ints: TypeAlias = npt.NDArray[np.int64]


def group_numbers(keys: pa.StringArray, groups: int) -> Ints:
    """The number of the file group of each key, from 0 to ``groups`` - 1."""
    if groups == 1:
        return np.zeros(len(keys), np.int64)
    return np.abs(_java_hashes(keys).astype(np.int64)) % groups


def _java_hashes(keys: pa.StringArray) -> npt.NDArray[np.int32]:
    """Java's hash of each key, over its UTF-16 code units: each unit is added to 31 times the hash so far."""
    if not len(keys):
        return np.zeros(0, np.int32)
    longest = pc.max(pc.binary_length(keys)).as_py()
    rows = max(1, _CELLS // max(1, longest))
    parts = [_hashes_of_part(keys.slice(start, rows)) for start in range(0, len(keys), rows)]
    return np.concatenate(parts)


def _hashes_of_part(keys: pa.StringArray) -> npt.NDArray[np.int32]:
    units = [(key or "").encode("utf-16-le", "surrogatepass") for key in keys.to_pylist()]
    lengths = np.fromiter(map(len, units), np.int64, len(units)) // 2
    width = int(lengths.max(initial=0))
    matrix = np.frombuffer(b"".join(unit.ljust(2 * width, b"\0") for unit in units), "<u2").reshape(len(units), width)
    hashes = np.zeros(len(units), np.uint32)
    for position in range(width):
        grown = hashes * _FACTOR + matrix[:, position]
        hashes = np.where(position < lengths, grown, hashes)
    return hashes.astype(np.int32)
