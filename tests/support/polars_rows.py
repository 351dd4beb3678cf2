"""Rows that Polars gives beside Hudi's."""

import polars as pl
import pyarrow as pa

from tests.support.compare import differences

HAS_MAPS = hasattr(pl, "Map")
"""Before it had maps, Polars made lists of their entries."""


def differences_in_polars(expected: pa.Table, found: pa.Table) -> list[str]:
    """The differences, in words; of a Polars without maps, between what it makes of both."""
    return differences(expected if HAS_MAPS else pl.DataFrame(expected).to_arrow(), found)
