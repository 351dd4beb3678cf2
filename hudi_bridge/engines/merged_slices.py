"""Merges the logs of a snapshot with their base files once for each file slice, and caches the results.

An entry is used again, also after the table was refreshed, as long as the files of its slice are the same and the same
log blocks count. ``slice_identity`` and ``context_identity`` give cache keys for what an engine stores for a slice.
The keys do not cover which log blocks count, because only the log files show that. Engines store
``SliceDelta.counted_instants`` with each entry and compare it.
"""

import hashlib
import inspect
import json
import logging
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Protocol

import pyarrow as pa

from hudi_bridge.common.operations import operation
from hudi_bridge.common.threads import KeyedLocks
from hudi_bridge.engines.slice_delta import SliceDelta, slice_delta_in
from hudi_bridge.merge.arrays import Positions
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage.masking import without_secrets
from hudi_bridge.storage.storage import Storage

_LOG = logging.getLogger(__name__)
_VERSION = 1
"""Raise it when slices with the same field values are read differently than before."""

NOT_IDENTIFYING: Final = frozenset(
    (
        # These decide which log blocks count, and nothing else.
        "latest_instant",
        "committed_instants",
        "pending_instants",
        "timeline_start",
        # This decides how rows are merged, but not the result.
        "log_memory_bytes",
        # These decide how the files are reached.
        "storage_options",
        "needs_keys",
        "needs_filesystem",
        # These decide which slices are read.
        "fields_spell_keys",
        "skips_slices",
        "bucket_count",
        "bucket_fields",
        # With them, there are no merged slices.
        "completion_times",
    )
)
"""The fields of a context that do not change the merged rows of a slice, apart from the log blocks that count."""

_JSON_SCALARS = (bool, int, str, type(None))


def context_identity(context: ReadContext, *settings: object) -> str:
    """A hash of the context that all slices of a plan share, and of the engine's own settings, such as its format."""
    context_fields = _fields_of(context, leave_out=NOT_IDENTIFYING)
    # Tokens in URIs are renewed from time to time, so they must not change the identity.
    context_fields["table_path"] = without_secrets(context.table_path)
    return identity(_VERSION, context_fields, *settings)


def slice_identity(split: RealtimeFileSplit, context_hash: str) -> str:
    """A hash of a file slice and its ``context_identity``.

    A result of the slice is valid as long as the hash is the same and the same log blocks count.
    """
    return identity(context_hash, _fields_of(split, leave_out=frozenset(("context",))))


