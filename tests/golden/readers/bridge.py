"""Hudi Bridge, of this checkout."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_bridge import __version__
from tests.support.golden_cases import GoldenQuery
from tests.support.golden_queries import dataset_of

READER = f"Hudi Bridge {__version__}"


def read(table: str, kind: str, options: Mapping[str, Any]) -> pa.Table:
    query = GoldenQuery.of(Path(table), kind, options)
    return dataset_of(query).to_table(filter=query.expression)
