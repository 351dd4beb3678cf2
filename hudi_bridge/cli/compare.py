"""``compare``: a table, or all tables of a folder, read here and by another reader, query by query."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from hudi_bridge.cli import options
from hudi_bridge.cli.compare_peers import Answer, HudiRs, Peer, Query, Spark, reason
from hudi_bridge.cli.compared_rows import Difference, Differences, compare_rows
from hudi_bridge.cli.opening import load_payloads, open_query, parse_options
from hudi_bridge.cli.sinks import open_sink
from hudi_bridge.cli.terminal import escape_control
from hudi_bridge.display import counted
from hudi_bridge.doctor import is_table_folder, tables_below
from hudi_bridge.errors import HudiReadError, QueryError, TableNotFoundError
from hudi_bridge.storage import Storage
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant_range import ordering_time

_DIFFERENT = 1
_MOST_OF_A_VALUE = 80


class PeerName(StrEnum):
    """The readers to compare with."""

    HUDI = "hudi"
    SPARK = "spark"


class ComparisonFormat(StrEnum):
    """How the outcome is written."""

    TABLE = "table"
    JSON = "json"


class Verdict(StrEnum):
    """What came of one query."""

    SAME = "same"
    DIFFERS = "differs"
    REFUSED = "refused"
    REFUSED_HERE = "refused here"
    REFUSED_BY_BOTH = "refused by both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One query to both readers; ``rows`` are those here, None if there is no answer."""

    query: str
    verdict: Verdict
    rows: int | None
    text: str
    differences: Differences | None = None


def compare(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE|ROOT", help="The folder of a table, or one with tables in it.", show_default=False
        ),
    ],
    *,
    with_: Annotated[PeerName, typer.Option("--with", help="The other reader: the package hudi, or Hudi on Spark.")],
    instants: Annotated[
        int, typer.Option(min=0, help="As of how many commits, and in how many ranges of commits, tables are read.")
    ] = 3,
    limit: Annotated[int, typer.Option(min=0, help="At most this many records of each kind are shown.")] = 3,
    bundle: Annotated[
        str | None,
        typer.Option(
            metavar="JAR",
            help="With spark: Hudi's bundle. Default: HUDI_SPARK_BUNDLE, or else what Spark has.",
            show_default=False,
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="With spark: a Python with PySpark. Default: this one.", show_default=False),
    ] = None,
    option: options.Option = None,
    payload: options.Payload = None,
    output_format: Annotated[
        ComparisonFormat, typer.Option("--format", "-f", help="Text, or one JSON object for each table.")
    ] = ComparisonFormat.TABLE,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """Read a table, or all tables of a folder, here and by another reader, and show where the rows differ.

    Both answers are held in memory. The exit code is 1 if rows differ, or if only the other reader answers.
    """
    peer: Peer = HudiRs() if with_ is PeerName.HUDI else Spark(python, bundle)
    ended_well = True
    with open_sink(output, no_clobber=no_clobber) as sink:
        for found_path in _tables(table):
            # Hudi on Spark takes no relative path.
            path = found_path if "://" in found_path else str(Path(found_path).resolve())
            try:
                opened = HudiTable.open(path, options=parse_options(option), payloads=load_payloads(payload))
            except HudiReadError as error:
                if isinstance(error, QueryError):
                    raise
                found = [_refused(Query(), reason(str(error)), pa.table({}))]
            else:
                found = list(compare_table(opened, path, peer, instants=instants, limit=limit))
            ended_well &= all(one.verdict not in (Verdict.DIFFERS, Verdict.REFUSED_HERE) for one in found)
            text = _json(path, peer, found) if output_format is ComparisonFormat.JSON else _text(path, peer, found)
            sink.write(text.encode("utf-8", "backslashreplace"))
    if not ended_well:
        raise typer.Exit(_DIFFERENT)


def _tables(path: str) -> Iterator[str]:
    folder = Storage.open(path)
    if not folder.exists("") or is_table_folder(folder) or folder.is_file(""):
        yield path
        return

    def failed(_place: Storage, error: HudiReadError) -> None:
        raise error

    found = [one.shown_path for one in tables_below(folder, failed)]
    if not found:
        raise TableNotFoundError(folder.shown_path, "neither it nor a folder in it holds .hoodie")
    yield from found


