"""What the suite of benchmarks says about its runs; these runs are made up."""

import ctypes
import dataclasses
import io
import mmap
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from benchmarks import aims, growth, measurement, page, plot, run, rust_programs, steps, turns
from benchmarks.aims import MEASURES, Aims
from benchmarks.contenders import Contender
from benchmarks.reader_hudi_rs_0_6 import RustReads
from benchmarks.reader_process import ReaderProcess, ReadFailedError
from benchmarks.readings import (
    BUNDLE,
    DUCKDB,
    FLOOR,
    FLOOR_WITH_KEY,
    NEWEST_PEER,
    OURS,
    PEER,
    SAME,
    STALE,
    Line,
    Reading,
    Run,
)
from benchmarks.recipes import Recipe
from benchmarks.scenarios import FIRST_BATCH, FULL, ONE_PERCENT, Read
from benchmarks.suite import SIZES, Case, cases

SVG = "{http://www.w3.org/2000/svg}"


def line(reader: str, seconds: float, *, peak: float = 100, answer: str = SAME, read: str = "all columns") -> Line:
    readings = [
        Reading(
            seconds=seconds * slower,
            cpu_seconds=2 * seconds,
            peak_bytes=round(peak * 10**6),
            read_bytes=10**6,
            requests=7,
        )
        for slower in (1.5, 1.0, 1.2)
    ]
    return Line(case="updates-10", read=read, reader=reader, answer=answer, rows=1000, readings=tuple(readings))


def run_of(*lines: Line, size: str = "small") -> Run:
    return Run(
        date="2026-01-01",
        size=size,
        rounds=3,
        machine={"processor": "2 cores", "commit": "0123456789"},
        cases={"updates-10": "1,000 rows <&> more"},
        lines=lines,
    )


RUN = run_of(
    line(OURS, 1.0, peak=90),
    line(PEER, 1.8),
    line(FLOOR, 0.8, answer=STALE),
    line(DUCKDB, 0.7, answer=STALE),
    Line(case="updates-10", read="all columns", reader=BUNDLE, answer="refused: no | pipes\nor <lines>"),
)
AIMS = Aims(aims={"*": {"all columns": {"speed": 2.0, "floor": 1.4}, "*": {"memory": 1.0}}}, reached={})


def test_a_run_is_the_same_after_json(tmp_path: Path) -> None:
    RUN.save(tmp_path / "run.json")
    assert Run.from_json((tmp_path / "run.json").read_text()) == RUN


def test_json_of_another_form_is_an_error() -> None:
    with pytest.raises(TypeError, match="wall"):
        Run.from_json(RUN.to_json().replace('"seconds"', '"wall"'))


def test_ratios_are_those_of_the_best_readings() -> None:
    assert aims.ratios(RUN) == {"updates-10": {"all columns": {"speed": 1.8, "floor": 1.25, "memory": 0.9}}}


def test_a_wrong_answer_has_no_ratio() -> None:
    wrong = dataclasses.replace(line(PEER, 1.8), answer="wrong: other rows, 7 for 8")
    assert aims.ratios(RUN.with_lines([wrong])) == {"updates-10": {"all columns": {"floor": 1.25}}}


@pytest.mark.parametrize(
    ("peer_seconds", "peer_peak", "expected"),
    [(1.8, 100, []), (1.36, 100, []), (1.34, 100, ["speed"]), (9, 76, []), (9, 74, ["memory"])],
)
def test_the_check_fails_below_three_quarters_of_what_was_recorded(
    peer_seconds: float, peer_peak: int, expected: list[str]
) -> None:
    recorded = AIMS.recording(RUN)
    later = RUN.with_lines([line(PEER, peer_seconds, peak=peer_peak)])
    assert [shortfall.measure for shortfall in aims.shortfalls(recorded, later)] == expected


@pytest.mark.parametrize("peak", [-0.07, 0, 0.09, 1.0])
def test_less_memory_than_a_megabyte_counts_as_one(peak: float) -> None:
    small = RUN.with_lines([line(OURS, 1.0, peak=peak), line(PEER, 1.8, peak=2.1)])
    assert aims.ratios(small)["updates-10"]["all columns"]["memory"] == 0.5
    assert not aims.shortfalls(AIMS.recording(small), small)


