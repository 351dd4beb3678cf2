"""Differences from Hudi that are no faults: each with the reason, and how it is recognized.

What users have to know of them is in docs/compatibility.md. A difference that is not in this list fails the run: it
becomes a golden table once it is mended, or an entry here if Hudi is wrong.
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge import RealtimeFileSplit
from hudi_bridge.logformat.scan import scan_blocks
from tests.golden.generate.questions import BEGIN, COLUMNS
from tests.golden.generate.releases import number
from tests.random.checking import DIFFERENT, ERROR, Case, Outcome, dataset_of, filtered, rows_of
from tests.random.draw import NON_BLOCKING
from tests.support.compare import differences

Image = Mapping[str, Any]
"""A row of a change, empty for none."""


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """Why a difference is no fault of Hudi Bridge, and whether an outcome is one."""

    reason: str
    applies: Callable[[Case, Outcome], bool]


def _contradicts_its_snapshot(case: Case, outcome: Outcome) -> bool:
    """Whether Hudi's answer to a filter or a projection differs from its own snapshot, and ours does not."""
    if outcome.query is None or outcome.kind not in ("snapshot_filtered", "snapshot_columns"):
        return False
    snapshot, query = case.snapshot, case.document["queries"][outcome.query]
    if snapshot is None:
        return False
    if outcome.kind == "snapshot_filtered":
        expected = filtered(snapshot, query["options"]["duckdb"])
    else:
        expected = _projected(snapshot, query["options"][COLUMNS])
    return differences(expected, rows_of(case.opened(), outcome.kind, query["options"])) == []


def _projected(rows: pa.Table, paths: Iterable[list[str]]) -> pa.Table:
    columns = {}
    for index, (name, *fields) in enumerate(paths):
        column = rows[name].combine_chunks()
        for field in fields:
            column = pc.struct_field(column, [field])
        columns[f"x{index}"] = column
    return pa.table(columns)


def _differs_in_nulls_of_partitions(case: Case, outcome: Outcome) -> bool:
    """Whether all that differs are partition columns, which are null in Hudi's answer alone."""
    if outcome.query is None or outcome.status != DIFFERENT:
        return False
    query = case.document["queries"][outcome.query]
    expected = case.answer(outcome.query)
    if expected is None or outcome.kind == "cdc":
        return False
    names = [name for name in case.table.partition_fields if name in expected.column_names]
    has_nulls = any(expected[name].null_count for name in names)
    rows = rows_of(case.opened(), outcome.kind, query["options"])
    if not has_nulls or any(name not in rows.column_names for name in names):
        return False
    return differences(expected.drop_columns(names), rows.drop_columns(names)) == []


def _stops_at_a_later_block(case: Case, outcome: Outcome) -> bool:
    """Whether some logs have a block of an instant after the query's before one that counts."""
    if outcome.query is None:
        dataset = case.opened().snapshot()
    else:
        query = case.document["queries"][outcome.query]
        dataset = dataset_of(case.opened(), outcome.kind, query["options"])
    return any(_has_later_block_first(split) for split in dataset.splits() if isinstance(split, RealtimeFileSplit))


def _has_later_block_first(split: RealtimeFileSplit) -> bool:
    is_later = False
    for path, _ in split.log_files:
        for block in scan_blocks(Path(split.table_path, path).read_bytes(), path).blocks:
            is_later = is_later or (block.instant_time or "") > split.latest_instant
            if is_later and block.holds_records and (block.instant_time or "") <= split.latest_instant:
                return True
    return False


def _is_ordered_by_text_in_parquet(case: Case, outcome: Outcome) -> bool:
    """Whether logs have Parquet blocks, and an ordering field is text; and all that differs is which version won."""
    is_text = any(kind == "string" for _, kind in case.table.ordering)
    has_parquet = any(label.startswith("parquet_data") for label in case.document["log_blocks"])
    return is_text and has_parquet and outcome.kind not in ("read_optimized", "cdc")


def _begins_in_the_archive(case: Case, outcome: Outcome) -> bool:
    """Whether a range begins before the first active instant, and others have been archived."""
    if outcome.query is None or outcome.kind not in ("incremental", "cdc"):
        return False
    archive = Path(case.path, ".hoodie", "archived")
    begin = case.document["queries"][outcome.query]["options"][BEGIN]
    first = min((instant["requested"] for instant in case.document["instants"]), default="")
    return archive.is_dir() and any(archive.iterdir()) and begin < first


def _differs_in_late_updates(case: Case, outcome: Outcome) -> bool:
    """Whether the changes of Hudi and ours are of the same keys, but for updates by late records, which Hudi tells too.

    Images are not compared: in those of 0.15, decimals and lists are objects of Java.
    """
    expected = case.answer(outcome.query) if outcome.query is not None else None
    if expected is None or outcome.query is None or outcome.kind != "cdc":
        return False
    options = case.document["queries"][outcome.query]["options"]
    expected_changes, changes = _changes(expected), _changes(rows_of(case.opened(), "cdc", options))
    names = [name for name, _ in case.table.ordering]
    late = Counter(key for key, before, after in expected_changes if _is_late(names, before, after))
    more = Counter(key for key, _, _ in expected_changes) - Counter(key for key, _, _ in changes)
    less = Counter(key for key, _, _ in changes) - Counter(key for key, _, _ in expected_changes)
    return not less and more <= late


