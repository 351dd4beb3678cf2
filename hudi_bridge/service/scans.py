"""The JSON of planned scans: the requests that clients send, and the tasks that they get for some file slices.

Source: ``PlanTableScanRequest``, ``FetchScanTasksRequest``, ``ScanTasks``, ``FileScanTask`` and ``ContentFile`` of the
Iceberg REST catalog specification; the Iceberg specification, "JSON single-value serialization".
"""

import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NoReturn

from pyiceberg.conversions import from_bytes
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DateType, IcebergType, TimestampType, TimestamptzType, TimeType

from hudi_bridge.connectors.iceberg.columns import WITHOUT_PARTITION
from hudi_bridge.connectors.iceberg.slice_files import DataFile, SliceFiles
from hudi_bridge.errors import QueryError
from hudi_bridge.service.scan_filters import require_moderate

MOST_BYTES = 1 << 20
"""The longest body of a request that is read."""
_MOST_FIELDS = 10_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORMAT = "parquet"


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
        document = json.loads(body, parse_constant=_refuse_constant, parse_float=_finite_number)
        # Half a surrogate pair, which only an escape can have, is no text.
        json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise QueryError("body of the request", "no JSON that can be read", "a JSON object") from error
    if not isinstance(document, dict):
        raise QueryError("body of the request", "JSON of another kind", "a JSON object")
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite_number(text: str) -> float:
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


def scan_tasks(
    slices: Iterable[SliceFiles],
    schema: Schema,
    spec: PartitionSpec,
    residual: Any,  # noqa: ANN401 - JSON
    with_statistics: Collection[int],
) -> dict[str, Any]:
    """The tasks of some slices. ``residual`` is the filter that rows must still pass, as JSON; None for none.

    ``with_statistics`` are the ids of the columns whose counts and bounds clients get.
    """
    tasks, deletes = [], list[dict[str, Any]]()
    for files in slices:
        # All deletes of a slice are of its base file, which comes first.
        references = [len(deletes) + number for number in range(len(files.deletes))]
        deletes += (_content_file(file, schema, spec, "position-deletes") for file in files.deletes)
        for number, file in enumerate(files.data):
            data = _content_file(file, schema, spec, "data") | _statistics(file, schema, with_statistics)
            task: dict[str, Any] = {"data-file": data}
            if references and not number:
                task["delete-file-references"] = references
            if residual is not None:
                task["residual-filter"] = residual
            tasks.append(task)
    return {"delete-files": deletes, "file-scan-tasks": tasks} if deletes else {"file-scan-tasks": tasks}


def _content_file(file: DataFile, schema: Schema, spec: PartitionSpec, content: str) -> dict[str, Any]:
    own = WITHOUT_PARTITION if file.partition is None else spec
    kinds = (schema.find_type(field.source_id) for field in own.fields)
    document = {
        "content": content,
        "file-path": file.location,
        "file-format": _FORMAT,
        "spec-id": own.spec_id,
        "partition": [_json_value(kind, value) for kind, value in zip(kinds, file.partition or (), strict=True)],
        "file-size-in-bytes": file.size_bytes,
        "record-count": file.rows,
    }
    document |= {"split-offsets": list(file.split_offsets)} if file.split_offsets else {}
    vector = file.vector
    if vector is None:
        return document
    return document | {
        "file-format": "puffin",
        "referenced-data-file": vector.of,
        "content-offset": vector.offset,
        "content-size-in-bytes": vector.size,
    }


def _statistics(file: DataFile, schema: Schema, ids: Collection[int]) -> dict[str, Any]:
    if not ids:
        return {}
    bounds = (
        ("lower-bounds", file.lower_bounds),
        ("upper-bounds", file.upper_bounds),
    )
    return {
        "value-counts": _by_id({id_: count for id_, count in file.value_counts.items() if id_ in ids}),
        "null-value-counts": _by_id({id_: count for id_, count in file.null_counts.items() if id_ in ids}),
        "nan-value-counts": _by_id({id_: count for id_, count in file.nan_counts.items() if id_ in ids}),
        "column-sizes": _by_id({id_: size for id_, size in file.column_sizes.items() if id_ in ids}),
    } | {
        name: _by_id({id_: _json_bound(schema.find_type(id_), bound) for id_, bound in values.items() if id_ in ids})
        for name, values in bounds
    }


def _by_id(values: Mapping[int, Any]) -> dict[str, list[Any]]:
    return {"keys": list(values), "values": list(values.values())}


def _json_bound(kind: IcebergType, bound: bytes) -> Any:  # noqa: ANN401 - JSON
    return _json_value(kind, from_bytes(kind, bound))  # type: ignore[arg-type]  # bounds are of primitive columns


def _json_value(kind: IcebergType, value: Any) -> Any:  # noqa: ANN401 - JSON
    match kind:
        case DateType() if value is not None:
            return (_EPOCH + timedelta(days=value)).date().isoformat()
        case TimestampType():
            return (_EPOCH + timedelta(microseconds=value)).replace(tzinfo=None).isoformat()
        case TimestamptzType():
            return (_EPOCH + timedelta(microseconds=value)).isoformat()
        case TimeType():
            return (_EPOCH + timedelta(microseconds=value)).time().isoformat()
        case BinaryType():
            return value.hex().upper()
    return str(value) if isinstance(value, Decimal) else _infinity_as_text(value)


def _infinity_as_text(value: Any) -> Any:  # noqa: ANN401 - JSON
    """JSON has no infinity: Iceberg writes it as text."""
    return str(value) if isinstance(value, float) and math.isinf(value) else value
