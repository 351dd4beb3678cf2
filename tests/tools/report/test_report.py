import re
from dataclasses import replace
from pathlib import Path

import pytest

from hudi_bridge import HudiTable, QueryError
from hudi_bridge.tools import SliceCost
from hudi_bridge.tools.report import gather, html_report
from hudi_bridge.tools.report.contents import TimelineEntry, compaction_gains, partition_costs
from hudi_bridge.tools.report.page import (
    MAX_ALL_SLICES,
    MAX_DRAWN,
    MAX_INSTANTS,
    MAX_PARTITIONS,
    MAX_SLICES,
    draw_timeline,
    duration_text,
    time_text,
)
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at
from tests.timeline.timeline_files import clean
from tests.tools.report.reports import BREAKOUT, FOLDER, IMAGE, SLICES, Page, all_slices, hostile_table, large, trips


def test_the_parts_of_a_page() -> None:
    page = Page(html_report(trips("trip-7", "trip-1")))
    for title in ("Findings", "Timeline", "File slices", "What compaction would give", "Schema", "Records"):
        assert title in page.texts
    assert page.data["names"] == ["nyc", "sf", "la"]
    assert [row[:2] for row in page.data["partitions"]] == [[0, 2], [1, 2], [2, 1]]
    assert sum(row[11] for row in page.data["partitions"]) == pytest.approx(1, abs=0.001)
    assert [row[4:6] for row in page.data["slices"]] == [[3, 3], [3, 3], [0, 0], [0, 0], [0, 0]]
    rows = {row[0]: row for row in page.data["instants"]}
    assert rows["20261122081117834"][1:8] == ["deltacommit", "completed", 0.801, "UPSERT", 2, 2, 0]
    assert "all with logs" in page.texts
    assert "the first version" in page.texts
    assert "loses to 2: lower ordering 15 than 20" in page.texts
    assert "replaces 1: delete without an ordering value; wins" in page.texts
    assert "No row is left." in page.texts


def test_hostile_names_are_text(tmp_path: Path) -> None:
    writer = hostile_table(tmp_path)
    text = html_report(gather(writer.open(), ["<script>window.hacked = 1</script>"], now="2026-01-03"))
    page = Page(text)
    # Two scripts of its own: the data, and the program.
    assert (page.open, len(page.scripts), text.count("<script")) == ([], 2, 2)
    assert "img" not in page.tags
    assert not re.search(r"[<>&\u2028\u202e]", page.scripts[0])
    assert not re.search("[\u2028\u202e\x1b]", text)
    assert BREAKOUT in page.texts
    assert page.data["names"] == [FOLDER]
    extra = page.data["instants"][1][9]["extra"]
    assert [BREAKOUT, IMAGE] in extra
    assert any(value.endswith(r"txt\u202egpj.exe\u2028") for _, value in extra)
    assert any(r"1<script>alert(1)<script>\x1b.commit" in item for item in page.texts)
    assert any(r"txt\u202egpj.exe\u2028" in item for item in page.texts)


def test_a_page_of_10_000_slices_is_small() -> None:
    text = html_report(large())
    assert len(text.encode()) < 1_500_000
    page = Page(text)
    assert (len(page.data["slices"]), len(page.data["partitions"])) == (SLICES, 200)
    assert sum(row[1] for row in page.data["partitions"]) == SLICES


@pytest.mark.long
def test_a_page_of_more_than_it_may_hold_says_what_is_left_out() -> None:
    report = large()
    many = tuple(
        replace(cost, partition_path=f"{number:x}", file_id=f"{number}")
        for number, cost in enumerate(report.diagnosis.slices * 3)
    )
    instants = tuple(replace(report.timeline[0], requested_time=f"{number:017}") for number in range(MAX_INSTANTS + 1))
    findings = report.diagnosis.findings * 20
    report = replace(
        report,
        diagnosis=replace(report.diagnosis, slices=many, findings=findings),
        partitions=partition_costs(many),
        timeline=instants,
        slices=all_slices(MAX_ALL_SLICES + SLICES),
    )
    text = html_report(report)
    assert len(text.encode()) < 6_000_000
    page = Page(text)
    assert [len(page.data[name]) for name in ("slices", "partitions", "instants")] == [
        MAX_SLICES,
        MAX_PARTITIONS,
        MAX_INSTANTS,
    ]
    # Slices of partitions that are left out still say where they are.
    assert max(row[0] for row in page.data["slices"]) < len(page.data["names"])
    assert page.data["instants"][-1][9]["number"] == MAX_INSTANTS
    for there, most, what in (
        ("30,000", "20,000", "file slices"),
        ("30,000", "10,000", "partitions"),
        ("5,001", "5,000", "instants"),
        ("5,001", "400", "instants"),
        ("30,000", "20,000", "file slices"),
        ("800", "500", "findings"),
    ):
        assert any(item.startswith(f"{most} of {there} {what}: ") for item in page.texts), what