def compare_table(table: HudiTable, path: str, peer: Peer, *, instants: int, limit: int) -> Iterator[Comparison]:
    """The comparison of each query to a table."""
    queries = queries_to(table, instants)
    for query, there in zip(queries, peer.answers(path, queries), strict=True):
        here = _read_here(table, query)
        if isinstance(here, str) or isinstance(there, str):
            yield _refused(query, here, there)
            continue
        differences = compare_rows(here, there, limit)
        verdict = Verdict.DIFFERS if differences else Verdict.SAME
        text = f"differs: {_summary(differences)}" if differences else "same"
        yield Comparison(
            query=query.name, verdict=verdict, rows=here.num_rows, text=text, differences=differences or None
        )


def queries_to(table: HudiTable, instants: int) -> list[Query]:
    """The queries that are compared: as of commits, and in ranges, that are spread over the timeline."""
    commits = table.timeline.commits()
    count = min(instants, len(commits))
    spread = [commits[round(step * (len(commits) - 1) / max(1, count - 1))] for step in range(count)]
    times = [ordering_time(commit, table.config) for commit in spread]
    return [
        Query(),
        Query(read_optimized=True),
        *(Query(as_of=commit.requested_time) for commit in spread),
        *(Query(after=begin) for begin in times[:1]),
        *(Query(after=begin, up_to=end) for begin, end in pairwise(times)),
    ]


def _read_here(table: HudiTable, query: Query) -> Answer:
    try:
        dataset = open_query(
            table, read_optimized=query.read_optimized, as_of=query.as_of, after=query.after, up_to=query.up_to
        )
        return dataset.to_table()
    except HudiReadError as error:
        return reason(str(error))


def _refused(query: Query, here: Answer, there: Answer) -> Comparison:
    if isinstance(here, str) and isinstance(there, str):
        return Comparison(
            query=query.name, verdict=Verdict.REFUSED_BY_BOTH, rows=None, text=f"refused here: {here}; there: {there}"
        )
    if isinstance(here, str):
        return Comparison(query=query.name, verdict=Verdict.REFUSED_HERE, rows=None, text=f"refused here: {here}")
    return Comparison(query=query.name, verdict=Verdict.REFUSED, rows=here.num_rows, text=f"refused: {there}")


def _summary(found: Differences) -> str:
    parts = [
        f"{counted(count, 'record')} {what}"
        for count, what in (
            (found.changed, "with other values"),
            (found.only_here, "only here"),
            (found.only_there, "only there"),
        )
        if count
    ]
    parts += [
        f"columns only {side}: {', '.join(names)}"
        for side, names in (("here", found.columns_here), ("there", found.columns_there))
        if names
    ]
    return "; ".join(parts)


def _text(path: str, peer: Peer, found: Sequence[Comparison]) -> str:
    lines = [f"{path} beside {peer.name}"]
    for one in found:
        rows = "" if one.rows is None else f" ({counted(one.rows, 'row')})"
        lines.append(f"  {one.query}{rows}: {one.text}")
        lines += [f"    {_example(example)}" for example in (one.differences.examples if one.differences else ())]
    return "".join(f"{escape_control(line)}\n" for line in lines)


def _example(example: Difference) -> str:
    record = ", ".join(f"{name} {_short(value)}" for name, value in example.record.items())
    if example.side != "both":
        return f"only {example.side}: {record}"
    values = (f"{name} {_short(here)} here, {_short(there)} there" for name, (here, there) in example.columns.items())
    return f"{record}: {'; '.join(values)}"


def _short(value: Any) -> str:  # noqa: ANN401 - a value of any column
    text = repr(value)
    return text if len(text) <= _MOST_OF_A_VALUE else text[:_MOST_OF_A_VALUE] + "…"


def _json(path: str, peer: Peer, found: Sequence[Comparison]) -> str:
    document = {"table": path, "with": peer.name, "queries": [asdict(one) for one in found]}
    return json.dumps(document, default=str) + "\n"
