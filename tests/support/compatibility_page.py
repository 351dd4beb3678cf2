"""The tables of docs that say what is read, where Hudi fails and what is refused, from what the tests know.

    python -m tests.support.compatibility_page

writes them into their pages. ``tests/project/test_compatibility_page.py`` fails if they are not up to date.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.connectors.trino import unmerged_tables
from tests.golden.conformance.processes import Verdict
from tests.golden.conformance.results import Result, features_matrix, kept_results, kinds_matrix, markdown
from tests.golden.conformance.suite import SUITE
from tests.support import hudi_failures, refusals
from tests.support.deviations import ANSWERED, BY_HAND, DEVIATING, REFUSED, TWINS, UNANSWERED
from tests.support.golden_cases import (
    GoldenQuery,
    golden_base_formats,
    golden_bootstrapped,
    golden_case,
    golden_external,
)
from tests.support.golden_queries import QUERIES
from tests.support.other_golden import MERGED_BY_TRINO, ORC_WITH_TIMES

DOCS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- made by tests/support/compatibility_page.py: begin -->", "<!-- end -->"
READERS_BEGIN = "<!-- readers made by tests/support/compatibility_page.py: begin -->"
READERS_END = "<!-- end of readers -->"
FEATURES: Mapping[str, str] = {
    "a": "inserts, updates, deletes",
    "b": "merge modes, payloads, deletes out of order",
    "c": "kinds of log blocks, damaged and unfinished writes",
    "d": "compaction, clustering, clean, archive, log files alone",
    "e": "keys and partitions",
    "f": "types",
    "g": "schema evolution",
    "h": "indexes",
    "i": "change data capture, copy on write, empty tables",
    "k": "concurrent writers, upgrades, SQL, odd keys, filters",
    "v": "vectors, float to double",
    "w": "operations of a changelog",
}
"""What the tables of each group are about."""

OTHER_FEATURES: Mapping[str, Callable[[], Iterable[GoldenQuery]]] = {
    "bootstrapped tables": golden_bootstrapped,
    "external files": golden_external,
    "base files of ORC, Lance, HFile": golden_base_formats,
}
"""What tables in archives of their own are about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenTable:
    """A golden table: its group, the release that wrote it, and its version."""

    name: str
    group: str
    release: str
    version: int

    @property
    def writer(self) -> str:
        """The column of the table, such as ``1.2.0 (9)``."""
        return f"{self.release} ({self.version})"


@cache
def golden_tables() -> tuple[GoldenTable, ...]:
    """All golden tables."""
    actual = []
    for name in sorted({case for case, _ in QUERIES}):
        folder = golden_case(name)
        document = json.loads((folder / "case.json").read_text())
        actual.append(
            GoldenTable(
                name=name,
                group=folder.parent.name.partition("-")[0],
                release=document["hudi_version"],
                version=document["table_version"],
            )
        )
    return tuple(actual)


def sections() -> str:
    """What stands between the marks of the page."""
    lines = [
        BEGIN,
        "Tables by what they are about and by the release of Hudi that wrote them (in brackets the table version). A",
        "number counts tables whose every query gives Hudi's rows; `+n` those where some query deliberately does",
        "not ([why](hudi-differences.md)), or where [Hudi itself fails](hudi-failures.md).",
        "Tables of [Flink](#tables-of-flink) and of [hudi-rs](#tables-of-hudi-rs) are not counted.",
        "",
        *_by_writer(),
        "",
        f"That is {len(QUERIES):,} queries to {len(golden_tables()):,} tables: {_counts()}.",
        "",
        "Python, DuckDB, Polars and Spark read all of them, but for timestamps of ORC. Trino reads what is published",
        "for it; where it merges log records by itself (`--unmerged`), some tables are refused by name before anything",
        "is published.",
        "",
        *_by_engine(),
        END,
    ]
    return "\n".join(lines)