def test_a_table_without_commits(tmp_path: Path) -> None:
    page = Page(html_report(gather(TableWriter(folder=tmp_path).create().open())))
    assert "The active timeline is empty." in page.texts
    assert "There are no file slices." in page.texts
    assert "No file slice has logs: there is nothing to compact." in page.texts
    assert "none yet" in page.texts


def test_a_copy_on_write_table_has_nothing_to_compact() -> None:
    page = Page(html_report(gather(HudiTable.open(golden_table("i_cow_120")))))
    assert "A copy-on-write table has no logs to compact." in page.texts


def test_a_compaction_that_is_planned_is_named(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    base = writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])
    writer.commit(at(1), wrote=[base])
    writer.pending_compaction(at(2), [("", "f1-0")])
    page = Page(html_report(gather(writer.open(), now="2026-01-03")))
    assert f"Planned, and not completed: the compaction {at(2)}." in page.texts
    assert page.data["names"] == ["(none)"]


def test_parts_that_cannot_be_read_are_named_and_the_others_shown(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    row = {"id": "a", "ts": 1, "value": "x"}
    base = writer.base_file(at(1), [row])
    writer.commit(at(1), wrote=[base])
    log = writer.log_file(at(2), [writer.data_block(at(2), [row])])
    writer.commit(at(2), wrote=[log])
    table = writer.open()
    (damaged,) = writer.timeline_folder.glob(f"{at(1)}*")
    damaged.write_bytes(b"Obj\x01nothing")
    base.write_bytes(b"nothing")
    page = Page(html_report(gather(table, ["a"])))
    assert {"commits", "story of 'a'"} <= set(page.texts)
    assert [row[1:3] for row in page.data["instants"]] == [["deltacommit", "completed"]] * 2
    assert "error" in page.texts


def test_a_key_that_is_no_text_is_refused() -> None:
    with pytest.raises(QueryError, match="lone surrogates"):
        trips("\ud800")


def test_an_action_that_was_requested_after_now_has_no_age(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    writer.pending(at(1))
    table = writer.open()
    assert [entry.seconds for entry in gather(table, now="2026-01-01 00:01:00").timeline] == [60.899]
    assert [entry.seconds for entry in gather(table, now="2025-12-31").timeline] == [None]


def cost(log_bytes: int, *, writes: int = 1, base_bytes: int = 100) -> SliceCost:
    return SliceCost(
        partition_path="p",
        file_id=str(log_bytes),
        base_bytes=base_bytes,
        log_bytes=log_bytes,
        log_files=min(1, log_bytes),
        delta_commits=writes,
        log_ratio=None,
        merge_bytes=log_bytes,
        is_overdue=writes >= 5,
    )


def test_what_a_compaction_gives() -> None:
    costs = [cost(100 - number, writes=5 if number < 2 else 1) for number in range(20)] + [cost(0)] * 5
    every, overdue, first = compaction_gains(costs, 5)
    assert (every.slices, every.saved_bytes, every.saved_share) == (20, 1810, 1.0)
    assert (every.read_bytes, every.least_written_bytes) == (3810, 2000)
    assert (overdue.slices, overdue.saved_bytes) == (2, 199)
    assert (first.slices, first.saved_bytes, first.saved_share) == (10, 955, 955 / 1810)
    assert compaction_gains([cost(0)], 5) == ()
    assert [gain.slices for gain in compaction_gains([cost(7)], 5)] == [1]


def entry(number: int, action: str, state: str = "completed", seconds: float | None = 1.0) -> TimelineEntry:
    return TimelineEntry(
        requested_time=at(number),
        action=action,
        state=state,
        completion_time=None,
        seconds=seconds,
        operation=None,
        rows_inserted=None,
        rows_updated=None,
        rows_deleted=None,
        bytes_written=None,
        extra_metadata=(),
    )


def test_a_drawn_timeline_has_a_mark_for_each_instant_in_the_lane_of_its_action() -> None:
    entries = [
        entry(1, "deltacommit", seconds=2.0),
        entry(2, "compaction", "inflight", 7200.0),
        entry(3, "clean", "requested", 60.0),
        entry(4, "rollback", seconds=None),
    ]
    drawing = draw_timeline(entries)
    instants = re.findall(
        r'<g class="instant (\w+) (\w+)" data-instant="(\d+)" role="img" aria-label="([^"]*)">', drawing
    )
    assert instants == [
        ("write", "completed", "0", f"{at(1)} deltacommit completed, 2.0 s"),
        ("service", "inflight", "1", f"{at(2)} compaction inflight for 2.0 h"),
        ("service", "requested", "2", f"{at(3)} clean requested for 1.0 min"),
        ("undo", "completed", "3", f"{at(4)} rollback completed"),
    ]
    assert re.findall(r'x="0" y="[\d.]+">(\w+)<', drawing) == ["deltacommit", "compaction", "clean", "rollback"]
    marks = [re.findall(r'class="mark" x="[\d.]+" y="([\d.]+)"', part) for part in drawing.split("</g>")[:4]]
    assert [len(mark) for mark in marks] == [2, 2, 2, 1]
    assert len({mark[0] for mark in marks}) == 4
    # The longer one is higher.
    assert float(marks[1][1]) < float(marks[2][1]) < float(marks[0][1])


def test_of_a_long_timeline_the_newest_are_drawn() -> None:
    drawing = draw_timeline([entry(number, "commit", seconds=-3.0) for number in range(MAX_DRAWN + 100)])
    numbers = re.findall(r'data-instant="(\d+)"', drawing)
    assert (len(numbers), numbers[0], numbers[-1]) == (MAX_DRAWN, "100", str(MAX_DRAWN + 99))


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.04, "0.0 s"), (59, "59.0 s"), (90, "1.5 min"), (7200, "2.0 h"), (216_000, "2.5 days")]
)
def test_durations_for_people(seconds: float, expected: str) -> None:
    assert duration_text(seconds) == expected


