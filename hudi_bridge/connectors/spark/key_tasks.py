"""The steps of a key look-up that run on executors.

A candidate is a record key and the place (index) of a file slice in the plan.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

from hudi_bridge.connectors.spark.errors import noting_error_details
from hudi_bridge.connectors.spark.key_ranges import KeyRangeTree
from hudi_bridge.connectors.spark.plan import load_split
from hudi_bridge.engines import base_key_range, held_keys, log_record_keys
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit

ANYWHERE = ""
"""Stands for all partitions, where keys are given without partition paths."""

RANGES = "place int, least string, greatest string"
CANDIDATES = "record_key string, place int"
LOG_KEYS = "found_key string, partition_path string, place int"
FOUND = "found_key string, partition_path string, file_id string, instant string"

_KEYS_PER_BATCH = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """The file slices of a plan, each pickled without their common context."""

    context: ReadContext
    pickled: tuple[bytes, ...]

    def split(self, place: int) -> RealtimeFileSplit:
        """The file slice at a place."""
        found = load_split(self.pickled[place], (self.context,))
        assert isinstance(found, RealtimeFileSplit)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """The key ranges of base files by partition path; ``unknown`` are the slices whose base file stores no range."""

    trees: Mapping[str, KeyRangeTree]
    unknown: Mapping[str, tuple[int, ...]]

    def places(self, record_key: str, partition_path: str) -> Iterator[int]:
        """The places of the slices whose base file may hold a key."""
        yield from self.unknown.get(partition_path, ())
        if partition_path in self.trees:
            yield from self.trees[partition_path].places(record_key)


def key_ranges(slices: Slices, places: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """The key range of each base file; null for a base file that stores none."""
    storage = slices.context.open_storage()
    with noting_error_details():
        for place in places:
            split = slices.split(place)
            least, greatest = base_key_range(storage, split) or (None, None)
            yield _batch(place=pa.array([place], pa.int32()), least=_texts([least]), greatest=_texts([greatest]))


def log_keys(slices: Slices, places: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """The keys of the records that the logs of each slice insert or update."""
    storage = slices.context.open_storage()
    with noting_error_details():
        for place in places:
            split = slices.split(place)
            for keys in log_record_keys(storage, split, at_once=os.cpu_count() or 1):
                yield _batch(
                    found_key=keys,
                    partition_path=pa.repeat(split.partition_path, len(keys)),
                    place=pa.repeat(pa.scalar(place, pa.int32()), len(keys)),
                )


def base_candidates(ranges: Ranges, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The slices whose base file may hold each key; an optional second column holds the partition path of the key."""
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
    """The candidates whose slice holds the record; the input must be sorted by place."""
    storage = slices.context.open_storage()
    pairs: Iterator[tuple[Any, Any]] = (
        pair for batch in batches for pair in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
    )
    with noting_error_details():
        for place, group in groupby(pairs, key=itemgetter(1)):
            split = slices.split(place)
            held = held_keys(storage, split, [key for key, _ in group], at_once=os.cpu_count() or 1)
            keys = pa.concat_arrays(list(held) or [_texts([])])
            yield _batch(
                found_key=keys,
                partition_path=pa.repeat(split.partition_path, len(keys)),
                file_id=pa.repeat(split.file_id, len(keys)),
                instant=pa.repeat(split.base_instant_time, len(keys)),
            )


def _texts(values: Sequence[str | None]) -> "pa.Array[pa.StringScalar]":
    return pa.array(values, pa.string())


def _batch(**columns: "pa.Array[pa.Scalar]") -> pa.RecordBatch:  # type: ignore[type-arg]
    return pa.record_batch(list(columns.values()), names=list(columns))
