"""Base files with dates and times of the hybrid calendar, as Spark writes them if it is told to.

What is expected is what Hudi 1.2.0 on Spark 3.5 returned for such files.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import UnsupportedTableError
from tests.readers.legacy_dates import DATE, DAY, FIELDS, LEGACY, RETURNED, SECOND, STORED, TIME, plain, write
from tests.support.table_writer import TableWriter, at

LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
LEGACY_96 = {
    "org.apache.spark.version": "3.5.9",
    "org.apache.spark.legacyINT96": "",
    "org.apache.spark.timeZone": "UTC",
}


def numbers(table: TableWriter, column: str) -> list[int | None]:
    """The values of a column as Arrow stores them; a filter has each slice read alone."""
    together = table.open().snapshot().to_table()
    alone = table.open().snapshot().to_table(filter=pc.field("ts") > 0)
    assert together.equals(alone)
    values: Any = alone.column(column).combine_chunks()
    return plain(values)


@pytest.mark.parametrize(
    ("facts", "is_rebased"),
    [
        (LEGACY, True),
        ({"org.apache.spark.version": "2.4.8", "org.apache.spark.timeZone": "UTC"}, True),
        ({"org.apache.spark.version": "3.0.0"}, False),
        (LEGACY_96, False),
        # Spark takes the mode from its settings.
        ({"org.apache.spark.legacyDateTime": ""}, False),
    ],
)
def test_the_footer_tells_the_calendar(tmp_path: Path, facts: Mapping[str, str], is_rebased: bool) -> None:
    table = write(tmp_path / "table", facts)
    expected = RETURNED if is_rebased else STORED
    assert numbers(table, "d") == list(expected)
    assert numbers(table, "t") == [day * DAY for day in expected]


@pytest.mark.parametrize(
    ("facts", "is_rebased"),
    [
        (LEGACY_96, True),
        ({"org.apache.spark.version": "3.0.3", "org.apache.spark.timeZone": "UTC"}, True),
        ({"org.apache.spark.version": "3.1.0"}, False),
        (LEGACY, False),
    ],
)
def test_times_of_96_bits_have_a_calendar_of_their_own(
    tmp_path: Path, facts: Mapping[str, str], is_rebased: bool
) -> None:
    table = write(tmp_path / "table", facts, use_deprecated_int96_timestamps=True)
    assert numbers(table, "t") == [day * DAY for day in (RETURNED if is_rebased else STORED)]


def test_nested_values_are_rebased(tmp_path: Path) -> None:
    inner = {"type": "record", "name": "i", "fields": [{"name": "t", "type": ["null", TIME]}]}
    both = [{"name": "d", "type": ["null", DATE]}, {"name": "in", "type": ["null", inner]}]
    record = {"type": "record", "name": "s", "fields": both}
    fields = (
        *FIELDS,
        ("s", record),
        ("l", {"type": "array", "items": ["null", DATE]}),
        ("m", {"type": "map", "values": ["null", TIME]}),
    )
    table = write(tmp_path / "table", LEGACY, (*STORED, None), fields=fields)
    days, times = [*RETURNED, None], [*(day * DAY for day in RETURNED), None]
    actual: Any = table.open().snapshot().to_table()
    assert plain(pc.struct_field(actual["s"].combine_chunks(), ["d"])) == days
    assert plain(pc.struct_field(actual["s"].combine_chunks(), ["in", "t"])) == times
    assert plain(actual["l"].combine_chunks().flatten())[::2] == days
    assert plain(actual["m"].combine_chunks().items) == times


def test_local_times_stay_as_they_are(tmp_path: Path) -> None:
    table = write(tmp_path / "table", LEGACY, fields=(*FIELDS, ("n", LOCAL)))
    assert numbers(table, "n") == [day * DAY for day in STORED]


def test_times_are_those_of_the_time_zone_of_the_writer(tmp_path: Path) -> None:
    # In Berlin: 0001-01-01 00:00:00, 1500-03-01 12:00:00.123456, 1582-10-04 23:59:59 and 1890-10-15 00:00:00.
    stored = (-62_135_773_200_000_000, -14_825_768_399_876_544, -12_219_296_401_000_000, -2_499_210_000_000_000)
    returned = (-62_135_600_008_000_000, -14_826_632_007_876_544, -12_220_160_009_000_000, -2_499_209_608_000_000)
    facts = LEGACY | {"org.apache.spark.timeZone": "Europe/Berlin"}
    assert numbers(write(tmp_path / "table", facts, [0] * 4, stored), "t") == list(returned)


@pytest.mark.parametrize(
    ("zone", "second"),
    [(None, -2_208_988_801), ("America/Ciudad_Juarez", -2_208_988_801), ("Europe/Berlin", -62_135_773_201)],
)
def test_times_of_an_unknown_time_zone_are_refused(tmp_path: Path, zone: str | None, second: int) -> None:
    facts = {"org.apache.spark.version": "2.4.8"} | ({} if zone is None else {"org.apache.spark.timeZone": zone})
    table = write(tmp_path / "new", facts, STORED, [None, *(19_723 * DAY + number for number in range(4))])
    assert numbers(table, "d") == list(RETURNED)
    ways: dict[str, Any] = {
        "stats": {},
        "without": {"write_statistics": False},
        "96": {"use_deprecated_int96_timestamps": True},
    }
    for name, options in ways.items():
        table = write(tmp_path / name, facts, STORED, [0, 0, 0, 0, second * SECOND], **options)
        for row_filter in None, pc.field("ts") > 0:
            with pytest.raises(UnsupportedTableError, match=r"calendar of Spark 2: found t with local times"):
                table.open().snapshot().to_table(filter=row_filter)
        assert table.open().snapshot().to_table(columns=["d"]).num_rows == len(STORED)


def test_what_is_stored_passes_over_no_row_group(tmp_path: Path) -> None:
    table = write(tmp_path / "table", LEGACY, row_group_size=1)
    for stored, returned in zip(STORED, RETURNED, strict=True):
        for column, kind, factor in (("d", pa.int32(), 1), ("t", pa.int64(), DAY)):
            expected: Any = pa.array([returned * factor], kind).view(table.arrow_schema.field(column).type)[0]
            snapshot = table.open().snapshot()
            actual = snapshot.to_table(filter=pc.field(column) == expected)
            assert plain(actual.column(column).combine_chunks()) == [returned * factor], stored
            wider = snapshot.to_table(filter=(pc.field(column) == expected) & (pc.field("ts") < 2))
            assert wider.num_rows == 1


def test_what_is_stored_passes_over_no_slice(tmp_path: Path) -> None:
    table = write(tmp_path / "table", LEGACY, [STORED[0]]).open()
    expected: Any = pa.array([RETURNED[0]], pa.int32()).view(pa.date32())[0]
    # The first query reads the footer, and the second one knows it.
    for _ in range(2):
        assert table.snapshot().to_table(filter=pc.field("d") == expected).num_rows == 1


def test_log_records_are_as_stored(tmp_path: Path) -> None:
    table = write(tmp_path / "table", LEGACY)
    row = {"id": "0", "ts": 2, "d": STORED[1], "t": STORED[1] * DAY}
    table.log_file(at(2), [table.data_block(at(2), [row])])
    table.commit(at(2))
    actual = table.open().snapshot().to_table().sort_by("id")
    assert plain(actual["d"].combine_chunks()) == [STORED[1], *RETURNED[1:]]