def test_times_for_people() -> None:
    assert time_text("20260131120000123") == "2026-01-31 12:00:00"
    assert time_text("00000000000001") == "00000000000001"


def test_slices_of_all_times_are_drawn_by_group(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    row = {"id": "a", "ts": 1, "value": "x"}
    old = writer.base_file(at(1), [row])
    writer.commit(at(1), wrote=[old])
    log = writer.log_file(at(2), [writer.data_block(at(2), [row])])
    writer.commit(at(2), wrote=[log])
    new = writer.base_file(at(3), [row])
    writer.commit(at(3), action="commit", wrote=[new], operation="COMPACT")
    (writer.timeline_folder / f"{at(5)}_{at(6)}.clean").write_bytes(clean(at(4)))
    writer.base_file(at(7), [row], file_id="f2-0")
    writer.pending(at(7))
    page = Page(html_report(gather(writer.open(), now="2026-01-03")))
    states, times = page.data["states"], page.data["times"]
    assert len(times) == 4
    (name, file_id, (first, second), problem), (_, other, (unfinished,), _) = page.data["groups"]
    assert (page.data["names"][name], file_id, other, problem) == ("(none)", "f1-0", "f2-0", None)
    assert (first[:2], states[first[2]], first[3], first[5], first[9]) == ([0, 2], "superseded", 1, 1, [1])
    assert (second[:2], states[second[2]], second[3], second[5]) == ([2, None], "current", 0, 0)
    assert (unfinished[:2], states[unfinished[2]]) == ([3, None], "pending")
    assert any(text.startswith("The cleaner may remove 1 slice of ") for text in page.texts)


def test_plans_under_way_say_what_ends_them(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    writer.commit(at(1), wrote=[writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])])
    writer.pending_compaction(at(2), [("", "f1-0")])
    writer.pending(at(3), "clean")
    page = Page(html_report(gather(writer.open(), now="2026-01-03")))
    assert {"compaction", "clean", "2.0 days"} <= set(page.texts)
    assert any(at(2) in text and "run_compaction" in text for text in page.texts)
    assert "Nothing is under way." in Page(html_report(trips())).texts


def test_partitions_have_sizes_shares_rows_and_the_newest_commit() -> None:
    rows = {page[0]: page for page in Page(html_report(trips())).data["partitions"]}
    _, slices, size, share, base, logs, base_rows, newest, *_ = rows[0]
    assert (slices, size, base_rows > 0) == (2, base + logs, True)
    assert share == pytest.approx(logs / size, abs=0.001)
    assert newest.startswith("2026-11-22 08:11:")
