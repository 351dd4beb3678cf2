"""Deleted positions of a data file -> a deletion vector in a Puffin file.

Source: the Puffin specification, "File structure" and "``deletion-vector-v1`` blob type".
"""

import json
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from hudi_bridge.connectors.iceberg.columns import ROW_POSITION_ID

_MAGIC = b"PFA1"
_VECTOR_MAGIC = bytes.fromhex("d1d33964")
_NO_FLAGS = bytes(4)
_UNKNOWN = -1
"""The snapshot and the sequence number of a vector, which are known when it is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorPlace:
    """Where the deletion vector of the data file at ``of``, a URI, lies in a Puffin file; in bytes."""

    of: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PuffinFile:
    """The content of a Puffin file with one deletion vector."""

    content: bytes
    place: VectorPlace


def puffin_file(location: str, deleted: "npt.NDArray[np.int64]") -> PuffinFile:
    """The Puffin file with the deleted positions of the data file at ``location``; all are zero or greater."""
    bitmap = BitMap64(deleted.astype(np.uint64))
    bitmap.run_optimize()
    vector = _VECTOR_MAGIC + bitmap.serialize()
    blob = len(vector).to_bytes(4, "big") + vector + zlib.crc32(vector).to_bytes(4, "big")
    place = VectorPlace(of=location, offset=len(_MAGIC), size=len(blob))
    described = {
        "type": "deletion-vector-v1",
        "fields": [ROW_POSITION_ID],
        "snapshot-id": _UNKNOWN,
        "sequence-number": _UNKNOWN,
        "offset": place.offset,
        "length": place.size,
        "properties": {"referenced-data-file": location, "cardinality": str(len(bitmap))},
    }
    footer = json.dumps({"blobs": [described], "properties": {"created-by": "Hudi Bridge"}}).encode()
    size = len(footer).to_bytes(4, "little")
    return PuffinFile(content=b"".join((_MAGIC, blob, _MAGIC, footer, size, _NO_FLAGS, _MAGIC)), place=place)
