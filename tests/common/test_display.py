"""What prompts and notebooks show of tables, datasets, attached views and histories."""

import shutil
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiTable, tools
from hudi_bridge.common.display import html_of_properties, html_of_rows, size_text
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.tools import RecordHistory
from hudi_bridge.tools.checks.findings import summary
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at

HOSTILE = """<script>alert("1")</script>&amp;'\x1b[2J\ud800"""


@pytest.fixture
def hostile(tmp_path: Path) -> TableWriter:
    """A table of which all names are markup."""
    (folder := tmp_path / "<b>x").mkdir()
    fields = (("id", "string"), ("ts", "long"), ("value", "string"), ("part", "string"))
    writer = TableWriter(folder=folder, fields=fields, partition_fields=("part",)).create()
    where: dict[str, Any] = {"partition": "<i>p", "file_id": "f1-0"}
    row = {"id": "<script>1</script>", "ts": 1, "value": "v", "part": "<i>p"}
    writer.base_file(at(1), [row], **where)
    writer.log_file(at(2), [writer.data_block(at(2), [row | {"ts": 2}], partition="<i>p")], base_instant=at(1), **where)
    writer.commit(at(1))
    writer.commit(at(2))
    return writer


def cells(html: str) -> dict[str, str]:
    """The facts of a piece of HTML, which has no elements but those of tables."""
    # Each line of the tables is well-formed, so that a parser of XML, which forgives nothing, reads it.
    root = ET.fromstring(f"<root>{html}</root>")
    assert {element.tag for element in root.iter()} <= {"root", "table", "caption", "tr", "th", "td"}
    return {
        row[0].text or "": row[1].text or "" for row in root.iter("tr") if [cell.tag for cell in row] == ["th", "td"]
    }


def cells_of(html: str, caption: str) -> list[list[str]]:
    """The texts of the rows of a table, with a caption, without its head."""
    (table,) = (table for table in ET.fromstring(f"<root>{html}</root>") if table[0].text == caption)
    return [[cell.text or "" for cell in row] for row in table.iter("tr")][1:]


def test_a_table(hostile: TableWriter) -> None:
    table = hostile.open()
    assert repr(table) == f"<HudiTable {str(hostile.folder)!r}: MERGE_ON_READ, version 9, newest instant {at(2)}>"
    facts = cells(table._repr_html_())
    assert facts["path"] == str(hostile.folder)
    assert (facts["table type"], facts["table version"]) == ("MERGE_ON_READ", "9")
    assert (facts["record key"], facts["ordering fields"], facts["partition fields"]) == ("id", "ts", "part")
    assert (facts["commits on the timeline"], facts["newest instant"]) == ("2", at(2))


def test_a_table_shows_what_is_known_of_its_files_without_reading(hostile: TableWriter) -> None:
    hostile.pending(at(3), "clean")
    hostile.pending(at(4), "clean")
    hostile.pending(at(5), "indexing")
    planned, unplanned = hostile.open(), hostile.open()
    planned.snapshot().to_table()
    sizes = [size_text(file.stat().st_size) for file in sorted(hostile.folder.glob("<i>p/*f1-0_*"), reverse=True)]
    shutil.rmtree(hostile.folder)
    facts = cells(unplanned._repr_html_())
    assert facts["under way"] == "2 clean, 1 indexing"
    assert "file slices" not in facts
    assert cells(planned._repr_html_())["file slices"] == f"1: {sizes[0]} of base files, {sizes[1]} of logs"


def test_a_table_before_its_first_commit(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path).create().open()
    assert repr(table).endswith("newest instant None>")
    assert cells(table._repr_html_())["newest instant"] == "none yet"
    assert "0 columns" in repr(table.snapshot())
    assert cells(table.snapshot()._repr_html_())["query"] == "snapshot"


def test_a_dataset(hostile: TableWriter) -> None:
    dataset = hostile.open().snapshot()
    assert repr(dataset) == f"<HudiDataset {str(hostile.folder)!r}: snapshot as of {at(2)}, 9 columns>"
    narrow = dataset.filter(pc.field("id") == "<b>")
    assert repr(narrow).endswith('9 columns, where (id == "<b>")>')
    facts = cells(narrow._repr_html_())
    assert (facts["query"], facts["instant"], facts["filter"]) == ("snapshot", at(2), '(id == "<b>")')
    assert cells_of(dataset._repr_html_(), "Columns")[-3:] == [["ts", "int64"], ["value", "string"], ["part", "string"]]
    for other, kind in (
        (hostile.open().read_optimized(), "read_optimized"),
        (hostile.open().incremental("earliest"), "incremental"),
        (hostile.open().changes("earliest"), "changes"),
    ):
        assert f": {kind} as of " in repr(other)
        assert cells(other._repr_html_())["query"] == kind


