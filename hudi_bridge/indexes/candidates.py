"""The file slices that may hold some record keys: the lookup behind ``get`` and filters on the record key.

The first index that is available decides; slices that it cannot decide on are left to the next:

    record index       has the file group of each key, and so the partitions to list
    bucket index       a hash of the key gives the bucket, with which the file ids begin
    metadata table     key ranges and Bloom filters of base files, but nothing of log files, whose keys are read
    base file footers  the same, one file at a time

A remaining slice may still not hold any of the keys, so its reader compares them. No slice that holds one is ruled out.
The table's properties do not have the number of buckets: the user's options do, and are checked against keys of some
files.

Source: ``BucketIdentifier`` of Hudi.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from hudi_bridge.common.threads import REQUESTS_AT_ONCE, map_in_threads, map_while_waiting
from hudi_bridge.indexes.footer_index import (
    LookupKeys,
    cached_footer_index,
    cached_log_keys,
    read_footer_index,
    read_log_keys,
)
from hudi_bridge.schema.java_text import INT32, string_hash
from hudi_bridge.splits.committed_files import BUCKET_FOLDER
from hudi_bridge.splits.notes import PlanNotes
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.instant_files import GroupId

_INT32_MAX = 0x7FFFFFFF
_BUCKET = re.compile(r"[0-9]{8}(?=-)")
_LOCAL_READS_AT_ONCE = 4
"""Local reads hardly wait; more threads only compete for Python's lock."""
_MOST_CHECKED = 8
"""So many base files show whether the user's number of buckets is right; each costs a request."""

RECORD_INDEX = "record index"
_BUCKETS = "bucket index"
_KEY_INDEX = "key index of the metadata table"
_KEYS = "key ranges, Bloom filters and keys of logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketIndex:
    """A bucket index with a fixed number of buckets, by the hash of some record key fields."""

    buckets: int
    hash_fields: tuple[str, ...]

    def bucket_of(self, record_key: str) -> int | None:
        """The bucket of a record; None if releases of Hudi split the key in different ways."""
        values = [record_key]
        if ":" in record_key:
            parts = [part.split(":") for part in record_key.split(",")]
            if any(len(part) != 2 or part[1].startswith("__") for part in parts):  # noqa: PLR2004 - a name and a value
                return None
            fields = {name: value for name, value in parts}  # noqa: C416 - the parts are lists
            if not fields.keys() >= set(self.hash_fields):
                return None
            values = [fields[name] for name in self.hash_fields]
        hashed = 1
        for value in values:
            hashed = 31 * hashed + string_hash(value) & INT32
        return (hashed & _INT32_MAX) % self.buckets


def bucket_of_file_id(file_id: str) -> int | None:
    """The bucket that a file id begins with; None if it does not look like one of a bucket index."""
    match = _BUCKET.match(file_id)
    return None if match is None else int(match[0])


class RecordIndex(Protocol):
    """An index from record keys to file groups, over the whole table."""

    @property
    def why_not(self) -> str | None:
        """Why the index could not answer the last request."""

    def file_groups(self, record_keys: Sequence[str]) -> AbstractSet[GroupId] | None:
        """The partition path and file id of all groups with one of the keys; None if the index cannot answer."""


class KeyIndex(Protocol):
    """An index of the record keys of base files."""

    def may_hold(
        self, storage: Storage, splits: Sequence[RealtimeFileSplit], keys: LookupKeys
    ) -> Sequence[bool | None]:
        """Whether the base file of each split may hold one of the keys; None if it is not known."""

    def why_not_of(self, files: int) -> str | None:
        """Why the index, or a part of it, does not answer for this number of base files."""


def groups_of_keys(
    record_index: RecordIndex | None, record_keys: Iterable[str], notes: PlanNotes | None = None
) -> AbstractSet[GroupId] | None:
    """The file groups with a record of the keys, by the record index; None if it cannot answer,
    which ``notes`` record.
    """
    groups = None if record_index is None else record_index.file_groups(LookupKeys.of(record_keys).texts)
    if groups is None and notes is not None:
        notes.not_used(RECORD_INDEX, _why_not(record_index))
    return groups


def candidate_splits(
    storage: Storage,
    splits: Iterable[RealtimeFileSplit],
    record_keys: Iterable[str],
    key_index: KeyIndex | None = None,
    notes: PlanNotes | None = None,
) -> list[RealtimeFileSplit]:
    """The splits that may hold a record of the keys, if the record index cannot answer.

    A split comes without its base file if this holds none of the keys. Key ranges, filters and hashes that were read
    from files are cached by the storage for the next lookup. ``notes`` record what each index ruled out.
    """
    notes = notes or PlanNotes()
    keys = LookupKeys.of(record_keys)
    if not keys.texts:
        return []
    in_buckets = _in_buckets(storage, list(splits), keys, notes)
    cached_in_base = [_cached_in_base(storage, keys, split) for split in in_buckets]
    unknown = cached_in_base.count(None)
    if key_index is not None and unknown:
        cached_in_base = _ask_index(storage, in_buckets, cached_in_base, keys, key_index)
        why_not = key_index.why_not_of(unknown)
        if why_not is not None:
            notes.not_used(_KEY_INDEX, why_not)
    in_base = _read_unknown(storage, in_buckets, cached_in_base, partial(_read_in_base, storage, keys))
    of_logs = [split for split, is_candidate in zip(in_buckets, in_base, strict=True) if not is_candidate]
    cached_in_logs = [_cached_in_logs(storage, keys, split) for split in of_logs]
    in_logs = iter(_read_unknown(storage, of_logs, cached_in_logs, partial(_read_in_logs, storage, keys)))
    candidates = (
        split if is_candidate else _without_base(split) if next(in_logs) else None
        for split, is_candidate in zip(in_buckets, in_base, strict=True)
    )
    chosen = [split for split in candidates if split is not None]
    notes.counted(_KEYS, len(in_buckets), len(chosen))
    return chosen


