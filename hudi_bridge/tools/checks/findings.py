"""The result of an examination: findings by severity, the costs of file slices, and the limits of the checks.

Where Hudi has an option for a limit, its default is used. ``html_page`` shows results without scripts or links to other
files; names come from outside, so all text is escaped.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from typing import Any

import pyarrow as pa

from hudi_bridge.common.display import (
    counted,
    header_cell,
    html_of_properties,
    html_of_rows,
    page_start,
    page_text,
    size_text,
)
from hudi_bridge.errors import CorruptTableError, UnsupportedTableError
from hudi_bridge.timeline.instant import seconds_between

_LONGEST_TEXT = 300


class Severity(IntEnum):
    """How severe a finding is; a higher number is worse.

    ``INFO`` is worth knowing. ``ADVICE`` is about the costs of the table. ``WARNING`` needs attention, although reads
    are right. With an ``ERROR``, reads may fail or be wrong.
    """

    INFO = 0
    ADVICE = 1
    WARNING = 2
    ERROR = 3

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One result of a check.

    ``path`` is relative to the table, None if the finding is not about a single file; ``offset`` is in bytes.
    ``remedy`` is what to do in Hudi. Names from outside are quoted in the texts, but ``path`` is as it is, with any
    control characters.

    Part of a ``Diagnosis``.
    """

    severity: Severity
    check: str
    found: str
    expected: str | None = None
    remedy: str | None = None
    path: str | None = None
    offset: int | None = None

    @property
    def place(self) -> str:
        """The file and the offset, "" if there is no single file."""
        if self.path is None:
            return ""
        return self.path if self.offset is None else f"{self.path} at byte {self.offset}"

    def __str__(self) -> str:
        prefix = f"{self.place}: " if self.path is not None else ""
        expected = f", expected {self.expected}" if self.expected else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.severity} {self.check}: {prefix}found {self.found}{expected}{remedy}"


def of_error(error: Exception, *, severity: Severity, check: str, path: str | None, remedy: str | None) -> Finding:
    """The finding for an error: what was found and expected, the offset, and the name of an unsupported feature."""
    if isinstance(error, UnsupportedTableError):
        actual, expected = f"{error.feature} {error.found}", error.supported
        return Finding(severity=severity, check=check, path=path, found=actual, expected=expected, remedy=remedy)
    if isinstance(error, CorruptTableError):
        actual, expected, offset = error.found, error.expected, error.offset
        return Finding(
            severity=severity, check=check, path=path, offset=offset, found=actual, expected=expected, remedy=remedy
        )
    return Finding(severity=severity, check=check, path=path, found=str(error), remedy=remedy)


def remedy_of(error: Exception, of_damage: str) -> str | None:
    """The remedy for an error that a check has met; ``of_damage`` is for errors about damaged files."""
    if isinstance(error, CorruptTableError):
        return of_damage
    if isinstance(error, OSError):
        return "try again; the file system failed, or a writer has changed the table meanwhile"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceCost:
    """The costs of reading the newest slice of a file group.

    Attributes:
        partition_path: the partition.
        file_id: the file group.
        base_bytes: the size of the base file.
        log_bytes: the size of the logs.
        log_files: the number of log files.
        delta_commits: the number of writes in the logs.
        log_ratio: log bytes over base bytes; None without a base file.
        merge_bytes: what a snapshot reads beyond the base file: all of the logs.
        is_overdue: whether there are as many writes as Hudi waits for before it compacts.

    Part of a ``Diagnosis``.
    """

    partition_path: str
    file_id: str
    base_bytes: int
    log_bytes: int
    log_files: int
    delta_commits: int
    log_ratio: float | None
    merge_bytes: int
    is_overdue: bool