def test_the_worst_of_some_runs_is_recorded() -> None:
    other = RUN.with_lines([line(PEER, 1.7), line(FLOOR, 0.5, answer=STALE), line(OURS, 1.0, peak=80)])
    worst = {"updates-10": {"all columns": {"speed": 1.7, "floor": 2.0, "memory": 0.9}}}
    assert AIMS.recording(RUN, other).reached == AIMS.recording(other, RUN).reached == {"small": worst}


def test_the_check_fails_where_our_time_has_grown_beside_the_floor() -> None:
    recorded = AIMS.recording(RUN)
    later = RUN.with_lines([line(FLOOR, 0.5, answer=STALE)])
    (actual,) = aims.shortfalls(recorded, later)
    assert str(actual) == "updates-10, all columns: our time / pyarrow on base files is 2.00, was 1.25"


def test_the_check_fails_where_an_answer_is_gone() -> None:
    (*others, _) = aims.shortfalls(
        AIMS.recording(RUN), RUN.with_lines([dataclasses.replace(RUN.lines[0], readings=())])
    )
    assert [(other.measure, other.found) for other in others] == [("speed", None), ("floor", None)]


def test_what_is_recorded_of_a_reader_is_not_missed_where_it_is_left_out() -> None:
    recorded = AIMS.recording(RUN.with_lines([line(NEWEST_PEER, 2.0)]))
    assert recorded.reached["small"]["updates-10"]["all columns"]["speed 0.6"] == 2.0
    assert not aims.shortfalls(recorded, RUN)
    (actual,) = aims.shortfalls(recorded, RUN.with_lines([line(NEWEST_PEER, 1.4)]))
    assert str(actual) == "updates-10, all columns: time of `hudi` 0.6 / ours is 1.40, was 2.00"


def test_a_reader_that_cannot_be_built_is_left_out_and_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.rust_programs.shutil.which", lambda _: None)
    rust_programs.built.cache_clear()
    actual = run.run_cases([], tmp_path, size="small", rounds=1, readers={NEWEST_PEER})
    assert actual.machine[NEWEST_PEER] == "left out: there is no cargo to build it"
    assert "hudi 0.6 is left out" in capsys.readouterr().out


def test_a_program_for_each_read_answers_as_a_process_does(tmp_path: Path) -> None:
    rows = pa.table({"qty": [1, 2]})
    with pa.ipc.new_stream(str(tmp_path / "rows"), rows.schema) as stream:
        stream.write_table(rows)
    program = tmp_path / "program"
    program.write_text(f"""#!{sys.executable}
import json, shutil, sys
task, question = sys.argv[1], json.loads(sys.argv[2])
if question["table"] == "gone":
    sys.exit("first line\\nno such table")
if "into" in question:
    shutil.copy({str(tmp_path / "rows")!r}, question["into"])
print(json.dumps({{"rows": 2, "question": question}}))
""")
    program.chmod(0o755)
    reads = RustReads(program)
    assert reads.read("check", "t", FULL) == measurement.checksum(rows.to_reader())
    asked = reads.read("time", "s3://me:secret@tables/t?region=r&endpoint_override=host:1", ONE_PERCENT)["question"]
    assert asked["table"] == "s3://tables/t"
    assert asked["storage"]["aws_endpoint"] == "http://host:1"
    assert (asked["columns"], asked["filters"], asked["delivery"]) == (None, [["qty", "<", 10]], "table")
    with pytest.raises(ReadFailedError, match=r"\Ano such table\Z"):
        reads.read("time", "gone", FULL)


def test_what_is_recorded_holds_for_its_size_and_cases_only() -> None:
    recorded = AIMS.recording(RUN)
    slow = RUN.with_lines([line(OURS, 100.0)])
    assert aims.shortfalls(recorded, slow)
    assert not aims.shortfalls(recorded, dataclasses.replace(slow, size="large"))
    assert not aims.shortfalls(recorded, run_of())


