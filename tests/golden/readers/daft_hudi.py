"""``daft.read_hudi``, Daft's own reader of Hudi tables, which are copy-on-write and of versions 5 and 6."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import daft
import pyarrow as pa

from tests.support.golden_cases import GoldenQuery

READER = f"Daft {daft.__version__} (read_hudi)"


def read(table: str, kind: str, options: Mapping[str, Any]) -> pa.Table:
    if kind not in ("snapshot", "snapshot_filtered"):
        raise NotImplementedError("no query but snapshots")
    query = GoldenQuery.of(Path(table), kind, options)
    rows: pa.Table = daft.read_hudi(table).to_arrow()
    return query.passing(rows)
