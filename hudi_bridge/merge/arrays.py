"""Names for the Arrow and NumPy types used in merging; some are generic only in the type stubs."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Column: TypeAlias = "pa.Array[Any]"
Value: TypeAlias = "pa.Scalar[Any]"
Positions: TypeAlias = npt.NDArray[np.int64]
Booleans: TypeAlias = npt.NDArray[np.bool_]
Ranks: TypeAlias = npt.NDArray[np.int64]


def as_booleans(column: Column) -> Booleans:
    """A boolean column as a mask; null is false."""
    return np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)  # noqa: FBT003


def all_positions(parts: Sequence[Positions | None]) -> Positions | None:
    """The positions of all parts, one after another; None if those of a part are not known, or there is no part."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if known and len(known) == len(parts) else None
