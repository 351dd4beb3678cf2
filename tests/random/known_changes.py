"""What the change queries of Hudi tell otherwise than its snapshots, by rules that ``known`` names.

Its releases merge the records of logs for changes in ways of their own.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_bridge.changes.json_text import JACKSON, json_texts
from hudi_bridge.merge.rules import UNAVAILABLE_VALUE
from hudi_bridge.tools.trace.verdicts import RecordVersion
from tests.golden.generate.log_blocks import labels_of
from tests.random.checking import Case, history_of, versions_of
from tests.random.draw import POSTGRES

Image = Mapping[str, Any]
"""A row of a change, empty for none."""
Key = tuple[str, ...]
"""The operation and the commit of a change, the partition and the record key."""
Change = tuple[Key, Image, Image]
"""What and whom a change is of, with its images before and after."""


@dataclass(frozen=True, slots=True)
class RecordStates:
    """The images of a record in a partition: at the begin of a range, at its end, and of all versions.

    They are without the columns ``left_out``, those of the partition: images of changes have the stored values, and
    rows of snapshots those of the path.
    """

    first: Image
    last: Image
    versions: Sequence[Image]
    left_out: Collection[str]


def differs_as_changes_of_0x_do(case: Case, expected: pa.Table, actual: pa.Table) -> bool:
    """Whether the changes of Hudi 0.15 and ours are of the same keys, but for two faults of Hudi.

    It tells late records as updates, too, and of the rows of a replaced file group one again and again. Of images,
    texts and whole numbers are compared: other values may be objects of Java. Records that came late have other images.

    ``HoodieCDCRDD`` merges with ``HoodieAvroRecordMerger``, whichever merger a query has chosen, and so by the payload
    of the table. With the default one, a log record wins over the base row, also if it came late. After a delete in the
    logs, it has no base row to take unavailable values from, as its snapshot does.
    """
    told, ours = changes_of(expected), changes_of(actual)
    names = [name for name, _ in case.table.ordering]
    merged = {key: before for key, before, _ in ours} if case.table.merging == "spark merger" else {}
    if case.table.payload == POSTGRES:
        told = [*_with_available_values(told, {key: after for key, _, after in ours})]
    told, late = _as_merged(names, told, merged)
    more = Counter(key for key, _, _ in told) - Counter(key for key, _, _ in ours)
    less = Counter(key for key, _, _ in ours) - Counter(key for key, _, _ in told)
    instants = case.document["instants"]
    replacing = {entry["requested"] for entry in instants if entry["action"] == "replacecommit"}
    repeated, lacking = (
        Counter({key: count for key, count in counts.items() if key[0] == "d" and key[1] in replacing})
        for counts in (more, less)
    )
    repeated_in, lacking_in = (Counter(key[1:3] for key in counts.elements()) for counts in (repeated, lacking))
    is_repeated = repeated_in == lacking_in and set(repeated) <= {key for key, _, _ in ours}
    if not is_repeated or less != lacking or not more - repeated <= late:
        return False
    differing = {key[2:] for key in (*more, *less, *late)}
    plain = [name for name, kind in case.table.columns if kind in ("string", "int", "bigint", "boolean")]
    images = [
        Counter(
            (key, *(image.get(name) for image in (before, after) for name in plain))
            for key, before, after in changes
            if key[2:] not in differing
        )
        for changes in (told, ours)
    ]
    return images[0] == images[1]


def tells_what_changes_nothing(
    case: Case, expected: pa.Table, actual: pa.Table, comes_late: Callable[[str, str], bool]
) -> bool:
    """Whether Hudi's changes are ours, late deletes of records that stay, inserts after these, and equal images.

    An insert may also be of a record that is deleted, if the row of its commit ``comes_late``: by record key and
    commit.
    """
    snapshot = case.snapshot
    if snapshot is None:
        return False
    told, ours = (_texts(changes_of(rows)) for rows in (expected, actual))
    more = sorted((told - ours).elements(), key=lambda change: (change[0][1], change[0][0]))
    names = ("_hoodie_partition_path", "_hoodie_record_key")
    keys = set(zip(*(snapshot[name].to_pylist() for name in names), strict=True))
    deletes = Counter[tuple[str, ...]]()
    for (op, commit, *key), before, after in more:
        deletes[tuple(key)] += {"d": 1, "i": -1, "u": 0}[op]
        explained = before == after if op == "u" else tuple(key) in keys and deletes[tuple(key)] >= 0
        if not explained and not (op == "i" and comes_late(key[1], commit)):
            return False
    return not ours - told


def tells_other_versions(
    expected: pa.Table, actual: pa.Table, states_of: Callable[[str, str], RecordStates | None]
) -> bool:
    """Whether all that differs is which versions of records won: in updates, and in images of before.

    ``states_of`` has the states of a record, by its partition and key; None for one whose text cannot be of another.

    ``CDCFileGroupIterator`` of Hudi 1.1 merges each record of a log block with the slice before. The text in its
    ordering value, and in that of a base row that has won over earlier log records, is part of the row that its reader
    fills again and again: at the time of the comparison, it has bytes of the last record that was read.
    """
    told, ours = (_by_record(changes_of(rows)) for rows in (expected, actual))
    differing = {record for record in {*told, *ours} if _texts(told.get(record, [])) != _texts(ours.get(record, []))}
    return bool(differing) and all(
        (states := states_of(*record)) is not None
        and _differ_in_versions(told.get(record, []), ours.get(record, []), states)
        for record in differing
    )


def states_of(case: Case, record: tuple[str, str], begin: str, end: str) -> RecordStates | None:
    """The states of a record from begin to end; None if none of its versions is in a row that is used again."""
    key = record[1]
    instants = [entry for entry in case.document["instants"] if entry["state"] == "completed"]
    # Other actions begin new file slices.
    ends = [past["requested"] for past, entry in pairwise(instants) if entry["action"] != "deltacommit"]
    versions = [version for as_of in (*ends, end) for version in versions_of(case, key, as_of) if version.row.num_rows]
    if not (case.table.has_meta_fields and are_in_reused_rows(case, versions)):
        return None
    return RecordStates(
        first=_state(case, record, begin) if any(entry["requested"] <= begin for entry in instants) else {},
        last=_state(case, record, end),
        versions=[image for version in versions for image in _images(case, version.row)],
        left_out=case.table.partition_fields,
    )


def _state(case: Case, record: tuple[str, str], as_of: str) -> Image:
    partition, key = record
    groups = [group for group in history_of(case, key, as_of).file_groups if group.partition_path == partition]
    return next((image for group in groups for image in _images(case, group.result)), {})


def _images(case: Case, rows: pa.Table) -> list[Image]:
    names = [name for name in rows.column_names if name not in case.table.partition_fields]
    structs = pa.StructArray.from_arrays([rows[name].combine_chunks() for name in names], names=names)
    return [json.loads(str(text)) for text in json_texts(structs, JACKSON).to_pylist()]


def are_in_reused_rows(case: Case, versions: Iterable[RecordVersion]) -> bool:
    """Whether a log block of the versions is read into one row again and again.

    Those are Parquet log blocks, and Avro ones that are brought into the columns of the query by their ids.
    """
    paths = {Path(case.path, version.path) for version in versions if not version.is_base_row}
    has_parquet = any(label.startswith("parquet_data") for path in paths for label in labels_of(path))
    return has_parquet or case.table.has_column_ids


def _differ_in_versions(told: Sequence[Change], ours: Sequence[Change], states: RecordStates) -> bool:
    """Whether our changes of a record lead from its first state to the last, and Hudi's are of other versions."""
    images = [image for _, *pair in (*told, *ours) for image in pair if image]
    # What is left out is the same in all images of a version.
    rows = {(image["_hoodie_commit_seqno"], image["_hoodie_file_name"]) for image in images}
    if len(rows) != len(set(map(str, images))):
        return False
    told, ours = (
        [(key, _without(states.left_out, before), _without(states.left_out, after)) for key, before, after in side]
        for side in (told, ours)
    )
    rest = [Counter((key, str(after)) for key, _, after in side if key[0] != "u") for side in (told, ours)]
    updates = Counter(key for key, _, _ in told if key[0] == "u")
    time = "_hoodie_commit_time"
    are_versions = all(
        (not before or (before[time] < key[1] and before in states.versions))
        and (key[0] != "u" or (after[time] == key[1] and after in states.versions))
        for key, before, after in told
    )
    chain = [states.first, *(image for _, *pair in ours for image in pair), states.last]
    return rest[0] == rest[1] and max(updates.values(), default=0) <= 1 and are_versions and chain[::2] == chain[1::2]