def test_attached_views(hostile: TableWriter) -> None:
    with duckdb.connect() as connection:
        attached = attach(connection, hostile.folder, "<i>t")
        assert repr(attached) == f"<Attached '<i>t': 6 views of {str(hostile.folder)!r} as of {at(2)}>"
        facts = cells(attached._repr_html_())
        assert facts["views"].split(", ")[:2] == ["<i>t", "<i>t_ro"]
        assert facts["instant"] == at(2)
    # Also when nothing can be asked of the connection any more.
    assert repr(attached)


def test_a_history(hostile: TableWriter) -> None:
    history = tools.history_of(hostile.open(), "<script>1</script>")
    actual = "2 versions in 1 file group, 1 row left"
    assert repr(history) == f"<RecordHistory '<script>1</script>' as of {at(2)}: {actual}>"
    html = history._repr_html_()
    assert cells(html)["record key"] == "<script>1</script>"
    partition, _, kind, *_ = cells_of(html, "Versions")[1]
    assert (partition, kind) == ("<i>p", "log row")
    nothing = tools.history_of(hostile.open(), HOSTILE[:-1])
    assert "0 versions in 0 file groups, 0 rows left" in repr(nothing)


def test_a_history_of_a_real_table() -> None:
    history: RecordHistory = tools.history_of(HudiTable.open(golden_table("a_story_v9_120")), "k00001")
    assert len(repr(history)) < 150
    assert cells(history._repr_html_())["instant"] == history.instant


def test_a_diagnosis(hostile: TableWriter) -> None:
    hostile.pending(at(3), "clean")
    diagnosis = tools.doctor(hostile.open())
    html = diagnosis._repr_html_()
    facts = cells(html)
    assert (facts["path"], facts["findings"]) == (str(hostile.folder), summary([diagnosis]))
    assert facts["table"].startswith("MERGE_ON_READ, version 9")
    findings = cells_of(html, "Findings")
    assert len(findings) == len(diagnosis.findings) > 0
    assert [row[:2] for row in findings] == [[str(finding.severity), finding.check] for finding in diagnosis.findings]
    assert cells_of(html, "File slices with logs")[0][:2] == ["<i>p", "f1-0"]
    nothing = replace(diagnosis, findings=(), slices=())
    assert cells(nothing._repr_html_())["findings"] == "none"


def test_an_explanation(hostile: TableWriter) -> None:
    explanation = hostile.open().snapshot().explain(pc.field("part") == "<i>p", ["id"])
    html = explanation._repr_html_()
    facts = cells(html)
    assert (facts["filter"], facts["columns"]) == ('(part == "<i>p")', "id")
    assert facts["file slices read"] == f"{len(explanation.slices)} of {explanation.slices_listed} listed"
    assert cells_of(html, "File slices read")[0][:3] == ["<i>p", "f1-0", "1 of 1"]
    assert [row[0] for row in cells_of(html, "Steps")] == [step.name for step in explanation.steps]


def test_a_timeline(hostile: TableWriter) -> None:
    hostile.pending(at(3), "clean")
    timeline = hostile.open().timeline
    html = timeline._repr_html_()
    assert (cells(html)["instants"], cells(html)["commits"]) == ("3", "2")
    assert [row[:3] for row in cells_of(html, "The newest first")] == [
        [at(3), "clean", "requested"],
        [at(2), "deltacommit", "completed"],
        [at(1), "deltacommit", "completed"],
    ]


def test_a_schema_history() -> None:
    history: Any = HudiTable.open(golden_table("g_sor_mixed_0150")).schema_history
    html = history._repr_html_()
    assert cells(html)["versions"] == str(len(history))
    assert [row[0] for row in cells_of(html, "Versions")] == [version.instant for version in history]
    assert cells_of(html, "Versions")[1][2] == ", ".join(map(str, history[1].changes)) != ""
    columns = [[field.name, str(field.type)] for field in history[0].arrow_schema]
    assert cells_of(history[0]._repr_html_(), "Columns") == columns


def test_a_proposed_schema_history() -> None:
    proposal = HudiTable.open(golden_table("g_sor_rename_120")).propose_schema_history()
    html = proposal._repr_html_()
    assert [row[0] for row in cells_of(html, "Versions")] == list(proposal.instants)
    assert (cells(html).get("ambiguous") or "") == ", ".join(map(str, proposal.ambiguities))


def test_a_difference(hostile: TableWriter) -> None:
    difference = tools.diff(hostile.open(), at(1), at(2))
    facts = cells(difference._repr_html_())
    assert (facts["instants"], facts["file groups"]) == (f"{at(1)}, {at(2)}", "1 to compare, 0 the same")


def test_whatever_comes_from_outside_is_text() -> None:
    for html in (
        html_of_properties(HOSTILE, [(HOSTILE, (HOSTILE, HOSTILE))]),
        html_of_rows(HOSTILE, [HOSTILE], [[HOSTILE]]),
    ):
        html.encode()
        assert "<script" not in html
        assert html.count("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;amp;&#x27;") >= 3
        assert r"\x1b[2J\ud800" in html
    long = html_of_rows("t", ["a"], [["x" * 10_000]] * 1_000)
    assert len(long) < 100_000
    assert html_of_rows("t", ["a"], []) == ""
    assert "and 800 more" in long