def _why_not(record_index: RecordIndex | None) -> str:
    why_not = "it says where records are in the newest snapshot" if record_index is None else record_index.why_not
    return why_not or "it cannot tell"


def _read_unknown(
    storage: Storage,
    splits: Sequence[RealtimeFileSplit],
    verdicts: Sequence[bool | None],
    read_verdict: Callable[[RealtimeFileSplit], bool],
) -> list[bool]:
    """Each split's verdict. Where it is None, files are read, several at once."""
    unknown = [split for split, verdict in zip(splits, verdicts, strict=True) if verdict is None]
    if not unknown:
        return [bool(verdict) for verdict in verdicts]
    if storage.is_local:
        read = iter(map_while_waiting(read_verdict, unknown, _LOCAL_READS_AT_ONCE))
    else:
        read = iter(map_in_threads(read_verdict, unknown, REQUESTS_AT_ONCE))
    return [next(read) if verdict is None else verdict for verdict in verdicts]


def _ask_index(
    storage: Storage,
    splits: Sequence[RealtimeFileSplit],
    verdicts: Sequence[bool | None],
    keys: LookupKeys,
    key_index: KeyIndex,
) -> list[bool | None]:
    """Each split's verdict. Where it is None, the index is asked."""
    unknown = [split for split, verdict in zip(splits, verdicts, strict=True) if verdict is None]
    indexed = iter(key_index.may_hold(storage, unknown, keys))
    return [next(indexed) if verdict is None else verdict for verdict in verdicts]


def _cached_in_base(storage: Storage, keys: LookupKeys, split: RealtimeFileSplit) -> bool | None:
    if split.base_path is None:
        return False
    index = cached_footer_index(storage, split)
    return None if index is None else index.may_hold_any(keys)


def _read_in_base(storage: Storage, keys: LookupKeys, split: RealtimeFileSplit) -> bool:
    return read_footer_index(storage, split, keys).may_hold_any(keys)


def _cached_in_logs(storage: Storage, keys: LookupKeys, split: RealtimeFileSplit) -> bool | None:
    if not split.log_paths:
        return False
    hashes = cached_log_keys(storage, split)
    return None if hashes is None else keys.any_in(hashes)


def _read_in_logs(storage: Storage, keys: LookupKeys, split: RealtimeFileSplit) -> bool:
    hashes = read_log_keys(storage, split)
    return hashes is None or keys.any_in(hashes)


def _without_base(split: RealtimeFileSplit) -> RealtimeFileSplit:
    return replace(split, base_path=None, base_size_bytes=0)


def _in_buckets(
    storage: Storage, splits: list[RealtimeFileSplit], keys: LookupKeys, notes: PlanNotes
) -> list[RealtimeFileSplit]:
    """The splits in the buckets of the keys; all splits unless the files confirm the user's number of buckets."""
    count = splits[0].context.bucket_count if splits else None
    if count is None:
        notes.not_used(_BUCKETS, "the options do not name the number of buckets")
        return splits
    context = splits[0].context
    index = BucketIndex(buckets=count, hash_fields=context.bucket_fields or context.record_key_fields)
    buckets = {index.bucket_of(key) for key in keys.texts}
    of_splits = [bucket_of_file_id(split.file_id) for split in splits]
    if None in buckets:
        notes.not_used(_BUCKETS, "releases of Hudi differ in the bucket of a key like these")
        return splits
    fits = all(bucket is not None and bucket < count for bucket in of_splits)
    if not (fits and _show_buckets(storage, splits, index)):
        notes.not_used(_BUCKETS, f"the base files do not show {count:,} buckets")
        return splits
    chosen = [split for split, bucket in zip(splits, of_splits, strict=True) if bucket in buckets]
    notes.counted(_BUCKETS, len(splits), len(chosen))
    return chosen


def _show_buckets(storage: Storage, splits: list[RealtimeFileSplit], index: BucketIndex) -> bool:
    """Whether some base files show the buckets: their least and greatest keys are in the buckets of their file ids."""
    if storage.exists(BUCKET_FOLDER):
        return False
    with_base = [split for split in splits if split.base_path is not None]
    sample = with_base[:: max(1, len(with_base) // _MOST_CHECKED)]
    nothing = LookupKeys.of(())
    checked = False
    for split in sample:
        footer = cached_footer_index(storage, split) or read_footer_index(storage, split, nothing)
        for key in footer.key_range or ():
            if index.bucket_of(key) != bucket_of_file_id(split.file_id):
                return False
            checked = True
    return checked
