"""Turns the files of file slices into the scan tasks of a plan, as JSON.

Source: ``ScanTasks``, ``FileScanTask`` and ``ContentFile`` of the Iceberg REST catalog specification; the Iceberg
specification, "JSON single-value serialization".
"""

import math
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DateType, IcebergType, TimestampType, TimestamptzType, TimeType

from hudi_bridge.connectors.iceberg.columns import WITHOUT_PARTITION
from hudi_bridge.connectors.iceberg.slice_files import DataFile, SliceFiles

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORMAT = "parquet"


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
    return str(value) if isinstance(value, Decimal) else _finite(value)


def _finite(value: Any) -> Any:  # noqa: ANN401 - JSON
    """JSON has no infinity: Iceberg writes it as text."""
    return str(value) if isinstance(value, float) and math.isinf(value) else value
