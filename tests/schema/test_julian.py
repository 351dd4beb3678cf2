"""Dates and times of the hybrid calendar, compared with the tables that Spark rebases by."""

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyspark
import pytest

from hudi_bridge.schema.julian import (
    JulianZone,
    first_known,
    first_unchanged,
    gregorian,
    julian_zone,
    julian_zones,
    widened,
)
from tests.support.strength import one_in

MICROSECONDS = 10**6
TIMES = pa.timestamp("us", "UTC")
UTC = JulianZone(0)
PARTS = 10
"""Of the tables of Spark, which are some hundred."""


@pytest.fixture(scope="module")
def tables() -> dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """The table of each time zone: from which second on which difference counts."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-sql-api_*.jar")
    with ZipFile(jar) as opened:
        zones = json.loads(opened.read("julian-gregorian-rebase-micros.json"))
    return {zone["tz"]: (np.array(zone["switches"]), np.array(zone["diffs"])) for zone in zones}


def times(seconds: Sequence[int] | npt.NDArray[np.int64], fraction: int = 0) -> Any:
    return pa.array(np.array(seconds) * MICROSECONDS + fraction, pa.int64()).view(TIMES)


def rebased(values: Any, zone: JulianZone | None) -> list[int | None]:
    actual: list[int | None] = gregorian(values, zone).view(pa.int64()).to_pylist()
    return actual


def test_the_zones_are_those_of_spark(tables: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]) -> None:
    assert tables.keys() == julian_zones().keys()


@pytest.mark.parametrize("first", one_in(PARTS, range(PARTS)))
def test_times_are_those_of_the_tables_of_spark(
    tables: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]], first: int
) -> None:
    for name in list(tables)[first::PARTS]:
        switches, differences = tables[name]
        seconds = np.concatenate([switches, switches[1:] - 1, np.linspace(switches[0], 10**9, 200, dtype=np.int64)])
        expected = seconds + differences[np.searchsorted(switches, seconds, side="right") - 1]
        zone = julian_zone(name)
        assert rebased(times(seconds, 123_456), zone) == (expected * MICROSECONDS + 123_456).tolist(), name
        assert first_unchanged(TIMES, zone) == switches[-1] * MICROSECONDS
        for stored, result in zip(seconds * MICROSECONDS, expected * MICROSECONDS, strict=True):
            low, high = widened(int(stored), int(stored), TIMES)
            assert low <= min(stored, result) <= max(stored, result) <= high


def test_dates_are_those_of_the_table_of_utc(
    tables: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]],
) -> None:
    switches, differences = (table // 86_400 for table in tables["UTC"])
    days = np.concatenate([switches, switches[1:] - 1, np.arange(-719_164, 20_000, 97)])
    expected = days + differences[np.searchsorted(switches, days, side="right") - 1]
    dates = pa.array(days, pa.int32()).view(pa.date32())
    assert gregorian(dates, UTC).view(pa.int32()).to_pylist() == expected.tolist()
    # As Spark 3.5 has them, which computes dates before the year 1.
    dates = pa.array([-4_996_286, -719_165, None], pa.int32()).view(pa.date32())
    assert gregorian(dates, None).view(pa.int32()).to_pylist() == [-4_996_196, -719_163, None]


def test_dates_in_a_range_stay_in_the_wider_one() -> None:
    days = range(-800_000, -141_000, 577)
    dates = pa.array(days, pa.int32()).view(pa.date32())
    for stored, result in zip(days, gregorian(dates, None).view(pa.int32()).to_pylist(), strict=True):
        low, high = widened(stored, stored, pa.date32())
        assert low <= min(stored, result) <= max(stored, result) <= high
    assert widened(-141_427, 10, pa.date32()) == (-141_427, 10)
    assert widened(-719_164, 10, pa.date32()) == (-719_164, 10)
    assert widened(-719_164, -141_428, pa.date32()) == (-719_164, -141_428)
    assert widened(-(2**63), 2**63 - 1, TIMES) == (-(2**63), 2**63 - 1)
    assert widened(-(2**31), 2**31 - 1, pa.date32()) == (-(2**31), 2**31 - 1)
    assert widened(-2_208_988_800, 0, pa.timestamp("s", "UTC")) == (-2_208_988_800, 0)


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("UTC", UTC),
        ("+01:00", UTC),
        ("UTC+01:00", UTC),
        ("Z", UTC),
        ("GMT+01:00", JulianZone(3_600)),
        ("GMT+1", JulianZone(3_600)),
        ("GMT-0330", JulianZone(-12_600)),
        ("Europe/Berlin", JulianZone(3_600, (392,), (-2_422_054_408,))),
        ("America/Ciudad_Juarez", None),
        ("", None),
    ],
)
def test_names_of_time_zones_mean_what_they_mean_to_java(name: str, zone: JulianZone | None) -> None:
    assert julian_zone(name) == zone


def test_units_and_nulls_stay() -> None:
    for unit, units in ("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9):
        second = -12_219_292_801 if unit != "ns" else -9_000_000_000
        difference = 10 * 86_400 if unit != "ns" else 0
        values = pa.array([second * units, None, 0], pa.int64()).view(pa.timestamp(unit, "UTC"))
        assert rebased(values, UTC) == [(second - difference) * units, None, 0]
    zone = JulianZone(3_600, (392,), (-2_422_054_408,))
    assert rebased(times([-2_422_054_409, -2_422_054_408]), zone) == [-2_422_054_017 * 10**6, -2_422_054_408 * 10**6]


def test_what_needs_no_work_is_not_copied() -> None:
    values = times([-2_208_988_800, 0])
    assert gregorian(values, None) is values


def test_what_is_known_depends_on_the_time_zone() -> None:
    assert [first_known(pa.date32(), zone) for zone in (None, UTC)] == [None, None]
    assert first_known(TIMES, UTC) is None
    assert first_known(TIMES, JulianZone(3_600)) == -62_135_773_200 * MICROSECONDS
    assert first_known(TIMES, None) == first_unchanged(TIMES, None) == -2_208_988_800 * MICROSECONDS


def test_every_zone_has_a_switch_after_each_shift() -> None:
    for zone in julian_zones().values():
        assert len(zone.shifts) == len(zone.switches)
        assert list(zone.switches) == sorted(set(zone.switches))
    assert all(chain.from_iterable(zone.shifts[-1:] for zone in julian_zones().values()))
