"""Reports for tests, and a page as it is parsed: of names that are markup, of more slices than a test can write."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_bridge.inspection import ALL_SLICES_SCHEMA
from hudi_bridge.tools.checks.findings import Diagnosis, Finding, Severity, SliceCost
from hudi_bridge.tools.report import Report, gather
from hudi_bridge.tools.report.contents import compaction_gains, partition_costs
from tests.support.golden_cases import golden_trips
from tests.support.table_writer import TableWriter, at

NOW = "20261123000000000"
SCRIPT = "<script>window.hacked = 1</script>"
BREAKOUT = "</script><script>window.hacked = 2</script>"
IMAGE = '<img src=x onerror="window.hacked = 3">'
BIDI = "txt\u202egpj.exe\u2028"
FOLDER = "<img src=x onerror=alert(1)>"
REPLACED = ("hoodie.table.name", "hoodie.table.checksum")
SLICES = 10_000
VOID = ("meta", "input", "br")


class Page(HTMLParser):
    """The tags of a page, its texts outside of scripts, its rows of embedded data, and what it refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.data: dict[str, Any] = json.loads(self.scripts[0])

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        assert not [name for name, _ in attributes if name.startswith("on") or name == "style"]
        self.ids += [value or "" for name, value in attributes if name == "id"]
        self.links += [value or "" for name, value in attributes if name in ("src", "href", "xlink:href", "action")]

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


def hostile_table(folder: Path) -> TableWriter:
    """A table of which the name, partitions, record keys, values, columns and commits are markup."""
    fields: tuple[tuple[str, Any], ...] = (("id", "string"), ("ts", "long"), ("value", "string"), ("part", "string"))
    writer = TableWriter(folder=folder / "<b>lake", fields=fields, partition_fields=("part",)).create()
    properties = writer.folder / ".hoodie" / "hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if not line.startswith(REPLACED)]
    properties.write_text("\n".join((*lines, f"hoodie.table.name={BREAKOUT}", "")))
    row = {"id": SCRIPT, "ts": 1, "value": IMAGE, "part": FOLDER}
    where: dict[str, Any] = {"partition": FOLDER, "file_id": "<i>f1-0"}
    base = writer.base_file(at(1), [row], **where)
    block = writer.data_block(at(2), [row | {"ts": 2, "value": BREAKOUT + BIDI}], partition=FOLDER)
    log = writer.log_file(at(2), [block], base_instant=at(1), **where)
    extra = {BREAKOUT: IMAGE, IMAGE: BREAKOUT + BIDI, "checkpoint": "topic,0:17"}
    writer.commit(at(1), wrote=[base], extra=extra, operation=IMAGE)
    writer.commit(at(2), wrote=[log], extra=extra, operation=BREAKOUT)
    writer.pending(at(3), "clean")
    (writer.timeline_folder / "1<script>alert(1)<script>\x1b.commit").write_bytes(b"")
    return writer


def trips(*keys: str) -> Report:
    """A report on a small real table."""
    return gather(TableWriter(folder=golden_trips() / "trips").open(), keys, now=NOW)


def large() -> Report:
    """The same with 10,000 file slices in 200 partitions, and findings of every severity."""
    report = trips()
    costs = tuple(sorted(map(_cost, range(SLICES)), key=lambda cost: -cost.log_bytes))
    findings = tuple(_finding(number) for number in range(40))
    diagnosis: Diagnosis = replace(report.diagnosis, slices=costs, findings=findings)
    return replace(
        report,
        diagnosis=diagnosis,
        partitions=partition_costs(costs),
        slices=all_slices(SLICES),
        gains=compaction_gains(costs, delta_commits=5),
    )


def all_slices(number: int) -> pa.Table:
    """So many file slices of all times, two for each file group: the first is superseded, or waits for the cleaner."""
    rows = []
    for group in range(number // 2):
        path, file_id = f"day=2026-{group % 200:04}", f"{group:08x}-5bd1-4f45-acb8-dd9021af7b73-0"
        first, second = group % 100, 100 + group % 100
        for begun, ended in ((first, second), (second, None)):
            logs = [f"{path}/.{file_id}_{at(begun + later)}.log.1_0-1-1" for later in range(1, 1 + group % 4)]
            rows.append(
                {
                    "partition_path": path,
                    "file_id": file_id,
                    "base_instant_time": at(begun),
                    "state": "current" if ended is None else "superseded",
                    "ended_by": None if ended is None else at(ended),
                    "waits_for_cleaner": ended is not None and group % 3 == 0,
                    "base_size_bytes": 1_000_000 + group,
                    "log_files": len(logs),
                    "log_size_bytes": 1000 * len(logs),
                    "log_paths": logs,
                }
            )
    return pa.Table.from_pylist(rows, ALL_SLICES_SCHEMA)


def _cost(number: int) -> SliceCost:
    logs = number % 7
    base_bytes, log_bytes = 1_000_000 + number, 10_000 * logs * (1 + number % 13)
    return SliceCost(
        partition_path=f"day=2026-{number % 200:04}",
        file_id=f"{number:08x}-5bd1-4f45-acb8-dd9021af7b73-0",
        base_bytes=base_bytes,
        log_bytes=log_bytes,
        log_files=logs,
        delta_commits=logs,
        log_ratio=log_bytes / base_bytes,
        merge_bytes=log_bytes,
        is_overdue=logs >= 5,
    )


def _finding(number: int) -> Finding:
    severity = Severity(number % 4)
    return Finding(severity=severity, check=f"check-{number}", found=f"{severity} {number}", remedy="do it")