def _counts() -> str:
    kinds = (
        ("answered as Hudi does", len(ANSWERED)),
        ("answered otherwise", len(DEVIATING)),
        ("answered where Hudi fails", len(set(TWINS) | set(BY_HAND) | set(UNANSWERED))),
        ("refused as Hudi does", len(REFUSED)),
    )
    return ", ".join(f"{count:,} {what}" for what, count in kinds)


def _by_writer() -> Iterator[str]:
    writers = sorted({(table.release, table.version, table.writer) for table in golden_tables()}, key=_order)
    names = [name for _, _, name in writers]
    others = {case for case, index in QUERIES if (case, index) not in ANSWERED and (case, index) not in REFUSED}
    cells: dict[tuple[str, str], Counter[bool]] = defaultdict(Counter)
    for table in golden_tables():
        cells[table.group, table.writer][table.name in others] += 1
    yield from markdown(
        ["about", *names],
        [
            [FEATURES[group], *(_cell(cells[group, name]) for name in names)]
            for group in sorted({table.group for table in golden_tables()})
        ],
    )


def _order(writer: tuple[str, int, str]) -> tuple[list[int], int]:
    return [int(part) for part in writer[0].split(".")], writer[1]


def _cell(found: Mapping[bool, int]) -> str:
    same, other = found.get(False, 0), found.get(True, 0)
    return " ".join(text for text in (str(same) if same else "", f"+{other}" if other else "") if text)


def _by_engine() -> Iterator[str]:
    rows = []
    for group in sorted({table.group for table in golden_tables()}):
        names = {table.name for table in golden_tables() if table.group == group}
        refused = names & set(unmerged_tables.REFUSED)
        rows.append([FEATURES[group], f"read: {len(names)}", _outcome(names, refused)])
    for about, queries in OTHER_FEATURES.items():
        names = {query.case for query in queries()}
        refused_by_all = names & {ORC_WITH_TIMES}
        refused = names - set(MERGED_BY_TRINO)
        rows.append([about, _outcome(names, refused_by_all), _outcome(names, refused)])
    yield from markdown(["about", "Python, DuckDB, Polars, Spark", "Trino, merging by itself"], rows)


def _outcome(names: set[str], refused: set[str]) -> str:
    parts = (("read", len(names - refused)), ("refused", len(refused)))
    return ", ".join(f"{what}: {count}" for what, count in parts if count)


def readers() -> str:
    """What other readers make of the golden tables, beside Hudi Bridge: the greatest share of equal answers first."""
    results = sorted(kept_results(), key=_share_of_equal, reverse=True)
    names = [result.reader for result in results]
    lines = [
        READERS_BEGIN,
        *markdown(["query", "queries", *names], kinds_matrix(results)),
        "",
        "Snapshots by what a table has:",
        "",
        *markdown(["", "feature", "tables", *names], features_matrix(results, ["snapshot"])),
        READERS_END,
    ]
    return "\n".join(lines)


def _share_of_equal(result: Result) -> float:
    return result.counts(SUITE.keys())[Verdict.EQUAL] / len(result.judgements)


@dataclass(frozen=True, slots=True)
class GeneratedSection:
    """What stands between two marks of a page."""

    page: Path
    begin: str
    end: str
    make: Callable[[], str]

    def renewed(self) -> str:
        """The text of the page with the section made anew."""
        before, _, rest = self.page.read_text().partition(self.begin)
        _, _, after = rest.partition(self.end)
        return before + self.make() + after


GENERATED = (
    GeneratedSection(DOCS / "compatibility.md", BEGIN, END, sections),
    GeneratedSection(DOCS / "compatibility.md", READERS_BEGIN, READERS_END, readers),
    GeneratedSection(DOCS / "hudi-failures.md", hudi_failures.BEGIN, hudi_failures.END, hudi_failures.section),
    GeneratedSection(DOCS / "unsupported.md", refusals.BEGIN, refusals.END, refusals.section),
)


if __name__ == "__main__":
    for generated in GENERATED:
        generated.page.write_text(generated.renewed())
