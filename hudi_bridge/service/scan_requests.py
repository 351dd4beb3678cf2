"""Requests to plan a scan, as clients send them.

Source: ``PlanTableScanRequest`` and ``FetchScanTasksRequest`` of the Iceberg REST catalog specification.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from hudi_bridge.errors import QueryError
from hudi_bridge.service.scan_filters import require_moderate

MOST_BYTES = 1 << 20
"""The longest body of a request that is read."""
_MOST_FIELDS = 10_000


class IncrementalScanError(Exception):
    """Raised for scans between two snapshots, which the catalog does not plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """A scan of a snapshot, by default the newest; ``filter`` is JSON, None for all rows.

    ``stats_fields`` are the columns whose statistics the client wants.
    """

    snapshot_id: int | None
    filter: Any
    case_sensitive: bool
    use_snapshot_schema: bool
    stats_fields: tuple[str, ...]


def parse_scan_request(body: bytes) -> ScanRequest:
    """The request of a body.

    Raises:
        IncrementalScanError: a scan between two snapshots.
        QueryError: the body is not a request, or its filter is too large.
    """
    document = _object(body)
    snapshot_id, start, end = (
        _typed(document, name, int, None) for name in ("snapshot-id", "start-snapshot-id", "end-snapshot-id")
    )
    if start is not None or end is not None:
        if snapshot_id is not None or end is None:
            raise QueryError("scan", "ids that do not go together", "snapshot-id alone, or start- and end-snapshot-id")
        raise IncrementalScanError(
            "scans from start-snapshot-id to end-snapshot-id are not planned, only scans of one snapshot"
        )
    _names(document, "select")
    require_moderate(document.get("filter"))
    return ScanRequest(
        snapshot_id=snapshot_id,
        filter=_typed(document, "filter", (dict, bool), None),
        case_sensitive=_typed(document, "case-sensitive", bool, True),  # noqa: FBT003 - a default
        use_snapshot_schema=_typed(document, "use-snapshot-schema", bool, False),  # noqa: FBT003 - a default
        stats_fields=_names(document, "stats-fields"),
    )


def parse_task_request(body: bytes) -> str:
    """The plan task that a body asks for.

    Raises:
        QueryError: the body is not a request.
    """
    task = _typed(_object(body), "plan-task", str, None)
    if task is None:
        raise QueryError("plan-task", "nothing", "a plan task")
    return str(task)


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(body, parse_constant=_refuse_constant, parse_float=_finite)
        # Half a surrogate pair, which only an escape can have, is no text.
        json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise QueryError("body of the request", "no JSON that can be read", "a JSON object") from error
    if not isinstance(document, dict):
        raise QueryError("body of the request", "JSON of another kind", "a JSON object")
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large")
    return number


def _typed(document: Mapping[str, Any], name: str, kind: Any, default: Any) -> Any:  # noqa: ANN401 - of any type
    value = document.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise QueryError(name, "a value of another type", "a value as the specification has it")
    return value


def _names(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    names = _typed(document, name, list, [])
    if len(names) > _MOST_FIELDS or not all(isinstance(name, str) for name in names):
        raise QueryError(name, "other things than names of columns, or too many", "a list of names")
    return tuple(names)