def test_more_readings_count_beside_the_first_ones() -> None:
    run = RUN.with_readings([line(OURS, 0.5, peak=300), line(PEER, 2.0)])
    assert aims.ratios(run)["updates-10"]["all columns"] == {"speed": 3.6, "floor": 0.62, "memory": 0.9}
    gone = dataclasses.replace(line(PEER, 2.0), answer="wrong: other values")
    assert "speed" not in aims.ratios(RUN.with_readings([gone]))["updates-10"]["all columns"]


def test_recording_keeps_other_sizes_and_reads(tmp_path: Path) -> None:
    first = AIMS.recording(dataclasses.replace(RUN, size="large"))
    second = first.recording(RUN).recording(run_of(line(OURS, 1.0, read="one key"), line(PEER, 3.0, read="one key")))
    second.save(tmp_path / "aims.json")
    loaded = aims.load(tmp_path / "aims.json")
    assert loaded == second
    assert {size: list(cases["updates-10"]) for size, cases in loaded.reached.items()} == {
        "large": ["all columns"],
        "small": ["all columns", "one key"],
    }


def test_a_measure_that_nobody_knows_is_an_error(tmp_path: Path) -> None:
    Aims(aims={"*": {"*": {"colour": 1.0}}}, reached={}).save(tmp_path / "aims.json")
    with pytest.raises(ValueError, match="colour"):
        aims.load(tmp_path / "aims.json")


def test_the_aims_of_the_project_name_cases_and_reads_of_the_suite() -> None:
    loaded = aims.load()
    named = {(case.name, read.name) for size in SIZES.values() for case in cases(size) for read in case.reads}
    names = {case for case, _ in named} | {aims.ANY}
    reads = {read for _, read in named} | {aims.ANY}
    assert loaded.aims.keys() <= names
    assert {read for by_read in loaded.aims.values() for read in by_read} <= reads
    assert {(case, read) for of_size in loaded.reached.values() for case, by in of_size.items() for read in by} <= named


def test_every_size_has_the_same_cases_but_for_growth_and_slices() -> None:
    def names(size: str) -> set[str]:
        return {case.name for case in cases(SIZES[size]) if not case.name.startswith(("growth", "slices", "far"))}

    assert names("small") == names("standard") == names("large")
    for size in SIZES.values():
        assert len({case.name for case in cases(size)}) == len(cases(size))


def test_the_page_shows_aims_ratios_and_reasons() -> None:
    text = page.markdown(RUN, AIMS.recording(RUN))
    assert "1,000 rows <&> more" in text
    assert "2 of 3 aims are met" in text
    cells = "1.000 (1.200) | 90 | **1.80** (aim 2) | - | 1.25 (aim 1.4) | - | 0.90 (aim 1) | - | refused | 0.70"
    assert f"| updates-10 | all columns | {cells} |" in text
    (refused,) = re.findall(r"\| Hudi on Spark \|.*", text)
    assert refused.count("|") == 9
    assert "refused: no   pipes or  lines" in refused


def test_the_page_shows_what_was_recorded_if_it_is_another() -> None:
    later = RUN.with_lines([line(PEER, 2.2)])
    text = page.markdown(later, AIMS.recording(RUN))
    assert "2.20 (aim 2, recorded 1.80)" in text
    assert "3 of 3 aims are met. None misses its aim." in text


def test_every_reader_and_measure_has_a_place_on_the_page() -> None:
    readers = (OURS, PEER, NEWEST_PEER, FLOOR, FLOOR_WITH_KEY, DUCKDB)
    of_all = run_of(*(line(name, 1.0, read="three columns") for name in readers))
    everything = Aims(aims={"*": {"*": dict.fromkeys(MEASURES, 1.0)}}, reached={})
    text = page.markdown(of_all, everything)
    for measure in MEASURES.values():
        assert measure.about in text


