"""``doctor`` and ``report``: what is wrong with a table or with all tables of a folder, and a page about one table."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, TypeAlias

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from hudi_bridge.cli import options
from hudi_bridge.cli.opening import open_table, parse_options, parse_storage_options
from hudi_bridge.cli.options import folder_of
from hudi_bridge.cli.output import noticing_closed_pipe, open_sink
from hudi_bridge.cli.terminal import escape_control, print_note, telling_progress
from hudi_bridge.common.display import counted, size_text
from hudi_bridge.errors import HudiReadError, QueryError, TableNotFoundError
from hudi_bridge.storage.storage import Storage
from hudi_bridge.tools.checks.examination import examine_storage, is_table_folder, tables_below
from hudi_bridge.tools.checks.examined import Progress
from hudi_bridge.tools.checks.findings import Diagnosis, Finding, Limits, Severity, html_page, subtitle, summary
from hudi_bridge.tools.report import gather, html_report

WARNED = 3
"""The exit code if there is nothing worse than a warning."""
_DAMAGED = 1
_MOST_SLICES = 5
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan", Severity.INFO: "dim"}
_INDENT = 4
_DEFAULTS = Limits()
_Line: TypeAlias = tuple[int, str, str]
"""Indentation, text and style."""


class DiagnosisFormat(StrEnum):
    """How findings are written."""

    TABLE = "table"
    JSON = "json"
    HTML = "html"


class Least(StrEnum):
    """The least severity of findings that are shown."""

    INFO = "info"
    ADVICE = "advice"
    WARNING = "warning"
    ERROR = "error"


def doctor(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE|ROOT", help="The folder of a table, or one with tables in it.", show_default=False
        ),
    ],
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read all rows and indexes, too: damaged data, keys that are there twice.")
    ] = False,
    severity: Annotated[
        Least, typer.Option(metavar="SEVERITY", help="Show findings from this on: info, advice, warning or error.")
    ] = Least.INFO,
    now: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The time by which something is too old. Default: now.", show_default=False),
    ] = None,
    pending_hours: Annotated[
        float, typer.Option(min=0, metavar="HOURS", help="How long a write, rollback or restore may take.")
    ] = _DEFAULTS.pending_hours,
    service_hours: Annotated[
        float,
        typer.Option(min=0, metavar="HOURS", help="How long a compaction, clustering, clean or indexing may take."),
    ] = _DEFAULTS.service_hours,
    delta_commits: Annotated[
        int, typer.Option(min=1, metavar="N", help="After how many writes a file slice should be compacted.")
    ] = _DEFAULTS.delta_commits,
    log_ratio: Annotated[
        float,
        typer.Option(min=0, metavar="X", help="How many bytes of logs there may be for each byte of a base file."),
    ] = _DEFAULTS.log_ratio,
    small_file_bytes: Annotated[
        int, typer.Option(min=0, metavar="BYTES", help="Below what size a base file is small.")
    ] = _DEFAULTS.small_file_bytes,
    skew: Annotated[
        float,
        typer.Option(
            min=1, metavar="X", help="How many times the median size the largest partition or file group may have."
        ),
    ] = _DEFAULTS.skew,
    files: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Of how many base files and log files at most footers and headers are read."
        ),
    ] = _DEFAULTS.files,
    option: options.Option = None,
    storage_option: options.StorageOption = None,
    output_format: Annotated[
        DiagnosisFormat, typer.Option("--format", "-f", help="Text, one JSON object for each table, or a page.")
    ] = DiagnosisFormat.TABLE,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """Examine a table, or all tables of a folder: what is damaged, stuck or costly, and what to do.

    The exit code is 1 with errors, 3 with warnings at most, and otherwise 0. Nothing is changed.
    """
    limits = Limits(
        pending_hours=pending_hours,
        service_hours=service_hours,
        delta_commits=delta_commits,
        log_ratio=log_ratio,
        small_file_bytes=small_file_bytes,
        skew=skew,
        files=files,
    )
    least = Severity[severity.upper()]
    folder = Storage.open(folder_of(table), options=parse_storage_options(storage_option))
    with telling_progress() as tell:
        diagnoses = _examine(folder, deep, now, limits, parse_options(option), tell)
    if output is None and output_format is DiagnosisFormat.TABLE and sys.stdout.isatty():
        _print(diagnoses, least)
    else:
        with open_sink(output, no_clobber=no_clobber) as sink:
            sink.write(_written(diagnoses, least, output_format).encode("utf-8", "backslashreplace"))
    worst = max(diagnosis.worst for diagnosis in diagnoses)
    if worst >= Severity.WARNING:
        raise typer.Exit(_DAMAGED if worst is Severity.ERROR else WARNED)


def _examine(
    folder: Storage,
    deep: bool,  # noqa: FBT001 - as the option is
    now: str | None,
    limits: Limits,
    read_options: dict[str, str],
    tell: Progress,
) -> list[Diagnosis]:
    def examined(table: Storage) -> Diagnosis:
        return examine_storage(table, deep=deep, now=now, limits=limits, options=read_options, progress=tell)

    if not folder.exists("") or is_table_folder(folder) or folder.is_file(""):
        return [examined(folder)]
    diagnoses: list[Diagnosis] = []

    def failed(unreadable: Storage, error: HudiReadError) -> None:
        finding = Finding(severity=Severity.ERROR, check="open", found=str(error), remedy="try again")
        diagnoses.append(Diagnosis(path=unreadable.shown_path, findings=(finding,)))

    for table in tables_below(folder, failed):
        tell(table.shown_path, 0, 0)
        try:
            diagnoses.append(examined(table))
        except (TableNotFoundError, OSError) as error:
            if not isinstance(error, HudiReadError):
                raise
            failed(table, error)
    if not diagnoses:
        raise TableNotFoundError(folder.shown_path, "neither it nor a folder in it holds .hoodie")
    return diagnoses


def _written(diagnoses: Sequence[Diagnosis], least: Severity, output_format: DiagnosisFormat) -> str:
    match output_format:
        case DiagnosisFormat.HTML:
            return html_page(diagnoses, least)
        case DiagnosisFormat.JSON:
            return "".join(f"{diagnosis.with_least(least).to_json()}\n" for diagnosis in diagnoses)
        case DiagnosisFormat.TABLE:
            lines = (f"{' ' * indent}{escape_control(text)}" for indent, text, _ in _lines(diagnoses, least))
            return "".join(f"{line}\n" for line in lines)


def _print(diagnoses: Sequence[Diagnosis], least: Severity) -> None:
    console = Console(width=shutil.get_terminal_size().columns, highlight=False)
    with noticing_closed_pipe():
        for indent, text, style in _lines(diagnoses, least):
            line = Text(escape_control(text), style=style, overflow="fold")
            console.print(Padding(line, (0, 0, 0, indent), expand=False))
        sys.stdout.flush()


def _lines(diagnoses: Sequence[Diagnosis], least: Severity) -> Iterator[_Line]:
    for diagnosis in diagnoses:
        yield 0, diagnosis.path, "bold"
        yield 0, subtitle(diagnosis), "dim"
        for finding in diagnosis.with_least(least).findings:
            location = f"  {finding.place}" if finding.place else ""
            yield 0, f"{finding.severity!s:<8} {finding.check}{location}", _STYLES[finding.severity]
            expected = f", expected {finding.expected}" if finding.expected else ""
            yield _INDENT, f"found {finding.found}{expected}", ""
            if finding.remedy:
                yield _INDENT, f"→ {finding.remedy}", ""
        if least <= Severity.ADVICE:
            yield from _cost_lines(diagnosis)
        yield 0, "", ""
    if len(diagnoses) > 1:
        yield 0, f"{len(diagnoses):,} tables: {summary(diagnoses)}", "bold"
    else:
        yield 0, summary(diagnoses), "bold"


def _cost_lines(diagnosis: Diagnosis) -> Iterator[_Line]:
    """The file slices that cost most to merge."""
    merged = [cost for cost in diagnosis.slices if cost.log_files]
    if not merged:
        return
    more = f", the {_MOST_SLICES} with the most" if len(merged) > _MOST_SLICES else ""
    yield 0, f"logs to merge in {len(merged):,} of {len(diagnosis.slices):,} file slices{more}:", ""
    for cost in merged[:_MOST_SLICES]:
        ratio = "no base file" if cost.log_ratio is None else f"{cost.log_ratio:.2f} of the base file's"
        name = f"{cost.partition_path}/{cost.file_id}" if cost.partition_path else cost.file_id
        counts = f"{counted(cost.log_files, 'log file')} of {counted(cost.delta_commits, 'write')}"
        yield _INDENT, f"{name}: {size_text(cost.log_bytes)}, {ratio}, {counts}", ""


def report(
    table: options.Table,
    *,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Tell the story of this record key, as in _hoodie_record_key. Repeatable.",
            show_default=False,
        ),
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read all rows and indexes, too, for findings as of doctor --deep.")
    ] = False,
    now: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The time by which something is too old. Default: now.", show_default=False),
    ] = None,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """Write a page about a table: timeline, file slices, compaction, schema, findings, stories of records.

    The page is one HTML file that loads nothing. Nothing of the table is changed.
    """
    if output is None and sys.stdout.isatty():
        raise QueryError("--output", "a terminal", "a file for the page, such as -o report.html")
    opened = open_table(table, option, payload, storage_option)
    with telling_progress() as tell:
        gathered = gather(opened, key or (), deep=deep, now=now, progress=tell)
    for story in gathered.stories:
        if not story.file_groups:
            print_note(f"{story.record_key} is not in the table as of {story.instant}")
    with open_sink(output, no_clobber=no_clobber) as sink:
        sink.write(html_report(gathered).encode())
