"""The random tables that have shown a fault: nothing of them is a fault any more."""

from pathlib import Path

import pytest

from tests.random.checking import DIFFERENT, check, read_case
from tests.random.known import KNOWN, with_reasons
from tests.support.golden_cases import golden_random_tables

TABLES = {folder.name: folder for folder in golden_random_tables()}
HUDI_IS_WRONG = {
    "begun_by_pending_write_120": ("a file group that a pending write began",),
    "key_in_two_partitions_0150": (
        "contradicts its own snapshot",
        "one delete of a replaced file group in place of all",
    ),
    "last_text_by_ids_120": ("the text of the last as their ordering value",),
    "last_text_of_block_120": ("the text of the last as their ordering value",),
    "late_partial_changes_111": ("updates that change nothing",),
    "late_sequence_102": ("as text where one of two versions is a delete",),
    "lost_after_rollback_0150": ("stops reading logs at a block of a later instant",),
}
"""Tables that show differences that are no faults, and parts of their reasons."""


@pytest.mark.parametrize("folder", TABLES.values(), ids=TABLES)
def test_answers_are_those_of_hudi_but_for_known_differences(folder: Path) -> None:
    case = read_case(folder)
    outcomes = with_reasons(case, check(case))
    assert [outcome for outcome in outcomes if outcome.is_fault] == []
    reasons = {outcome.reason for outcome in outcomes if outcome.status == DIFFERENT}
    texts = HUDI_IS_WRONG.get(folder.name, ())
    assert reasons == {item.reason for item in KNOWN if any(text in item.reason for text in texts)}


def test_tables_that_show_where_hudi_is_wrong_are_there() -> None:
    assert set(HUDI_IS_WRONG) <= set(TABLES)
