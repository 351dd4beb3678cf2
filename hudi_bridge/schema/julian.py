"""Dates and times of the hybrid calendar, which is the Julian one up to 1582, as those of the proleptic Gregorian one.

Spark up to 2.4 writes them, and later releases that are told to. A date or a local time keeps its year, month and day,
so that it becomes another number. A date that only the Julian calendar has, as 1500-02-29, becomes the next day.

Source: ``RebaseDateTime`` of Spark.
"""

import re
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_bridge.schema.julian_zones import JulianZone, julian_zones

Array = Any
Integers = npt.NDArray[np.int64]

FIRST_GREGORIAN_DAY = -141_427
"""1582-10-15, in days since 1970; the day before is 1582-10-04."""
_DAY = 86_400
_FIRST_GREGORIAN_SECOND = FIRST_GREGORIAN_DAY * _DAY
_FIRST_SECOND = -62_135_769_600
"""0001-01-01 of the Julian calendar."""
_END_OF_SHIFTS = -2_208_988_800
"""1900-01-01 in UTC, in seconds since 1970. From then on, there is no difference in any time zone."""
_DAYS_FROM_MARCH_0 = 719_470
"""From 0000-03-01 of the Julian calendar to 1970-01-01."""
_DAYS_OF_FOUR_YEARS = 1_461
_MOST_BETWEEN_ZONES = 2 * _DAY
_LEAST_TIME = -(2**63)
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# What ``java.util.TimeZone`` makes of a name that it does not know.
_OFFSET_OF_GMT = re.compile(r"GMT([+-])(\d\d?)(?::?(\d\d))?")
_OTHER_OFFSET = re.compile(r"(UTC?)?[+-][0-9:]+|Z")


@cache
def julian_zone(name: str) -> JulianZone | None:
    """The time zone of a name as Spark understands it; None if it is not known."""
    known = julian_zones().get(name)
    if known is not None:
        return known
    if (found := _OFFSET_OF_GMT.fullmatch(name)) is not None:
        sign, hours, minutes = found.groups(default="0")
        return JulianZone(int(f"{sign}1") * (int(hours) * 3600 + int(minutes) * 60))
    return JulianZone(0) if _OTHER_OFFSET.fullmatch(name) else None


def first_unchanged(kind: Any, zone: JulianZone | None) -> int:  # noqa: ANN401 - a type of Arrow
    """The first value, as Arrow stores it, from which on all values stay as they are; in any zone, if it is None."""
    if pa.types.is_date32(kind):
        return FIRST_GREGORIAN_DAY
    if zone is None:
        return _END_OF_SHIFTS * _UNITS[kind.unit]
    return max((_FIRST_GREGORIAN_SECOND - zone.offset, *zone.switches[-1:])) * _UNITS[kind.unit]


def first_known(kind: Any, zone: JulianZone | None) -> int | None:  # noqa: ANN401 - a type of Arrow
    """The first value, as Arrow stores it, from which on the results are known; None if all are.

    Those of times before the year 1 depend on the time zones that a release of Java knows, except in UTC.
    """
    if pa.types.is_date32(kind) or zone == JulianZone(0):
        return None
    return first_unchanged(kind, None) if zone is None else (_FIRST_SECOND - zone.offset) * _UNITS[kind.unit]


def gregorian(values: Array, zone: JulianZone | None) -> Array:
    """An array of dates or times, which are local ones of a time zone, in the proleptic Gregorian calendar.

    Dates are the same in all zones; times that are not ``first_known`` or later have no meaning.
    """
    is_date = pa.types.is_date32(values.type)
    whole = pa.int32() if is_date else pa.int64()
    numbers = values.view(whole).fill_null(0).to_numpy().astype(np.int64)
    early = np.flatnonzero(numbers < first_unchanged(values.type, zone))
    if not len(early):
        return values
    found = numbers[early]
    numbers[early] = (
        _gregorian_days(found) if is_date else _gregorian_times(found, zone or JulianZone(0), _UNITS[values.type.unit])
    )
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(numbers.astype(np.int32) if is_date else numbers, whole, mask=mask).view(values.type)


def _gregorian_days(days: Integers) -> Integers:
    # Years begin in March, so that a day that is left out is the last of its year.
    years = (4 * (days + _DAYS_FROM_MARCH_0) + 3) // _DAYS_OF_FOUR_YEARS
    between = 2 + years // 400 - years // 100
    rebased: Integers = days + np.where(days < FIRST_GREGORIAN_DAY, between, 0)
    return rebased


def _gregorian_times(times: Integers, zone: JulianZone, units: int) -> Integers:
    seconds = times // units
    local_days = (seconds + zone.offset) // _DAY
    shifts = np.array([*zone.shifts, 0])[np.searchsorted(zone.switches, seconds, side="right")]
    rebased: Integers = times + ((_gregorian_days(local_days) - local_days) * _DAY + shifts) * units
    return rebased


def widened(low: int, high: int, kind: Any) -> tuple[int, int]:  # noqa: ANN401 - a type of Arrow
    """A range that holds the values of another one, whichever of the calendars they are of, and in all time zones.

    The ends are days of dates, or the numbers of times that Arrow stores.
    """
    if pa.types.is_date32(kind):
        first, last = _gregorian_days(np.array([low, high])).tolist()
        return min(low, first), max(high, last)
    units = _UNITS[kind.unit]
    end, margin = _END_OF_SHIFTS * units, _MOST_BETWEEN_ZONES * units
    if low < end:
        low = max(min(low, _gregorian_time(low - margin, units)) - margin, _LEAST_TIME)
    if high < end + margin:
        high = max(high, _gregorian_time(high + margin, units)) + margin
    return low, high


def _gregorian_time(time: int, units: int) -> int:
    found: int = _gregorian_times(np.array([max(time, _LEAST_TIME)]), JulianZone(0), units)[0].item()
    return found