def _without(names: Collection[str], image: Image) -> Image:
    return {name: value for name, value in image.items() if name not in names}


def _by_record(changes: Iterable[Change]) -> dict[tuple[str, str], list[Change]]:
    """The changes of each record in a partition, in the order of their commits, deletes first."""
    records = defaultdict[tuple[str, str], list[Change]](list)
    for change in sorted(changes, key=lambda change: (change[0][1], change[0][0])):
        records[change[0][2], change[0][3]].append(change)
    return records


def _texts(changes: Iterable[Change]) -> Counter[tuple[Key, str, str]]:
    # Equal changes have the same texts.
    return Counter((key, str(before), str(after)) for key, before, after in changes)


def changes_of(rows: pa.Table) -> list[Change]:
    """What and whom each change is of, with its images."""
    changes = []
    for row in rows.to_pylist():
        before, after = (json.loads(row[side] or "null") or {} for side in ("before", "after"))
        image = after or before
        names = ("_hoodie_partition_path", "_hoodie_record_key")
        changes.append(((row["op"], row["ts_ms"], *(str(image.get(name)) for name in names)), before, after))
    return changes


def _with_available_values(told: Iterable[Change], images: Mapping[Key, Image]) -> Iterator[Change]:
    """Hudi's changes with the values of ``images`` for unavailable ones of inserts."""
    for key, before, after in told:
        image = images.get(key, {}) if key[0] == "i" else {}
        available = {name: image[name] for name in image if after.get(name) == UNAVAILABLE_VALUE}
        yield key, before, {**after, **available}


