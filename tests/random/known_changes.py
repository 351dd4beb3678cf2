"""What the change queries of Hudi tell otherwise than its snapshots, by rules that ``known`` names.

Its releases merge the records of logs for changes in ways of their own.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from hudi_bridge.merge.rules import UNAVAILABLE_VALUE
from tests.random.checking import Case
from tests.random.draw import POSTGRES

Image = Mapping[str, Any]
"""A row of a change, empty for none."""
Key = tuple[str, ...]
"""The operation and the commit of a change, the partition and the record key."""
Change = tuple[Key, Image, Image]
"""What and whom a change is of, with its images before and after."""


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
    # Images as text, as equal changes have the same ones.
    told, ours = (
        Counter((key, str(before), str(after)) for key, before, after in changes_of(rows))
        for rows in (expected, actual)
    )
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
