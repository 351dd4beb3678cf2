"""Names for the Arrow and NumPy types that are passed around, some of which are generic in the type stubs alone."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Column: TypeAlias = "pa.Array[Any]"
Value: TypeAlias = "pa.Scalar[Any]"
Positions: TypeAlias = npt.NDArray[np.int64]
Booleans: TypeAlias = npt.NDArray[np.bool_]
Ranks: TypeAlias = npt.NDArray[np.int64]
