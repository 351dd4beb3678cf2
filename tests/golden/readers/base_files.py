"""PyArrow on the newest base file of each file group: what a reader says that knows nothing of log files and commits.

It is the baseline: its rows are those before the last compaction, without a sign of it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.support.golden_cases import GoldenQuery

READER = f"Base files alone (PyArrow {pa.__version__})"


def read(table: str, kind: str, options: Mapping[str, Any]) -> pa.Table:
    if kind == "cdc":
        raise NotImplementedError("no query for changes")
    query = GoldenQuery.of(Path(table), kind, options)
    newest: dict[tuple[Path, str], tuple[str, Path]] = {}
    for path in Path(table).rglob("*.parquet"):
        if ".hoodie" in path.relative_to(table).parts:
            continue
        # FILE-ID_WRITE-TOKEN_INSTANT.parquet
        file_id, _, instant = path.stem.split("_", 2)
        if query.as_of is None or instant <= query.as_of:
            newest[path.parent, file_id] = max(newest.get((path.parent, file_id), ("", path)), (instant, path))
    if not newest:
        raise FileNotFoundError("no base files")
    files = [pq.ParquetFile(path).read() for _, path in sorted(newest.values())]
    rows = pa.concat_tables(files, promote_options="permissive")
    if kind == "incremental":
        rows = rows.filter(pc.field("_hoodie_commit_time") > query.after)
        if query.up_to is not None:
            rows = rows.filter(pc.field("_hoodie_commit_time") <= query.up_to)
    return query.passing(rows)
