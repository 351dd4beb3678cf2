"""Every cell of the table of merge rules."""

import pytest

from hudi_bridge.merge import ordering
from hudi_bridge.merge.ordering import Version, is_lower
from hudi_bridge.merge.rules import (
    COMMIT_TIME,
    DEFAULT_PAYLOAD,
    EVENT_TIME,
    EVENT_TIME_OF_10,
    LATEST_OF_10,
    OVERWRITE_LATEST,
    PARTIAL_UPDATE_OF_10,
    PAYLOAD_OF_11,
    Precedence,
)

RULES = (COMMIT_TIME, EVENT_TIME, OVERWRITE_LATEST, DEFAULT_PAYLOAD, PAYLOAD_OF_11, LATEST_OF_10)
ORDERED = (EVENT_TIME, OVERWRITE_LATEST, DEFAULT_PAYLOAD, PAYLOAD_OF_11)
DELETES_ORDERED = (EVENT_TIME, OVERWRITE_LATEST, DEFAULT_PAYLOAD, LATEST_OF_10)
OF_10 = (EVENT_TIME_OF_10, LATEST_OF_10, PARTIAL_UPDATE_OF_10)
PAYLOADS = (OVERWRITE_LATEST, DEFAULT_PAYLOAD, PAYLOAD_OF_11)


def name_of(rule: Precedence) -> str:
    return rule.name


def row(*values: object) -> Version:
    return values, ordering.ROW


def delete(*values: object) -> Version:
    return values, ordering.DELETE


def marked(*values: object) -> Version:
    return values, ordering.MARKED


def later_replaces(rule: Precedence, earlier: Version, later: Version) -> bool:
    return ordering.later_replaces(rule.in_logs, earlier, later)


def log_replaces_base(rule: Precedence, base_ordering: tuple[object, ...], log: Version) -> bool:
    return ordering.log_replaces_base(rule.over_base_row, base_ordering, log)


def survivor(rule: Precedence, versions: list[Version]) -> int:
    return ordering.survivor(rule.in_logs, versions)


def field_source(
    rule: Precedence, versions: list[Version], unset: list[bool], *, newest: bool, fills_earlier: bool = True
) -> int:
    return ordering.field_source(rule.in_logs, versions, unset, newest=newest, fills_earlier=fills_earlier)


UNORDERED_DELETE: Version = ((None,), ordering.UNORDERED_DELETE)
"""A delete without an ordering value of its own."""


@pytest.mark.parametrize(
    ("left", "right", "lower"),
    [
        ((1,), (2,), True),
        ((2,), (2,), False),
        ((3,), (2,), False),
        ((None,), (-5,), True),
        ((-5,), (None,), False),
        ((None,), (None,), False),
        ((1, 9), (2, 0), True),
        ((1, 1), (1, 2), True),
        ((1, None), (1, "a"), True),
        ((1, "a"), (1, "a"), False),
        ((), (), False),
    ],
)
def test_ordering_values_compare_field_by_field(
    left: tuple[object, ...], right: tuple[object, ...], lower: bool
) -> None:
    assert is_lower(left, right) is lower


@pytest.mark.parametrize("rule", ORDERED, ids=name_of)
def test_the_higher_ordering_wins_among_logs_and_the_later_of_equals(rule: Precedence) -> None:
    assert later_replaces(rule, row(1), row(2))
    assert later_replaces(rule, row(2), row(2))
    assert not later_replaces(rule, row(2), row(1))


@pytest.mark.parametrize("later", [row(0), delete(0), UNORDERED_DELETE])
def test_commit_time_takes_the_later_version_whatever_it_is(later: Version) -> None:
    for earlier in (row(9), delete(9), UNORDERED_DELETE):
        assert later_replaces(COMMIT_TIME, earlier, later)


@pytest.mark.parametrize("rule", RULES, ids=name_of)
@pytest.mark.parametrize("earlier", [row(9), delete(9), UNORDERED_DELETE])
def test_a_delete_without_ordering_deletes_whatever_came_before(rule: Precedence, earlier: Version) -> None:
    assert later_replaces(rule, earlier, UNORDERED_DELETE)


@pytest.mark.parametrize("rule", DELETES_ORDERED, ids=name_of)
def test_a_delete_with_ordering_takes_part_in_the_ordering(rule: Precedence) -> None:
    assert later_replaces(rule, row(2), delete(2))
    assert later_replaces(rule, row(2), delete(3))
    assert not later_replaces(rule, row(2), delete(1))


def test_event_time_keeps_a_newer_delete_against_a_late_row() -> None:
    assert not later_replaces(EVENT_TIME, delete(3), row(2))
    assert later_replaces(EVENT_TIME, delete(3), row(3))


@pytest.mark.parametrize("rule", PAYLOADS, ids=name_of)
def test_payloads_revive_a_deleted_record_whatever_the_ordering(rule: Precedence) -> None:
    assert later_replaces(rule, delete(3), row(2))
    assert later_replaces(rule, UNORDERED_DELETE, row(-2))
    assert later_replaces(rule, delete(3), delete(2)) is (rule == PAYLOAD_OF_11)


