"""Merged slices for DuckDB, made without a table."""

import numpy as np
import pyarrow as pa

from hudi_bridge.engines import MergedSlice


def merged(number: int) -> MergedSlice:
    rows = pa.table({"n": np.full(100, number)})
    return MergedSlice(counted={"001": True}, deleted_positions=np.arange(number), rows=rows)
