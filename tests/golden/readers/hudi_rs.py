"""The package ``hudi`` (hudi-rs), with its default reader."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hudi
import pyarrow as pa

from tests.support.golden_cases import GoldenQuery

READER = f"hudi-rs {hudi.__version__}"


def read(table: str, kind: str, options: Mapping[str, Any]) -> pa.Table:
    if kind == "cdc":
        raise NotImplementedError("no query for changes")
    query = GoldenQuery.of(Path(table), kind, options)
    asked = hudi.HudiReadOptions()
    if kind == "incremental":
        asked = asked.with_query_type(hudi.HudiQueryType.Incremental).with_start_timestamp(query.after)
        if query.up_to is not None:
            asked = asked.with_end_timestamp(query.up_to)
    if query.as_of is not None:
        asked = asked.with_as_of_timestamp(query.as_of)
    if kind == "read_optimized":
        asked = asked.with_hudi_option("hoodie.read.use.read_optimized.mode", "true")
    if query.comparisons:
        asked = asked.with_filters([(column, sign, str(value)) for column, sign, value in query.comparisons])
    opened = hudi.HudiTableBuilder.from_base_uri(table).build()
    batches = [pa.record_batch(batch) for batch in opened.read(asked)]
    rows = pa.Table.from_batches(batches, None if batches else pa.schema(opened.get_schema_with_meta_fields()))
    return query.passing(rows)