def test_in_10_rows_come_in_the_order_of_arrival_and_deletes_in_that_of_their_values() -> None:
    assert later_replaces(LATEST_OF_10, row(2), row(1))
    assert not later_replaces(LATEST_OF_10, delete(2), row(1))
    assert later_replaces(LATEST_OF_10, delete(2), row(2))
    assert not later_replaces(LATEST_OF_10, UNORDERED_DELETE, delete(5))
    assert log_replaces_base(LATEST_OF_10, (2,), row(1))
    assert log_replaces_base(LATEST_OF_10, (2,), delete(2))
    assert log_replaces_base(LATEST_OF_10, (2,), UNORDERED_DELETE)
    assert not log_replaces_base(LATEST_OF_10, (2,), delete(1))


def test_payloads_of_11_take_any_delete() -> None:
    assert later_replaces(PAYLOAD_OF_11, row(2), delete(1))
    assert log_replaces_base(PAYLOAD_OF_11, (2,), delete(1))


def test_a_delete_without_ordering_is_followed_by_any_row_marked_or_not_and_by_no_record_of_a_delete_block() -> None:
    assert later_replaces(EVENT_TIME, UNORDERED_DELETE, row(-5))
    assert later_replaces(EVENT_TIME, UNORDERED_DELETE, marked(-5))
    assert not later_replaces(EVENT_TIME, UNORDERED_DELETE, delete(5))


@pytest.mark.parametrize("rule", OF_10, ids=name_of)
def test_in_10_a_delete_without_ordering_is_one_at_zero_for_rows(rule: Precedence) -> None:
    at_zero = ((0,), ordering.UNORDERED_DELETE)
    for later in (row, marked):
        assert later_replaces(rule, at_zero, later(0))
        assert not later_replaces(rule, at_zero, later(-1))
    assert not later_replaces(rule, at_zero, delete(5))


@pytest.mark.parametrize("rule", [EVENT_TIME, *OF_10], ids=name_of)
def test_a_marked_row_takes_part_in_the_ordering(rule: Precedence) -> None:
    for earlier in (row(2), delete(2), marked(2)):
        assert later_replaces(rule, earlier, marked(2))
        assert not later_replaces(rule, earlier, marked(1))
    assert not later_replaces(rule, marked(2), row(1))


@pytest.mark.parametrize("rule", [COMMIT_TIME, OVERWRITE_LATEST], ids=name_of)
@pytest.mark.parametrize("log", [row(0), delete(0), UNORDERED_DELETE])
def test_some_rules_let_the_log_win_over_any_base_row(rule: Precedence, log: Version) -> None:
    assert log_replaces_base(rule, (9,), log)


@pytest.mark.parametrize("rule", [EVENT_TIME, DEFAULT_PAYLOAD, PAYLOAD_OF_11], ids=name_of)
def test_the_base_row_stays_if_its_ordering_is_higher(rule: Precedence) -> None:
    assert not log_replaces_base(rule, (2,), row(1))
    assert log_replaces_base(rule, (2,), row(2))
    assert log_replaces_base(rule, (2,), UNORDERED_DELETE)


def test_a_late_delete_against_the_base_row() -> None:
    assert not log_replaces_base(EVENT_TIME, (2,), delete(1))
    assert log_replaces_base(DEFAULT_PAYLOAD, (2,), delete(1))


def test_survivors_are_folded_in_the_order_of_arrival() -> None:
    versions = [row(5), UNORDERED_DELETE, row(1), delete(0), row(1)]
    assert survivor(COMMIT_TIME, versions) == 4
    assert survivor(EVENT_TIME, versions) == 4
    assert survivor(EVENT_TIME, versions[:4]) == 2
    assert survivor(EVENT_TIME, versions[:1]) == 0


def test_an_unset_field_comes_from_the_loser() -> None:
    assert field_source(EVENT_TIME, [row(1), row(2)], [False, True], newest=False) == 0
    assert field_source(EVENT_TIME, [row(1), row(2)], [False, False], newest=False) == 1
    assert field_source(EVENT_TIME, [row(2), row(1)], [True, False], newest=False) == 1
    assert field_source(EVENT_TIME, [row(2), row(1)], [False, False], newest=False) == 0


def test_an_earlier_version_that_wins_may_keep_an_unset_field() -> None:
    for versions, expected in (([row(2), row(1)], 0), ([row(1), row(2)], 1)):
        assert field_source(EVENT_TIME, versions, [True, False], newest=False, fills_earlier=False) == expected
    assert field_source(EVENT_TIME, [row(1), row(2)], [False, True], newest=False, fills_earlier=False) == 0


def test_fields_are_not_merged_across_a_delete() -> None:
    assert field_source(COMMIT_TIME, [row(1), UNORDERED_DELETE, row(2)], [False, True, True], newest=False) == 2
    assert field_source(EVENT_TIME, [row(3), delete(1)], [True, False], newest=False) == 0


def test_fields_of_the_newest_version_follow_it_even_if_it_loses() -> None:
    assert field_source(DEFAULT_PAYLOAD, [row(2), row(1)], [False, False], newest=True) == 1
    assert field_source(EVENT_TIME, [row(2), delete(1)], [False, False], newest=True) == 0
