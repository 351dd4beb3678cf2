"""Diagnoses as one HTML page without scripts or links to other files, for light and dark screens.

Names come from outside, so all text is escaped.
"""

from collections.abc import Iterator, Sequence

from hudi_bridge.common.display import counted, header_cell, page_start, page_text, size_text
from hudi_bridge.tools.checks.findings import Diagnosis, Finding, Severity, SliceCost, subtitle, summary

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
