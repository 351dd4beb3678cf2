"""What Presto's own connectors show of a table: Hive's and Hudi's, which both read with Hudi 0.14.

Seen on Presto 0.287. A table is registered in a Hive metastore, and the input formats of the table and of each
partition decide whether log files are read.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from hudi_bridge.config import TableType
from hudi_bridge.connectors.trino.sql_types import types_within
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.table import HudiTable

NEWEST_VERSION = 6
"""The newest table version that Hudi 0.14 knows."""
_FRESHNESS = "the newest commit"
_REALTIME = (
    "the snapshot where partitions have the input format HoodieParquetRealtimeInputFormat, else base files alone"
)
_BASE_FILES = "the snapshot, where the table and its partitions have the input format HoodieParquetInputFormat"


def connector_routes(table: HudiTable, splits: Sequence[RealtimeFileSplit]) -> list[Mapping[str, Any]]:
    """The routes of the two connectors, with whether they show the snapshot of the table and why."""
    refusal = _refusal(table)
    shown = _REALTIME if table.config.table_type is TableType.MERGE_ON_READ else _BASE_FILES
    wrong = _wrong_order(splits)
    return [
        _route("hive", "hive-hadoop2", fits=refusal is None, reason=refusal or shown),
        _route("hudi", "hudi", fits=refusal is None and wrong is None, reason=refusal or wrong or shown),
    ]


def _route(name: str, connector: str, *, fits: bool, reason: str) -> Mapping[str, Any]:
    return {
        "route": f"{name} connector",
        "command": f"none: a catalog with connector.name={connector}",
        "fits": fits,
        "reason": reason,
        "freshness": _FRESHNESS,
        "other_types": [],
    }


def _refusal(table: HudiTable) -> str | None:
    """Why queries fail; None if they do not."""
    version = table.config.table_version
    if version > NEWEST_VERSION:
        return f"an error: it reads table versions up to {NEWEST_VERSION}, this is version {version}"
    if table.config.table_type is not TableType.MERGE_ON_READ:
        return None
    if not table.config.populates_meta_fields:
        return "an error: it merges no log files of a table without meta columns"
    names = [field.name for field in table.schema if _has_dates(field.type)]
    if names:
        return f"an error where dates and timestamps of a merge-on-read table are read: {', '.join(names)}"
    return None


def _wrong_order(splits: Iterable[RealtimeFileSplit]) -> str | None:
    """Why the rows can be wrong in the Hudi connector, which does not sort log files (prestodb/presto#18583)."""
    several = sum(len(split.log_paths) > 1 for split in splits)
    if not several:
        return None
    return f"rows can be wrong: it merges log files newest first, and {several} file slices have several"


def _has_dates(kind: Any) -> bool:  # noqa: ANN401 - a type of Arrow
    return any(pa.types.is_date(one) or pa.types.is_timestamp(one) for one in types_within(kind))
