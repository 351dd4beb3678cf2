"""Partition columns as an Iceberg partition spec, so that clients prune files by partition.

Files whose rows may have other values than the partition path belong to the unpartitioned spec.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform

from hudi_bridge.engines.stored_base_file import in_path_and_file
from hudi_bridge.splits.split import RealtimeFileSplit

WITHOUT_PARTITION = PartitionSpec(spec_id=0)
_TYPES = (pa.bool_(), pa.int32(), pa.int64(), pa.string(), pa.date32())


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """The partition columns of a snapshot; none if the Iceberg table is unpartitioned.

    Without ``nulls``, files whose rows have no value in a partition column have no partition.
    """

    names: tuple[str, ...]
    nulls: bool = True

    def spec(self, schema: Schema) -> PartitionSpec:
        """The spec of files that have a partition."""
        if not self.names:
            return WITHOUT_PARTITION
        fields = (
            PartitionField(
                schema.find_field(name).field_id, PARTITION_FIELD_ID_START + position, IdentityTransform(), name
            )
            for position, name in enumerate(self.names)
        )
        return PartitionSpec(*fields, spec_id=1)

    def of_file(self, split: RealtimeFileSplit, stored: pa.Schema, footer: pq.FileMetaData) -> tuple[Any, ...] | None:
        """The partition of a slice's file, in Iceberg's form; None if it has none. ``stored`` is the file's schema."""
        values = dict(split.partition_values)
        if not self.names or not values.keys() >= set(self.names):
            return None
        if not self.nulls and not all(values[name].is_valid for name in self.names):
            return None
        is_in_path_and_file = in_path_and_file(split, stored, footer)
        if not all(is_in_path_and_file.get(name, False) for name in self.names):
            return None
        return tuple(_iceberg_value(values[name]) for name in self.names)


def partitioning_of(partition_fields: tuple[str, ...], schema: pa.Schema) -> Partitioning:
    """The partition columns of a table; none unless all are columns of types that partition paths can hold exactly."""
    is_supported = all(name in schema.names and schema.field(name).type in _TYPES for name in partition_fields)
    return Partitioning(names=partition_fields if is_supported else ())


def _iceberg_value(value: "pa.Scalar[Any]") -> Any:  # noqa: ANN401 - of any type
    """The value, of a date its number of days since 1970."""
    return (value.cast(pa.int32()) if pa.types.is_date32(value.type) else value).as_py()