def test_publishing_replaces_what_is_between_the_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "DOCS", tmp_path)
    shown = tmp_path / "performance.md"
    shown.write_text("before\n<!-- figures -->\nformer text\n<!-- end of figures -->\nafter\n")
    page.publish(RUN, AIMS, Path("2026-01-01-suite-small.md"))
    text = shown.read_text()
    assert text.startswith("before\n<!-- figures -->\n\nSize `small`, 2026-01-01")
    assert text.endswith("<!-- end of figures -->\nafter\n")
    assert "former text" not in text
    assert "### Ratios" in text
    assert (tmp_path / "performance.svg").read_text() == plot.dots(RUN)


def test_the_page_of_the_documentation_has_the_marks() -> None:
    text = (page.DOCS / "performance.md").read_text()
    assert text.count("<!-- figures -->\n") == text.count("<!-- end of figures -->") == 1


def test_the_plot_has_a_mark_for_each_ratio_and_both_themes() -> None:
    root = ET.fromstring(plot.dots(RUN))
    marks = [item for item in root.iter(f"{SVG}path") if item.find(f"{SVG}title") is not None]
    assert [mark.findtext(f"{SVG}title") for mark in marks] == [
        "hudi: 1.80",
        "pyarrow, base files: 0.80",
        "DuckDB, base files: 0.70",
    ]
    places = [float(re.findall(r"[\d.]+", mark.attrib["transform"])[0]) for mark in marks]
    assert places[2] < places[1] < places[0]
    assert "prefers-color-scheme: dark" in (root.findtext(f"{SVG}style") or "")


def test_growth_is_measured_with_the_cores_of_each_point_and_shown_on_one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[tuple[int, set[str]]] = []
    cores = {0}
    monkeypatch.setattr("benchmarks.growth.os.sched_getaffinity", lambda _: {0, 1, 2, 3})

    def restrict(_: int, to: set[int]) -> None:
        cores.clear()
        cores.update(to)

    monkeypatch.setattr("benchmarks.growth.os.sched_setaffinity", restrict)

    def run_cases(chosen: list[Case], *_: object, size: str, **__: object) -> Run:
        used.append((len(cores), {case.name for case in chosen}))
        lines = [
            dataclasses.replace(line(reader, seconds / len(cores), read=read.name), case=case.name)
            for case in chosen
            for read in case.reads
            for reader, seconds in ((OURS, 1.0), (PEER, 2.0))
        ]
        return dataclasses.replace(run_of(*lines, size=size), cases={case.name: case.about for case in chosen})

    monkeypatch.setattr("benchmarks.growth.run_cases", run_cases)
    chosen = growth.curves(SIZES["small"], (1, 2, 4))
    measured = growth.measure(chosen, Path(), size="small", rounds=3, readers=(OURS, PEER))
    assert {number: names for number, names in used if number < 4} == {
        number: {f"updates-10, {number} cores", f"slices-100, {number} cores"} for number in (1, 2)
    }
    assert {"columns-500", "slices-1", "updates-50"} < dict(used)[4]
    assert len(measured.lines) == 2 * len(
        {(case.name, read.name) for curve in chosen for _, case, read in curve.points}
    )
    text = growth.page(measured, chosen, "growth.svg")
    assert text.count("| serial share | 0.00 | 0.00 |") == 2
    assert text.count("| growth for ten times | 1.00 | 1.00 |") == 4
    assert "n/a" not in text.partition("Seconds: the best")[0]
    drawn = ET.fromstring(plot.curves(growth.panels(measured, chosen)))
    paths = [path.get("class") for path in drawn.iter(f"{SVG}path")]
    assert (paths.count("ours curve"), paths.count("hudi curve")) == (6, 6)


def test_a_reader_without_an_answer_has_no_point() -> None:
    curve = growth.curves(SIZES["small"], (1,))[3]
    wrong = [
        dataclasses.replace(line(PEER, 1, answer="wrong: other rows", read=read.name), case=case.name)
        for _, case, read in curve.points
    ]
    text = growth.page(run_of(*wrong), [curve], "growth.svg")
    assert text.count("n/a |") == len(curve.points) + 1
    assert ET.fromstring(plot.curves(growth.panels(run_of(*wrong), [curve]))).find(f".//{SVG}path") is None


