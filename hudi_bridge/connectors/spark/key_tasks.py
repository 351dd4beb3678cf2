"""What the steps of a key look-up do on executors: record keys in Arrow batches -> candidates, and what holds them.

A candidate is a record key with the place of a file slice in the plan.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.connectors.spark.errors import noting_facts
from hudi_bridge.connectors.spark.key_ranges import KeyRangeTree
from hudi_bridge.connectors.spark.plan import load_split
from hudi_bridge.dispatch import reader_for
from hudi_bridge.indexes.footer_index import parse_footer_index
from hudi_bridge.readers.base_file import BaseFile
from hudi_bridge.readers.log_record_scanner import LogScan, log_memory_bytes
from hudi_bridge.readers.record_keys import KEY_COLUMN, key_columns, record_keys
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage import Storage

ANYWHERE = ""
"""The partition path that stands for all partitions, where a key may be in any."""

RANGES = "place int, least string, greatest string"
CANDIDATES = "record_key string, place int"
LOG_KEYS = "found_key string, partition_path string, place int"
FOUND = "found_key string, partition_path string, file_id string, instant string"

_KEYS_PER_BATCH = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """The file slices of a plan, each pickled without the context that they share."""

    context: ReadContext
    pickled: tuple[bytes, ...]

    def split(self, place: int) -> RealtimeFileSplit:
        """The slice at a place."""
        found = load_split(self.pickled[place], (self.context,))
        assert isinstance(found, RealtimeFileSplit)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """The key ranges of base files by partition path; ``unknown`` are the slices whose base files tell none."""

    trees: Mapping[str, KeyRangeTree]
    unknown: Mapping[str, tuple[int, ...]]

    def places(self, record_key: str, partition_path: str) -> Iterator[int]:
        """The slices whose base file may hold a key."""
        yield from self.unknown.get(partition_path, ())
        if partition_path in self.trees:
            yield from self.trees[partition_path].places(record_key)


def key_ranges(slices: Slices, places: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """The key range of each base file, nulls for one without."""
    storage = Storage.open(slices.context.table_path)
    with noting_facts():
        for place in places:
            split = slices.split(place)
            key_range = None
            # Without meta columns, a footer need not spell keys as they are built from the key fields.
            if slices.context.populates_meta_fields and split.base_path is not None:
                with BaseFile.open(storage, split, split.base_path, use_threads=False) as base:
                    key_range = parse_footer_index(base.arrow_schema.metadata or {}, base.path).key_range
            least, greatest = key_range or (None, None)
            yield _batch(place=pa.array([place], pa.int32()), least=_texts([least]), greatest=_texts([greatest]))


def log_keys(slices: Slices, places: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """The keys of the records that the logs of slices insert or update."""
    storage = Storage.open(slices.context.table_path)
    rule = slices.context.merge_rule
    assert rule is not None
    with noting_facts():
        for place in places:
            split = slices.split(place)
            scan = LogScan(storage, split, rule, (), log_memory_bytes(split.context, os.cpu_count() or 1))
            parts = [scan.records()] if scan.parts == 1 else map(scan.records_of_part, range(scan.parts))
            for records in parts:
                keys = records.keys.slice(0, records.rows.num_rows)
                yield _batch(
                    found_key=keys.cast(pa.string()),
                    partition_path=pa.repeat(split.partition_path, len(keys)),
                    place=pa.repeat(pa.scalar(place, pa.int32()), len(keys)),
                )


def base_candidates(ranges: Ranges, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The slices whose base files may hold keys; the second column, if there is one, is the partition path of each."""
    for batch in batches:
        keys = batch.column(0).to_pylist()
        partitions = batch.column(1).to_pylist() if batch.num_columns > 1 else [ANYWHERE] * len(keys)
        found_keys, found_places = [], []
        for key, partition_path in zip(keys, partitions, strict=True):
            if key is not None and partition_path is not None:
                places = list(ranges.places(key, partition_path))
                found_keys += [key] * len(places)
                found_places += places
        yield _batch(record_key=_texts(found_keys), place=pa.array(found_places, pa.int32()))


def verified(slices: Slices, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of candidates in the order of their places, those whose slice holds the record."""
    storage = Storage.open(slices.context.table_path)
    pairs: Iterator[tuple[Any, Any]] = (
        pair for batch in batches for pair in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
    )
    with noting_facts():
        for place, group in groupby(pairs, key=itemgetter(1)):
            split = slices.split(place)
            keys = pa.concat_arrays(list(_held(storage, split, [key for key, _ in group])) or [_texts([])])
            yield _batch(
                found_key=keys,
                partition_path=pa.repeat(split.partition_path, len(keys)),
                file_id=pa.repeat(split.file_id, len(keys)),
                instant=pa.repeat(split.base_instant_time, len(keys)),
            )


def _held(storage: Storage, split: RealtimeFileSplit, keys: Sequence[str]) -> "Iterator[pa.Array[pa.StringScalar]]":
    """Those of some keys that a slice holds a row of."""
    context = split.context
    if split.base_path is not None and context.populates_meta_fields:
        with BaseFile.open(storage, split, split.base_path, use_threads=False) as base:
            in_base = parse_footer_index(base.arrow_schema.metadata or {}, base.path).possible(keys)
        if not in_base:
            if not split.log_paths:
                return
            # The rows of all keys are in the logs, if anywhere.
            split = replace(split, base_path=None, base_size_bytes=0)
    wanted = pa.array(keys, pa.string())
    row_filter = pc.field(KEY_COLUMN).isin(wanted) if context.populates_meta_fields else None
    request = RowRequest.of(context.schema, key_columns(context), row_filter)
    reader = reader_for(storage, split, request, use_threads=False, at_once=os.cpu_count() or 1)
    for batch in reader.batches():
        found: Any = record_keys(batch, context).cast(pa.string())
        yield pc.unique(found.filter(pc.is_in(found, value_set=wanted)))


def _texts(values: Sequence[str | None]) -> "pa.Array[pa.StringScalar]":
    return pa.array(values, pa.string())


def _batch(**columns: "pa.Array[pa.Scalar]") -> pa.RecordBatch:  # type: ignore[type-arg]
    return pa.record_batch(list(columns.values()), names=list(columns))
