"""Rows for comparison."""

import pyarrow as pa

from hudi_bridge import HudiDataset


def rows_of(dataset: HudiDataset) -> pa.Table:
    """All rows, in the order of their keys."""
    return dataset.to_table().sort_by("_hoodie_record_key")