def test_a_plot_of_nothing_is_a_plot() -> None:
    assert list(ET.fromstring(plot.dots(run_of())).iter(f"{SVG}path"))


@pytest.mark.parametrize("read", [FULL, ONE_PERCENT, FIRST_BATCH, Read(name="two", columns=("a", "b"))])
def test_a_read_is_the_same_after_json(read: Read) -> None:
    assert Read.from_json(read.to_json()) == read


def test_stacks_become_steps_and_a_flame_graph() -> None:
    stacks = {
        ("dataset.to_batches", "merge.columnar.merge"): 30,
        ("dataset.to_batches", "logformat.avro_columns.<decode>"): 60,
        ("dataset.to_batches",): 10,
    }
    shares = dict(steps.shares(stacks))
    assert shares["decode log blocks"] == pytest.approx(0.6)
    assert sum(shares.values()) == pytest.approx(1)
    root = ET.fromstring(steps.flame_graph(stacks, "a read"))
    tips = [item.text for item in root.iter(f"{SVG}title")]
    assert "logformat.avro_columns.<decode>: 60 %" in tips
    assert "dataset.to_batches: 100 %" in tips


class MadeUp(Contender):
    """A reader that answers as it is told, or fails if it is told so."""

    def __init__(self, name: str, answer: str | None, rows: int = 8, timed_rows: int = 8, **kind: bool) -> None:
        super().__init__(name, ReaderProcess(io.StringIO(), io.StringIO()), **kind)
        self.answer, self.rows, self.timed_rows = answer, rows, timed_rows

    def check(self, path: str, read: Read) -> dict[str, Any]:
        if self.answer is None:
            raise ReadFailedError(f"no {read.name} of {path}")
        return {"rows": self.rows, "columns": ["a"], "checksum": self.answer}

    def time(self, path: str, read: Read) -> dict[str, Any]:  # noqa: ARG002 - as others
        return dataclasses.asdict(line(self.name, 1.0).readings[0]) | {"rows": self.timed_rows}


def measured(*contenders: MadeUp) -> dict[str, Line]:
    case = Case(name="made-up", about="", recipe=Recipe(name="", sql=""), reads=(FULL,))
    store: Any = None
    return {item.reader: item for item in turns.measure(case, Path("t"), contenders, 3, store, case.reads)}


def test_answers_are_compared_and_none_is_left_out() -> None:
    lines = measured(
        MadeUp(OURS, "1"),
        MadeUp(PEER, "1", rows=7),
        MadeUp(BUNDLE, None),
        MadeUp(DUCKDB, None, reads_base_files=True),
    )
    assert {name: one.answer for name, one in lines.items()} == {
        OURS: SAME,
        PEER: "wrong: other rows, 7 for 8",
        BUNDLE: "refused: no all columns of t",
        DUCKDB: STALE,
    }
    assert {name: len(one.readings) for name, one in lines.items()} == {OURS: 3, PEER: 0, BUNDLE: 0, DUCKDB: 3}


def test_other_values_are_a_wrong_answer() -> None:
    assert measured(MadeUp(OURS, "1"), MadeUp(PEER, "2"))[PEER].answer == "wrong: other values"


def test_other_rows_when_timed_are_a_wrong_answer() -> None:
    answer = measured(MadeUp(OURS, "1"), MadeUp(PEER, "1", timed_rows=9))[PEER].answer
    assert answer == "wrong: 9 rows when timed, 8 when checked"


def test_our_own_failure_ends_the_run() -> None:
    with pytest.raises(ReadFailedError):
        measured(MadeUp(OURS, None), MadeUp(PEER, "1"))


def test_of_a_mapping_only_the_pages_that_are_in_memory_are_made_those_of_a_fork() -> None:
    size = mmap.PAGESIZE
    mapping = mmap.mmap(-1, 8 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for number in (1, 3, 4):
        mapping[number * size] = 1
    start = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    parts = list(measurement._present_parts(start, start + 8 * size))
    assert parts == [(start + size, size), (start + 3 * size, 2 * size)]
