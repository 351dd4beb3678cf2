"""The random tables that have shown a fault: nothing of them is a fault any more."""

import dataclasses
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from tests.random.checking import DIFFERENT, DUCKDB, Case, Outcome, check, read_case
from tests.random.known import KNOWN
from tests.random.reasons import with_reasons
from tests.support.golden_cases import golden_random_tables
from tests.support.strength import one_in

TABLES = {folder.name: folder for folder in golden_random_tables()}
HUDI_IS_WRONG = {
    "begun_after_plan_v6_120": ("that begin between the plan of a pending compaction",),
    "dropped_columns_beside_plan_v6_102": (
        "that log records are of",
        "that begin between the plan of a pending compaction",
    ),
    "begun_by_pending_write_120": ("a file group that a pending write began",),
    "changes_before_retained_0150": ("as objects of Java",),
    "full_scan_of_base_files_102": ("reads base files alone",),
    "hfile_columns_by_name_0150": ("HFile blocks by name",),
    "key_in_two_partitions_0150": (
        "contradicts its own snapshot",
        "one delete of a replaced file group in place of all",
    ),
    "last_text_by_ids_120": ("the text of the last as their ordering value",),
    "last_text_of_block_120": ("the text of the last as their ordering value",),
    "late_partial_changes_111": ("updates that change nothing",),
    "late_sequence_102": ("as text where one of two versions is a delete",),
    "late_unavailable_values_0150": ("as objects of Java",),
    "log_with_store_in_path_102": ("the text of the last as their ordering value",),
    "lost_after_rollback_0150": ("stops reading logs at a block of a later instant",),
    "moved_and_log_compacted_120": ("contradicts its own snapshot",),
    "overwrite_of_moved_keys_102": ("null partition columns in slices with logs",),
    "partial_updates_taken_for_deletes_120": ("takes them for deletes",),
    "resize_beside_range_0150": ("that log records are of", "pending resize of buckets"),
    "row_writer_dropped_columns_0150": ("are as in the base files",),
    "sequences_by_payload_v6_120": ("Hudi leaves archived commits out",),
}
"""Tables that show differences that are no faults, and parts of their reasons."""
NONE_EQUAL = ("changes_before_retained_0150", "moved_and_log_compacted_120")
"""Tables in which no row of Hudi equals one of ours: all images have decimals, or the filter passes no row."""
HUDI_HAS_ROWS = [name for name in HUDI_IS_WRONG if name not in NONE_EQUAL]
"""Those with rows of Hudi beside which a fault can be put."""


@cache
def checked(folder: Path) -> tuple[Case, list[Outcome]]:
    case = read_case(folder)
    return case, with_reasons(case, check(case))


@pytest.mark.parametrize("folder", one_in(8, TABLES.values()), ids=TABLES)
def test_answers_are_those_of_hudi_but_for_known_differences(folder: Path) -> None:
    _, outcomes = checked(folder)
    assert [outcome for outcome in outcomes if outcome.is_fault] == []
    reasons = {outcome.reason for outcome in outcomes if outcome.status == DIFFERENT}
    texts = HUDI_IS_WRONG.get(folder.name, ())
    assert reasons == {item.reason for item in KNOWN if any(text in item.reason for text in texts)}


def test_tables_that_show_where_hudi_is_wrong_are_there() -> None:
    assert set(HUDI_IS_WRONG) <= set(TABLES)


def spoiled(outcome: Outcome) -> Iterator[pa.Table]:
    """Our rows, which differ for a known reason, with one more fault."""
    assert outcome.tables is not None
    expected, ours = outcome.tables
    texts = set(map(str, expected.to_pylist()))
    equal = [position for position, row in enumerate(ours.to_pylist()) if str(row) in texts]
    for position in equal[:1] + equal[-1:]:
        yield ours.filter(pa.array([other != position for other in range(ours.num_rows)]))
        yield pa.concat_tables([ours, ours.slice(position, 1)])
    yield pa.concat_tables([ours, ours])
    if outcome.way != DUCKDB and pa.types.is_string(ours.schema.types[0]):
        yield ours.set_column(0, ours.column_names[0], ours[0].cast(pa.binary()))


@pytest.mark.parametrize("name", one_in(11, HUDI_HAS_ROWS))
def test_a_fault_beside_a_known_difference_is_a_fault(name: str) -> None:
    case, outcomes = checked(TABLES[name])
    known = {(outcome.reason, outcome.kind): outcome for outcome in outcomes if outcome.tables is not None}
    faults = [
        dataclasses.replace(outcome, reason=None, tables=(outcome.tables[0], ours))
        for outcome in known.values()
        if outcome.tables is not None
        for ours in spoiled(outcome)
    ]
    assert [outcome for outcome in with_reasons(case, faults) if not outcome.is_fault] == []
    assert len(faults) > 2


@pytest.mark.parametrize("value", [None, "elsewhere"])
def test_a_dropped_column_that_is_as_neither_the_log_nor_the_path_has_it_is_a_fault(value: str | None) -> None:
    case, outcomes = checked(TABLES["dropped_columns_beside_plan_v6_102"])
    known = [outcome for outcome in outcomes if outcome.status == DIFFERENT]
    assert len(known) == 2
    for outcome in known:
        assert outcome.tables is not None
        expected, ours = outcome.tables
        values, paths = (expected[name].to_pylist() for name in ("part", "_hoodie_partition_path"))
        values[next(position for position, path in enumerate(paths) if values[position] != path)] = value
        wrong = expected.set_column(expected.column_names.index("part"), "part", pa.array(values))
        spoilt = dataclasses.replace(outcome, reason=None, tables=(wrong, ours))
        assert with_reasons(case, [spoilt])[0].is_fault