def _tells_deletes_of_rows_that_stay(case: Case, outcome: Outcome) -> bool:
    """Whether Hudi's changes are ours, and deletes or inserts of records that its own snapshot has."""
    expected = case.answer(outcome.query) if outcome.query is not None else None
    snapshot = case.snapshot
    if expected is None or snapshot is None or outcome.query is None or outcome.kind != "cdc":
        return False
    options = case.document["queries"][outcome.query]["options"]
    # Images as text, as equal changes have the same ones.
    told, ours = (
        Counter((key, str(before), str(after)) for key, before, after in _changes(rows))
        for rows in (expected, rows_of(case.opened(), "cdc", options))
    )
    names = ("_hoodie_partition_path", "_hoodie_record_key")
    keys = set(zip(*(snapshot[name].to_pylist() for name in names), strict=True))
    more = [key for key, _, _ in told - ours]
    return not ours - told and all(key[0] in ("d", "i") and key[2:] in keys for key in more)


def _changes(rows: pa.Table) -> list[tuple[tuple[str, ...], Image, Image]]:
    """What and whom each change is of, with its images."""
    changes = []
    for row in rows.to_pylist():
        before, after = (json.loads(row[side] or "null") or {} for side in ("before", "after"))
        image = after or before
        names = ("_hoodie_partition_path", "_hoodie_record_key")
        changes.append(((row["op"], row["ts_ms"], *(str(image.get(name)) for name in names)), before, after))
    return changes


def _is_late(names: Sequence[str], before: Image, after: Image) -> bool:
    return any(name in before and name in after and after[name] <= before[name] for name in names)


def _is_of(case: Case, *release: int) -> bool:
    return number(case.table.release)[: len(release)] == release


def _has_pending_compaction(case: Case) -> bool:
    return any(
        instant["action"] == "compaction" and instant["state"] != "completed" for instant in case.document["instants"]
    )


KNOWN = (
    KnownDifference(
        "Hudi 0.15 stops reading logs at a block of a later instant, such as the rollback of a failed write, and so"
        " loses what was committed after it",
        lambda case, outcome: _is_of(case, 0) and _stops_at_a_later_block(case, outcome),
    ),
    KnownDifference(
        "Hudi 0.15 leaves archived commits out of ranges",
        lambda case, outcome: _is_of(case, 0) and _begins_in_the_archive(case, outcome),
    ),
    KnownDifference(
        "a filter or a projection of Hudi contradicts its own snapshot; ours is what the snapshot has",
        _contradicts_its_snapshot,
    ),
    KnownDifference(
        "Hudi 1.0 has null partition columns in slices with logs of a timestamp-based key generator",
        lambda case, outcome: (
            _is_of(case, 1, 0)
            and case.table.partition in ("timestamp", "custom")
            and _differs_in_nulls_of_partitions(case, outcome)
        ),
    ),
    KnownDifference(
        "Hudi 1.1 and 1.2 give all records of a Parquet log block the text of the last as their ordering value",
        lambda case, outcome: not _is_of(case, 0) and _is_ordered_by_text_in_parquet(case, outcome),
    ),
    KnownDifference(
        "the changes of Hudi 1.x tell late deletes, and inserts after them, that its snapshot does not know",
        lambda case, outcome: not _is_of(case, 0) and _tells_deletes_of_rows_that_stay(case, outcome),
    ),
    KnownDifference(
        "the changes of Hudi 0.15 have decimals and lists as objects of Java, and tell late records as updates",
        lambda case, outcome: _is_of(case, 0) and _differs_in_late_updates(case, outcome),
    ),
    KnownDifference(
        "Hudi leaves the rows of a slow writer out until the compaction that was planned beside it has run",
        lambda case, outcome: (
            case.table.concurrency == NON_BLOCKING
            and _has_pending_compaction(case)
            and outcome.kind in ("incremental", "time_travel")
        ),
    ),
)
"""What is documented or Hudi's own contradiction, the first that applies is the reason."""


REFUSED_BY_NAME = {
    "UnsupportedTableError: unsupported payload: found org.apache.hudi.common.model.FirstValueAvroPayload": (
        "refused by name: first values"
    ),
    "UnsupportedTableError: unsupported payload: found org.apache.hudi.common.model.ReverseOrderHoodieRecordPayload": (
        "refused by name: the reverse order"
    ),
}
"""By a part of the message, why it is no fault that Hudi Bridge refuses what Hudi answers."""


def with_reasons(case: Case, outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes, known differences with their reasons."""
    return [_with_reason(case, outcome) if outcome.is_fault else outcome for outcome in outcomes]


def _with_reason(case: Case, outcome: Outcome) -> Outcome:
    if outcome.status == ERROR:
        reason = next((reason for text, reason in REFUSED_BY_NAME.items() if text in outcome.detail), None)
        return dataclasses.replace(outcome, reason=reason)
    for known in KNOWN:
        if known.applies(case, outcome):
            return dataclasses.replace(outcome, reason=known.reason)
    return outcome