def identity(*values: object) -> str:
    """A hash of values: scalars, and mappings, sequences, sets and dataclasses of them.

    Raises:
        TypeError: the type of a value is not supported.
    """
    text = json.dumps([_canonical(value) for value in values], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def payload_identity(payload: RecordPayload) -> str:
    """A text that changes with the payload's class, its attributes and the source of its module."""
    kind = type(payload)
    module = inspect.getmodule(kind)
    try:
        text = inspect.getsource(kind if module is None else module)
    except (OSError, TypeError):
        # A class that was defined at a prompt has no source.
        text = ""
    content = hashlib.sha256(text.encode("utf-8", "surrogatepass") + pickle.dumps(payload))
    return f"{kind.__module__}.{kind.__qualname__} {content.hexdigest()}"


def _canonical(value: object) -> Any:  # noqa: ANN401 - JSON
    """A JSON value that differs for different values."""
    if isinstance(value, _JSON_SCALARS) and not isinstance(value, Enum):
        return value
    for kind, canonical in _CANONICAL:
        if isinstance(value, kind):
            return canonical(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {"fields": _fields_of(value)}
    raise TypeError(f"{type(value).__name__} has no identity")


def _text(value: object) -> Any:  # noqa: ANN401
    return {type(value).__name__: str(value)}


def _native(value: Any) -> Any:  # noqa: ANN401 - a scalar of any type
    try:
        return value.as_py()
    except OverflowError:
        # Python has no dates before the year 1 or after 9999.
        return value.value


def _fields_of(value: Any, leave_out: frozenset[str] = frozenset()) -> dict[str, Any]:  # noqa: ANN401 - a dataclass
    return {
        field.name: _canonical(getattr(value, field.name)) for field in fields(value) if field.name not in leave_out
    }


def _sorted(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=lambda value: json.dumps(value, sort_keys=True))


_CANONICAL: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (Enum, lambda value: _canonical(value.value)),
    (RecordPayload, lambda value: {"payload": payload_identity(value)}),
    ((float, Decimal, date, time, timedelta, pa.DataType), _text),
    (bytes, lambda value: {"bytes": value.hex()}),
    (pa.Schema, lambda value: {"schema": value.serialize().to_pybytes().hex()}),
    (pa.Scalar, lambda value: {"type": str(value.type), "value": _canonical(_native(value))}),
    (Mapping, lambda value: {"mapping": _sorted([_canonical(key), _canonical(item)] for key, item in value.items())}),
    (AbstractSet, lambda value: {"set": _sorted(map(_canonical, value))}),
    ((tuple, list), lambda value: list(map(_canonical, value))),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSlice:
    """The merge of one slice.

    Attributes:
        counted: whether the blocks of each instant counted.
        deleted_positions: as in ``SliceDelta``.
        rows: the rows that replace deleted ones, and new rows, in some of the columns.
    """

    counted: Mapping[str, bool]
    deleted_positions: Positions
    rows: pa.Table

    @property
    def size_bytes(self) -> int:
        """The memory that it takes, in bytes."""
        return self.rows.nbytes + self.deleted_positions.nbytes


class MergeStore(Protocol):
    """Stores merges of slices by key; safe to use from several threads."""

    @property
    def max_bytes(self) -> int:
        """The size of the largest merge that can be stored, in bytes."""

    @property
    def keeps_all_columns(self) -> bool:
        """Whether merges are stored with all columns of the table."""

    def find(self, key: str) -> Iterator[MergedSlice]:
        """Yields the stored merges of a slice, newest first."""

    def keep(self, key: str, merged: MergedSlice) -> MergedSlice:
        """Stores a merge, evicts others if there is no room, and returns the merge as stored."""


class MemoryStore:
    """Stores merges in memory, the newest one for each slice."""

    keeps_all_columns = False

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, MergedSlice] = OrderedDict()

    def find(self, key: str) -> Iterator[MergedSlice]:
        """Yields the merge of a slice, if it is stored."""
        with self._lock:
            merged = self._cache.get(key)
            if merged is not None:
                self._cache.move_to_end(key)
        if merged is not None:
            yield merged

    def keep(self, key: str, merged: MergedSlice) -> MergedSlice:
        """Stores a merge and evicts the least recently used ones to make room."""
        with self._lock:
            self._cache.pop(key, None)
            self._cache[key] = merged
            size = sum(stored.size_bytes for stored in self._cache.values())
            while size > self.max_bytes:
                _, oldest = self._cache.popitem(last=False)
                size -= oldest.size_bytes
        return merged


@dataclass(kw_only=True)
class MergedSlices:
    """The merges of the slices of one snapshot; safe to use from several threads.

    ``at_once`` slices are read at the same time and share the memory for logs; if it is 1, a slice is read by several
    threads.
    """

    storage: Storage
    context: ReadContext
    store: MergeStore
    at_once: int
    _identity: str = field(init=False)
    _keys: dict[Hashable, str] = field(init=False, default_factory=dict)
    _too_large: set[str] = field(init=False, default_factory=set)
    _merging: KeyedLocks = field(init=False, default_factory=KeyedLocks)

    def __post_init__(self) -> None:
        self._identity = context_identity(self.context)

    def deleted_positions(self, split: RealtimeFileSplit, columns: Sequence[str]) -> Positions:
        """Ascending positions in the base file of the rows that the logs delete or replace.

        If the slice has to be merged for this, its rows are cached with the ``columns``.

        Raises:
            HudiReadError: a file of the slice cannot be read, or records cannot be merged.
        """
        if (merged := self._merged(split, columns)) is not None:
            return merged.deleted_positions
        with self._delta(split, ()) as delta:
            return delta.deleted_positions

    def rows(self, split: RealtimeFileSplit, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields the rows that replace deleted ones, and the new rows, with some columns.

        Raises:
            HudiReadError: a file of the slice cannot be read, or records cannot be merged.
        """
        if (merged := self._merged(split, columns)) is not None:
            yield from merged.rows.select(list(columns)).to_batches()
            return
        with self._delta(split, columns) as delta:
            yield from delta.rows()

    def _merged(self, split: RealtimeFileSplit, columns: Sequence[str]) -> MergedSlice | None:
        """The merge of a slice with at least these columns; None if it is too large to be stored."""
        key = self._key(split)
        with self._merging.locked(key):
            cached = next((candidate for candidate in self.store.find(key) if self._holds(candidate)), None)
            if cached is not None and set(cached.rows.schema.names).issuperset(columns):
                return cached
            if key in self._too_large:
                return None
            # A second request for other columns makes further ones likely, so all columns are merged.
            needs_all = self.store.keeps_all_columns or cached is not None
            merged = self._merge(split, self.context.schema.names if needs_all else columns)
            if merged is None:
                self._too_large.add(key)
                return None
            return self.store.keep(key, merged)

    def _merge(self, split: RealtimeFileSplit, columns: Sequence[str]) -> MergedSlice | None:
        merging = operation(
            _LOG, "merge", logging.DEBUG, table=self.storage.shown_path, slice=f"{split.partition_path}/{split.file_id}"
        )
        with merging as logged, self._delta(split, columns) as delta:
            rows = _rows_within(delta, self.store.max_bytes)
            if rows is None:
                return None
            logged.note(rows=rows.num_rows)
            merged = MergedSlice(counted=delta.counted_instants, deleted_positions=delta.deleted_positions, rows=rows)
        return merged if merged.size_bytes <= self.store.max_bytes else None

    def _delta(self, split: RealtimeFileSplit, columns: Sequence[str]) -> SliceDelta:
        return slice_delta_in(self.storage, split, columns, use_threads=self.at_once == 1, at_once=self.at_once)

    def _holds(self, merged: MergedSlice) -> bool:
        return all(self.context.counts(instant) == counted for instant, counted in merged.counted.items())

    def _key(self, split: RealtimeFileSplit) -> str:
        # All of a split except its context, whose identity is slow to compute.
        content = (*split.partition_values, split.file_id, split.base_path, split.base_size_bytes, *split.log_files)
        slice_key = (split.partition_path, split.source_path, split.source_size_bytes, content)
        if slice_key not in self._keys:
            self._keys[slice_key] = slice_identity(split, self._identity)
        return self._keys[slice_key]


def _rows_within(delta: SliceDelta, max_bytes: int) -> pa.Table | None:
    """The rows as a table; None if they are larger than ``max_bytes``."""
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in delta.rows():
        batches.append(batch)
        size += batch.nbytes
        if size > max_bytes:
            return None
    return pa.Table.from_batches(batches, delta.schema).combine_chunks()
