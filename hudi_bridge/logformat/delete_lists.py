"""The Avro payload of a delete block, a ``HoodieDeleteRecordList`` -> columns of keys and ordering values.

The ordering value of a delete is a union of wrapper records, one for each kind, or an array of such values.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.logformat.avro_columns import decode_avro_records
from hudi_bridge.logformat.layout import OrderingKind
from hudi_bridge.logformat.ordering_values import DEFAULT, OrderingGroup
from hudi_bridge.schema.avro import parse_avro_schema

Array: TypeAlias = "pa.Array[Any]"
_Positions: TypeAlias = npt.NDArray[np.int64]

# The scale that DecimalWrapper fixes; its precision of 30 is not enforced by writers.
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 76, "scale": 15}

# One wrapped value each. Other logical types are left out: values are taken as stored and typed by their kind.
_WRAPPERS: dict[OrderingKind, tuple[str, object]] = {
    OrderingKind.BOOLEAN: ("BooleanWrapper", "boolean"),
    OrderingKind.INT: ("IntWrapper", "int"),
    OrderingKind.LONG: ("LongWrapper", "long"),
    OrderingKind.FLOAT: ("FloatWrapper", "float"),
    OrderingKind.DOUBLE: ("DoubleWrapper", "double"),
    OrderingKind.BYTES: ("BytesWrapper", "bytes"),
    OrderingKind.STRING: ("StringWrapper", "string"),
    OrderingKind.DATE: ("DateWrapper", "int"),
    OrderingKind.DECIMAL: ("DecimalWrapper", _DECIMAL),
    OrderingKind.TIME_MICROS: ("TimeMicrosWrapper", "long"),
    OrderingKind.TIMESTAMP_MICROS: ("TimestampMicrosWrapper", "long"),
}
_KINDS = tuple(_WRAPPERS)
_KINDS_IN_ARRAY = (*_KINDS, OrderingKind.LOCAL_DATE)


def _record(name: str, **fields: object) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": value} for key, value in fields.items()]}


def _list_schema() -> str:
    wrappers = [_record(name, value=avro) for name, avro in _WRAPPERS.values()]
    in_array = ["null", *(name for name, _ in _WRAPPERS.values()), _record("LocalDateWrapper", value="int")]
    array = _record("ArrayWrapper", wrappedValues=["null", {"type": "array", "items": in_array}])
    optional_text = ["null", "string"]
    delete = _record(
        "HoodieDeleteRecord",
        recordKey=optional_text,
        partitionPath=optional_text,
        orderingVal=["null", *wrappers, array],
    )
    return json.dumps(_record("HoodieDeleteRecordList", deleteRecordList={"type": "array", "items": delete}))


_LIST = parse_avro_schema(_list_schema(), "HoodieDeleteRecordList")


class DeleteList(NamedTuple):
    """One row for each delete; ``field_counts`` has its number of ordering values, or ``DEFAULT``."""

    record_keys: pa.StringArray
    partition_paths: pa.StringArray
    field_counts: npt.NDArray[np.int32]
    groups: tuple[OrderingGroup, ...]


def decode_delete_list(payload: pa.Buffer, path: str, offset: int) -> DeleteList:
    """The deletes of a payload; ``path`` and ``offset`` are the place of its block, for errors.

    Raises:
        CorruptLogFileError: the payload is not exactly one list of deletes.
    """
    starts, ends = np.zeros(1, np.int64), np.full(1, payload.size, np.int64)
    whole: Any = decode_avro_records(payload, starts, ends, _LIST, None, path, offset).column(0)
    keys, paths, ordering = whole.flatten().flatten()
    field_counts = np.full(len(keys), DEFAULT, np.int32)
    groups = []
    *wrapped, in_arrays = ordering.flatten()
    for kind, positions, values in _by_kind(_KINDS, wrapped):
        if kind is OrderingKind.INT:
            compares = np.asarray(values) != 0
            positions, values = positions[compares], values.filter(compares)  # noqa: PLW2901 - less the defaults
        field_counts[positions] = 1
        groups.append(OrderingGroup(field_index=0, kind=kind, positions=positions, values=values))
    lists = in_arrays.field(0)
    at = np.flatnonzero(lists.is_valid())
    lists = lists.drop_null()
    field_counts[at] = lists.value_lengths()
    groups += _array_groups(at, lists)
    return DeleteList(keys, paths, field_counts, tuple(groups))


def _array_groups(at: _Positions, lists: Any) -> Iterator[OrderingGroup]:  # noqa: ANN401 - a ListArray
    """The values of arrays, which stand at some positions, by their place in the array and by kind."""
    owners = np.asarray(pc.list_parent_indices(lists))
    values = lists.flatten()
    firsts = np.cumsum(lists.value_lengths()) - np.asarray(lists.value_lengths())
    places = np.arange(len(values)) - firsts[owners]
    nulls = np.flatnonzero(values.is_null())
    kinds = [*_by_kind(_KINDS_IN_ARRAY, values.flatten()), (OrderingKind.NULL, nulls, pa.nulls(nulls.size))]
    for kind, rows, found in kinds:
        by_place = np.argsort(places[rows], kind="stable")
        numbers, edges = np.unique(places[rows[by_place]], return_index=True)
        for place, here in zip(numbers.tolist(), np.split(by_place, edges[1:]), strict=False):
            yield OrderingGroup(field_index=place, kind=kind, positions=at[owners[rows[here]]], values=found.take(here))


def _by_kind(kinds: tuple[OrderingKind, ...], wrapped: list[Any]) -> Iterator[tuple[OrderingKind, _Positions, Array]]:
    """Of each kind that occurs, the positions and the values that its wrapper records hold."""
    for kind, records in zip(kinds, wrapped, strict=True):
        positions = np.flatnonzero(records.is_valid())
        if positions.size:
            yield kind, positions, records.drop_null().field(0)
