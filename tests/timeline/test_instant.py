import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest

from hudi_bridge.config import TimelineTimezone
from hudi_bridge.errors import QueryError
from hudi_bridge.timeline.instant import (
    Action,
    Instant,
    InstantState,
    instant_file_name,
    parse_action,
    parse_begin_instant,
    parse_instant_file_name,
    parse_query_instant,
    seconds_between,
)

T = "20240102030405678"
C = "20240102030406000"
LOCAL = TimelineTimezone.LOCAL


def instant(action: Action, state: InstantState, completion_time: str | None = None) -> Instant:
    return Instant(requested_time=T, action=action, state=state, completion_time=completion_time)


PENDING = [
    (f"{T}.commit.requested", instant(Action.COMMIT, InstantState.REQUESTED)),
    (f"{T}.inflight", instant(Action.COMMIT, InstantState.INFLIGHT)),
    *(
        (f"{T}.{action}.{state.name.lower()}", instant(action, state))
        for action in Action
        if action is not Action.COMMIT
        for state in (InstantState.REQUESTED, InstantState.INFLIGHT)
    ),
]


@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize(("name", "expected"), PENDING)
def test_pending_names_are_the_same_in_both_layouts(name: str, expected: Instant, layout: int) -> None:
    assert parse_instant_file_name(name, layout) == expected
    assert instant_file_name(expected) == name


@pytest.mark.parametrize("action", Action)
def test_completed_names(action: Action) -> None:
    without_time = instant(action, InstantState.COMPLETED)
    with_time = instant(action, InstantState.COMPLETED, C)
    assert parse_instant_file_name(f"{T}.{action}", 1) == without_time
    assert parse_instant_file_name(f"{T}_{C}.{action}", 1) is None
    assert parse_instant_file_name(f"{T}_{C}.{action}", 2) == with_time
    # Tables that were upgraded to layout 2 may keep such names.
    assert parse_instant_file_name(f"{T}.{action}", 2) == without_time
    assert instant_file_name(with_time) == f"{T}_{C}.{action}"
    assert instant_file_name(without_time) == f"{T}.{action}"


def test_old_and_long_instants() -> None:
    for time in ("20180102030405", "00000000000000", T + "001"):
        parsed = parse_instant_file_name(f"{time}.deltacommit", 1)
        assert parsed is not None
        assert parsed.requested_time == time


@pytest.mark.parametrize(
    "name",
    [
        "",
        T,
        f"{T}.",
        f"{T}.requested",
        f"{T}.upsert",
        f"{T}.commit.done",
        f"{T}.Commit",
        f".{T}.commit.crc",
        f"{T}.commit.crc",
        f"{T}.commit.requested.requested",
        f"{T}_{C}.commit.requested",
        f"{T}_{C}.inflight",
        f"{T}_{C}_{C}.commit",
        f"{T}_.commit",
        f"_{T}.commit",
        f"{T}.commit\n",
        "hoodie.properties",
        "archived",
        "\u0661.commit",
        "1" * 100 + ".commit",
    ],
)
def test_other_files_are_no_instants(name: str) -> None:
    assert parse_instant_file_name(name, 1) is None
    assert parse_instant_file_name(name, 2) is None


def test_table_services_complete_as_what_they_write() -> None:
    completes_as = {action: instant(action, InstantState.REQUESTED).comparable_action for action in Action}
    assert completes_as.pop(Action.COMPACTION) is Action.COMMIT
    assert completes_as.pop(Action.LOG_COMPACTION) is Action.DELTA_COMMIT
    assert completes_as.pop(Action.CLUSTERING) is Action.REPLACE_COMMIT
    assert all(action is same for action, same in completes_as.items())


def test_parse_action() -> None:
    assert parse_action("deltacommit") is Action.DELTA_COMMIT
    assert parse_action("DELTA_COMMIT") is None
    assert parse_action(None) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-02", "20240102000000000"),
        ("2024-01-02 03:04:05", "20240102030405999"),
        ("2024-01-02T03:04:05", "20240102030405999"),
        ("2024-01-02 03:04:05.678", T),
        ("2024-01-02T03:04:05.678901", T),
        ("20240102030405", "20240102030405999"),
        (T, T),
        ("2024-02-29", "20240229000000000"),
    ],
)
def test_query_instants(text: str, expected: str) -> None:
    assert parse_query_instant(text, LOCAL) == expected
    assert parse_query_instant(text, TimelineTimezone.UTC) == expected


@pytest.mark.parametrize("text", ["00000000000001", "00000000000002"])
def test_instants_of_a_bootstrap_are_no_times(text: str) -> None:
    assert parse_query_instant(text, TimelineTimezone.UTC) == text