_COLUMNS: dict[str, pa.DataType] = {
    "severity": pa.string(),
    "check": pa.string(),
    "path": pa.string(),
    "offset": pa.int64(),
    "found": pa.string(),
    "expected": pa.string(),
    "remedy": pa.string(),
}
FINDINGS_SCHEMA = pa.schema(_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The result of an examination.

    Attributes:
        path: the path of the table, without secrets.
        name: the name of the table; it and the other properties are "" or 0 if they cannot be read.
        table_type: the type of the table.
        table_version: the version of the table.
        instant: the newest commit.
        deep: whether all rows were read.
        findings: the findings, the worst first.
        slices: the costs of the newest file slices, the most expensive first.
        checks: the checks that have run.

    Made by ``hudi_bridge.tools.doctor`` and ``hudi_bridge.tools.examine``.
    """

    path: str
    name: str = ""
    table_type: str = ""
    table_version: int = 0
    instant: str | None = None
    deep: bool = False
    findings: tuple[Finding, ...]
    slices: tuple[SliceCost, ...] = ()
    checks: tuple[str, ...] = ()

    @property
    def worst(self) -> Severity:
        """The severity of the worst finding; INFO without any."""
        return max((finding.severity for finding in self.findings), default=Severity.INFO)

    def count(self, severity: Severity) -> int:
        """The number of findings of a severity."""
        return sum(finding.severity is severity for finding in self.findings)

    def with_least(self, least: Severity) -> "Diagnosis":
        """The same diagnosis with only the findings of at least this severity."""
        return replace(self, findings=tuple(finding for finding in self.findings if finding.severity >= least))

    def to_table(self) -> pa.Table:
        """One row for each finding, the worst first, with a column for each field of ``Finding``."""
        rows = [asdict(finding) | {"severity": str(finding.severity)} for finding in self.findings]
        return pa.Table.from_pylist(rows, FINDINGS_SCHEMA)

    def to_json(self) -> str:
        """The whole diagnosis as JSON text."""
        document: dict[str, Any] = asdict(self)
        document["worst"] = str(self.worst)
        for finding in document["findings"]:
            finding["severity"] = str(finding["severity"])
        return json.dumps(document)

    def _repr_html_(self) -> str:
        properties = (
            ("path", self.path),
            ("table", subtitle(self)),
            ("findings", summary([self]) if self.findings else "none"),
        )
        titles = ("severity", "check", "where", "found", "expected", "what to do")
        findings = (
            (finding.severity, finding.check, finding.place, finding.found, finding.expected, finding.remedy)
            for finding in self.findings
        )
        costs = ("partition", "file group", "base", "logs", "log files", "writes in logs")
        slices = (
            (
                cost.partition_path,
                cost.file_id,
                size_text(cost.base_bytes),
                size_text(cost.log_bytes),
                cost.log_files,
                cost.delta_commits,
            )
            for cost in self.slices
            if cost.log_files
        )
        tables = (html_of_rows("Findings", titles, findings), html_of_rows("File slices with logs", costs, slices))
        return html_of_properties("Diagnosis", properties) + "".join(tables)

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings))


def summary(diagnoses: Iterable[Diagnosis]) -> str:
    """The number of findings of each severity: ``1 error, 2 warnings, 0 advice, 1 info``."""
    all_diagnoses = list(diagnoses)
    numbers = {severity: sum(diagnosis.count(severity) for diagnosis in all_diagnoses) for severity in Severity}
    return (
        f"{counted(numbers[Severity.ERROR], 'error')}, {counted(numbers[Severity.WARNING], 'warning')}, "
        f"{numbers[Severity.ADVICE]:,} advice, {numbers[Severity.INFO]:,} info"
    )


def subtitle(diagnosis: Diagnosis) -> str:
    """A line with the type, version, instant and size of the table."""
    if not diagnosis.table_type:
        return "the table could not be opened"
    newest = f"as of {diagnosis.instant}" if diagnosis.instant else "without a commit"
    base = sum(cost.base_bytes for cost in diagnosis.slices)
    logs = sum(cost.log_bytes for cost in diagnosis.slices)
    return (
        f"{diagnosis.table_type}, version {diagnosis.table_version}, {newest}, "
        f"{counted(len(diagnosis.slices), 'file slice')}: {size_text(base)} of base files, {size_text(logs)} of logs"
        + (", all rows read" if diagnosis.deep else "")
    )


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Each finding once, the worst first, then by check, file and offset."""
    by_text: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        # A file that cannot be read fails several checks; the first one is about the file itself.
        by_text.setdefault((finding.path, finding.offset, finding.found, finding.severity), finding)
    return tuple(
        sorted(
            by_text.values(),
            key=lambda finding: (
                -finding.severity,
                finding.check,
                finding.path or "",
                finding.offset or 0,
                finding.found,
            ),
        )
    )


def quoted(text: object) -> str:
    """A name from outside for use in a text: in quotes, with escapes, and shortened."""
    shown = repr(str(text))
    return shown if len(shown) <= _LONGEST_TEXT else f"{shown[:_LONGEST_TEXT]}…"


def listed(names: Iterable[object], limit: int = 3) -> str:
    """The first few names, quoted, and the number of further ones."""
    all_names = list(names)
    more = f" and {len(all_names) - limit:,} more" if len(all_names) > limit else ""
    return ", ".join(quoted(name) for name in all_names[:limit]) + more


_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of an examination.

    Attributes:
        pending_hours: how long a write, rollback or restore may be under way.
        service_hours: how long a compaction, log compaction, clustering, clean or indexing may be under way.
        delta_commits: the number of writes in the logs of a slice (``hoodie.compact.inline.max.delta.commits``).
        log_ratio: the number of log bytes for each base byte.
        small_file_bytes: the least size of a base file (``hoodie.parquet.small.file.limit``).
        skew: the size of a partition as a multiple of the median.
        files: the most files whose footers or headers are read.
    """

    pending_hours: float = 24
    service_hours: float = 24
    delta_commits: int = 5
    log_ratio: float = 1.0
    small_file_bytes: int = 104_857_600
    skew: float = 10
    files: int = 20_000


def hours_between(earlier: str, later: str) -> float | None:
    """The hours from one instant to another; None if one of them is not a time."""
    seconds = seconds_between(earlier, later)
    return None if seconds is None else seconds / _HOUR


def age_text(hours: float) -> str:
    """A number of hours for people."""
    if hours < 1:
        return f"{hours * 60:.0f} minutes"
    return f"{hours:.0f} hours" if hours < 72 else f"{hours / 24:.0f} days"  # noqa: PLR2004 - three days


_MAX_SLICES = 100


def html_page(diagnoses: Sequence[Diagnosis], least: Severity = Severity.INFO) -> str:
    """A page with a section for each table, and with the findings of at least a severity."""
    return "".join(_page(diagnoses, least))


def _page(diagnoses: Sequence[Diagnosis], least: Severity) -> Iterator[str]:
    yield page_start("hudi-bridge doctor")
    yield f"<h1>hudi-bridge doctor</h1>\n<p>{counted(len(diagnoses), 'table')}: {summary(diagnoses)}</p>\n"
    for number, diagnosis in enumerate(diagnoses):
        yield from _section(diagnosis, number, least)
    yield "</body>\n</html>\n"


def _section(diagnosis: Diagnosis, number: int, least: Severity) -> Iterator[str]:
    yield f'<section aria-labelledby="t{number}">\n<h2 id="t{number}">{page_text(diagnosis.path)}</h2>\n'
    yield f'<p class="dim">{page_text(subtitle(diagnosis))}</p>\n'
    findings = [finding for finding in diagnosis.findings if finding.severity >= least]
    if findings:
        yield f"<table><caption>Findings</caption>\n{finding_head()}\n"
        yield from map(finding_row, findings)
        yield "</table>\n"
    else:
        yield "<p>Nothing found.</p>\n"
    merged = [cost for cost in diagnosis.slices if cost.log_files]
    if merged:
        shown = merged[:_MAX_SLICES]
        note = f" (the first {_MAX_SLICES} of {len(merged):,})" if len(merged) > len(shown) else ""
        yield f"<table><caption>File slices with logs{note}</caption>\n<tr>"
        yield from map(header_cell, ("partition", "file group"))
        numbers = ("base", "logs", "log files", "writes in logs", "logs / base")
        yield from (header_cell(name, is_number=True) for name in numbers)
        yield "</tr>\n"
        yield from map(_cost, shown)
        yield "</table>\n"
    yield "</section>\n"


def finding_head() -> str:
    """The header row for ``finding_row``."""
    names = ("severity", "check", "where", "found", "expected", "what to do")
    return f"<tr>{''.join(map(header_cell, names))}</tr>"


def finding_row(finding: Finding) -> str:
    """A finding as the row of a table."""
    location = f"<code>{page_text(finding.place)}</code>" if finding.place else ""
    cells = (page_text(finding.found), page_text(finding.expected or ""), page_text(finding.remedy or ""))
    return (
        f'<tr data-severity="{finding.severity}"><td class="{finding.severity}">{finding.severity}</td>'
        f'<td class="whole">{page_text(finding.check)}</td><td>{location}</td>'
        + "".join(f"<td>{cell}</td>" for cell in cells)
        + "</tr>\n"
    )


def _cost(cost: SliceCost) -> str:
    ratio = "" if cost.log_ratio is None else f"{cost.log_ratio:.2f}"
    numbers = (size_text(cost.base_bytes), size_text(cost.log_bytes), cost.log_files, cost.delta_commits, ratio)
    names = f"<td>{page_text(cost.partition_path)}</td><td><code>{page_text(cost.file_id)}</code></td>"
    return f"<tr>{names}" + "".join(f'<td class="number">{number}</td>' for number in numbers) + "</tr>\n"
