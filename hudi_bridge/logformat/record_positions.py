"""The RECORD_POSITIONS header of a log block -> where in the base file the block's records have their rows.

The header is the Base64 text of a portable 64-bit Roaring bitmap. Writers sort the records of a block by position, so
that the i-th position belongs to the i-th record. The positions count in the base file of one instant, and mean nothing
in any other.

Source: ``HoodieLogBlock.getRecordPositions`` and ``PositionBasedFileGroupRecordBuffer`` of Hudi.
"""

import base64

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from hudi_bridge.errors import CorruptLogFileError
from hudi_bridge.logformat.block import LogBlock


def parse_record_positions(block: LogBlock, base_instant_time: str, records: int) -> npt.NDArray[np.int64] | None:
    """The row of each record of the block in the base file of an instant; None if the block does not tell.

    Raises:
        CorruptLogFileError: the header is not a bitmap.
    """
    text = block.record_positions
    if text is None or block.base_file_instant_of_positions != base_instant_time:
        return None
    try:
        bitmap = BitMap64.deserialize(base64.b64decode(text, validate=True))
    except (ValueError, IndexError) as error:
        found = f"RECORD_POSITIONS that cannot be read: {error}"
        raise CorruptLogFileError(block.path, block.offset, found, "a portable Roaring bitmap") from error
    if len(bitmap) != records or (records and bitmap.max() > np.iinfo(np.int64).max):
        return None
    return np.fromiter(bitmap, dtype=np.int64, count=records)