def test_an_instant_of_seconds_takes_in_its_whole_second() -> None:
    parsed = parse_query_instant("20240102030405", LOCAL)
    assert parsed >= "20240102030405"
    assert T <= parsed < "20240102030406"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-02 03:04:05.678Z", T),
        ("2024-01-02T05:04:05.678+02:00", T),
        ("2024-01-01 22:04:05-05:00", "20240102030405999"),
    ],
)
def test_a_zone_is_converted_to_a_timeline_in_utc(text: str, expected: str) -> None:
    assert parse_query_instant(text, TimelineTimezone.UTC) == expected
    with pytest.raises(QueryError, match="without a zone"):
        parse_query_instant(text, LOCAL)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "latest",
        "earliest",
        "000",
        "1704164645",
        "1704164645678",
        "202401020304",
        "2024-1-2",
        "2024-01-02 03:04",
        "2024-01-02 03:04:05.6",
        "2024-01-02  03:04:05",
        " 2024-01-02",
        "2024-13-02",
        "2023-02-29",
        "2024-01-02 24:00:00",
        "2024-01-02 03:60:00",
        "20240132030405678",
        "00000000000000000",
        "2024-01-02Z",
        "\u0662024-01-02",
    ],
)
def test_what_is_no_instant(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_query_instant(text, LOCAL, "as of")
    assert caught.value.argument == "as of"
    assert caught.value.found == repr(text)
    assert "yyyy-MM-dd" in caught.value.expected


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (date(2024, 1, 2), "20240102000000000"),
        (datetime(2024, 1, 2, 3, 4, 5, 678_999), T),  # noqa: DTZ001 - without a zone, as users have it
        (datetime(2024, 1, 2, 3, 4, 5), "20240102030405000"),  # noqa: DTZ001
        (pd.Timestamp("2024-01-02 03:04:05.678901234"), T),
    ],
)
def test_a_date_and_a_datetime_without_a_zone_are_in_the_zone_of_the_timeline(moment: date, expected: str) -> None:
    for zone in TimelineTimezone:
        assert parse_query_instant(moment, zone) == expected
        assert parse_begin_instant(moment, zone) == expected


@pytest.mark.parametrize("hours", [0, 2, -5.5])
def test_a_datetime_with_a_zone_is_converted_to_a_timeline_in_utc(hours: float) -> None:
    zone = timezone(timedelta(hours=hours))
    moment = datetime(2024, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC).astimezone(zone)
    assert parse_query_instant(moment, TimelineTimezone.UTC) == T
    with pytest.raises(QueryError, match="without a zone"):
        parse_query_instant(moment, LOCAL)


@pytest.mark.parametrize(
    "moment", [None, 20240102, b"2024-01-02", pd.NaT, datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))]
)
def test_what_is_no_moment(moment: Any) -> None:
    for parse in (parse_query_instant, parse_begin_instant):
        with pytest.raises(QueryError) as caught:
            parse(moment, TimelineTimezone.UTC, "up_to")
        assert caught.value.argument == "up_to"


@pytest.mark.parametrize("zone", ["+99:99", "+24:00", "-23:60"])
def test_what_is_no_zone(zone: str) -> None:
    with pytest.raises(QueryError):
        parse_query_instant(f"2024-01-02 03:04:05{zone}", TimelineTimezone.UTC)


def test_a_moment_before_the_calendar_is_refused() -> None:
    with pytest.raises(QueryError):
        parse_query_instant("0001-01-01 00:00:00+01:00", TimelineTimezone.UTC)


@pytest.mark.parametrize("text", ["000", "earliest", "0", "0" * 17])
def test_begin_before_everything(text: str) -> None:
    assert parse_begin_instant(text, LOCAL) == "0" * 17


def test_begin_at_an_instant() -> None:
    assert parse_begin_instant(T, LOCAL) == T
    with pytest.raises(QueryError) as caught:
        parse_begin_instant("", LOCAL)
    assert caught.value.argument == "after"


def test_instants_are_values() -> None:
    one = instant(Action.COMMIT, InstantState.COMPLETED, C)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.is_completed
    assert not instant(Action.COMMIT, InstantState.INFLIGHT).is_completed


@pytest.mark.parametrize(
    ("earlier", "later", "seconds"),
    [
        ("20260131235959", "20260201000000500", 1.5),
        ("20260131235959999", "20260131235959998", -0.001),
        ("00000000000000", "20260131235959", None),
        ("20260131235959", "20261331235959", None),
        ("20260131235959", "2026", None),
    ],
)
def test_the_seconds_between_instants(earlier: str, later: str, seconds: float | None) -> None:
    assert seconds_between(earlier, later) == seconds