def _as_merged(
    names: Sequence[str], told: Iterable[Change], images: Mapping[Key, Image]
) -> tuple[list[Change], Counter[Key]]:
    """Hudi's changes with ``images`` for those before of records that had come late, and which updates are late."""
    counted: dict[Key, Image] = {}
    changes, late = [], Counter[Key]()
    for key, stored, after in sorted(told, key=lambda change: change[0][1]):
        image = images.get(key, {})
        before = image if _is_newer(stored, image) and _is_late(names, image, stored) else stored
        # An insert may have its decimals as other objects than updates.
        if any(_is_late(names, earlier, after) for earlier in (counted.setdefault(key[2:], before), before)):
            late[key] += 1
        else:
            counted[key[2:]] = after
        changes.append((key, before, after))
    return changes, late


def _is_newer(image: Image, other: Image) -> bool:
    time = "_hoodie_commit_time"
    return str(image.get(time)) > str(other.get(time))


def _is_late(names: Sequence[str], before: Image, after: Image) -> bool:
    pairs = ((_comparable(before.get(name)), _comparable(after.get(name))) for name in names)
    # An object of Java has another type.
    return any(type(old) is type(new) and old is not None and new <= old for old, new in pairs)


def _comparable(ordering: Any) -> Any:
    """An ordering value; Hudi has decimals as lists of their bytes, which have a sign."""
    if not isinstance(ordering, list):
        return ordering
    return int.from_bytes(bytes(byte % 256 for byte in ordering), signed=True)
