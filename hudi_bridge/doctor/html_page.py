"""Diagnoses as one HTML page without scripts or links to other files, for light and dark screens.

Names in it come from outside: all text is escaped.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from hudi_bridge.display import counted, size_text
from hudi_bridge.doctor.findings import Diagnosis, Finding, Severity, SliceCost

_MOST_SLICES = 100
_STYLE = """
:root { color-scheme: light dark; --line: #8885; --dim: #777; --error: #c62828; --warning: #b26a00; --advice: #1565c0; }
@media (prefers-color-scheme: dark) {
  :root { --dim: #aaa; --error: #ff8a80; --warning: #ffcc66; --advice: #90caf9; }
}
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1.5rem; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { border-top: 1px solid var(--line); padding: .35rem .6rem; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
td.number, th.number { text-align: right; white-space: nowrap; }
code { font-family: ui-monospace, monospace; font-size: .9em; }
.dim, .info { color: var(--dim); }
.error { color: var(--error); font-weight: 600; }
.warning { color: var(--warning); font-weight: 600; }
.advice { color: var(--advice); }
"""


def html_page(diagnoses: Sequence[Diagnosis], least: Severity = Severity.INFO) -> str:
    """A page with a section for each table, and with the findings of at least a severity."""
    return "".join(_page(diagnoses, least))


def _page(diagnoses: Sequence[Diagnosis], least: Severity) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>hudi-bridge doctor</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    yield f"<h1>hudi-bridge doctor</h1>\n<p>{counted(len(diagnoses), 'table')}: {summary(diagnoses)}</p>\n"
    for number, diagnosis in enumerate(diagnoses):
        yield from _section(diagnosis, number, least)
    yield "</body>\n</html>\n"


def summary(diagnoses: Iterable[Diagnosis]) -> str:
    """How many findings there are of each severity: ``1 error, 2 warnings, 0 advice, 1 info``."""
    every = list(diagnoses)
    numbers = {severity: sum(diagnosis.count(severity) for diagnosis in every) for severity in Severity}
    return (
        f"{counted(numbers[Severity.ERROR], 'error')}, {counted(numbers[Severity.WARNING], 'warning')}, "
        f"{numbers[Severity.ADVICE]:,} advice, {numbers[Severity.INFO]:,} info"
    )


def _section(diagnosis: Diagnosis, number: int, least: Severity) -> Iterator[str]:
    yield f'<section aria-labelledby="t{number}">\n<h2 id="t{number}">{_text(diagnosis.path)}</h2>\n'
    yield f'<p class="dim">{_text(subtitle(diagnosis))}</p>\n'
    findings = [finding for finding in diagnosis.findings if finding.severity >= least]
    if findings:
        yield "<table><caption>Findings</caption>\n<tr><th>severity</th><th>check</th><th>where</th><th>found</th>"
        yield "<th>expected</th><th>what to do</th></tr>\n"
        yield from map(_finding, findings)
        yield "</table>\n"
    else:
        yield "<p>Nothing found.</p>\n"
    merged = [cost for cost in diagnosis.slices if cost.log_files]
    if merged:
        shown = merged[:_MOST_SLICES]
        of_all = f" (the first {_MOST_SLICES} of {len(merged):,})" if len(merged) > len(shown) else ""
        yield f"<table><caption>File slices with logs{of_all}</caption>\n<tr><th>partition</th><th>file group</th>"
        yield from (
            f'<th class="number">{name}</th>' for name in ("base", "logs", "log files", "writes in logs", "logs / base")
        )
        yield "</tr>\n"
        yield from map(_cost, shown)
        yield "</table>\n"
    yield "</section>\n"


def subtitle(diagnosis: Diagnosis) -> str:
    """What the table is, in a line."""
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


def _finding(finding: Finding) -> str:
    place = f"<code>{_text(finding.place)}</code>" if finding.place else ""
    cells = (_text(finding.found), _text(finding.expected or ""), _text(finding.remedy or ""))
    return (
        f'<tr><td class="{finding.severity}">{finding.severity}</td><td>{_text(finding.check)}</td><td>{place}</td>'
        + "".join(f"<td>{cell}</td>" for cell in cells)
        + "</tr>\n"
    )


def _cost(cost: SliceCost) -> str:
    ratio = "" if cost.log_ratio is None else f"{cost.log_ratio:.2f}"
    numbers = (size_text(cost.base_bytes), size_text(cost.log_bytes), cost.log_files, cost.delta_commits, ratio)
    names = f"<td>{_text(cost.partition_path)}</td><td><code>{_text(cost.file_id)}</code></td>"
    return f"<tr>{names}" + "".join(f'<td class="number">{number}</td>' for number in numbers) + "</tr>\n"


def _text(text: str) -> str:
    """The text for HTML; control characters and lone surrogates, which file names may have, as escapes."""
    shown = "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
    return escape(shown)
