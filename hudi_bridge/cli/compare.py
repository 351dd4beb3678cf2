"""``compare``: a table, or all tables of a folder, read here and by another reader, query by query.

The other readers are the package ``hudi`` (hudi-rs) and Hudi on Spark. The report has records of one side only, and
values that differ. Types are taken leniently: integers of any width are numbers, floats are compared by their bits as
doubles, times by their instants, decimals by their values, maps whatever the order of their entries. A null equals only
a null.
"""

import datetime as dt
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from enum import StrEnum
from importlib.metadata import version
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from hudi_bridge.cli import options
from hudi_bridge.cli.opening import load_payloads, open_query, parse_options
from hudi_bridge.cli.output import open_sink
from hudi_bridge.cli.terminal import escape_control, telling_progress
from hudi_bridge.common.display import counted
from hudi_bridge.common.operations import watching_work
from hudi_bridge.errors import HudiReadError, QueryError, TableNotFoundError
from hudi_bridge.options import COMPLETION_TIMES_KEY
from hudi_bridge.storage.storage import Storage
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant_range import ordering_time
from hudi_bridge.tools.checks.examination import is_table_folder, tables_below

Answer = pa.Table | str
"""The rows, or why there are none."""
_WORKER = Path(__file__).with_name("compare_spark_worker.py")
_QUERY_TYPE = "hoodie.datasource.query.type"
_READ_OPTIMIZED_BY_HUDI_RS = "hoodie.read.use.read_optimized.mode"
_MOST_OF_A_REASON = 200
_NOISE = re.compile(r"^(\s+at |Caused by: |JVM stacktrace|py4j\.)")
Codes = npt.NDArray[np.int64]
"""For each row, a number for its value; rows with equal values have equal numbers."""
KEY_COLUMNS = ("_hoodie_partition_path", "_hoodie_record_key")
Record = Mapping[str, Any]
_DIFFERENT = 1
_MOST_OF_A_VALUE = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query that all readers can be asked: a snapshot, one as of an instant, base files only, or a range."""

    as_of: str | None = None
    read_optimized: bool = False
    after: str | None = None
    up_to: str | None = None

    @property
    def name(self) -> str:
        """What is shown of it."""
        if self.after is not None:
            return f"after {self.after}" + (f" up to {self.up_to}" if self.up_to else "")
        if self.read_optimized:
            return "read optimized"
        return "snapshot" if self.as_of is None else f"as of {self.as_of}"

    def for_spark(self) -> dict[str, str]:
        """The options of Hudi's data source."""
        if self.after is not None:
            range_end = {"hoodie.datasource.read.end.instanttime": self.up_to} if self.up_to else {}
            return {
                _QUERY_TYPE: "incremental",
                "hoodie.datasource.read.begin.instanttime": self.after,
                **range_end,
            }
        if self.read_optimized:
            return {_QUERY_TYPE: "read_optimized"}
        return {} if self.as_of is None else {"as.of.instant": self.as_of}


class Peer(Protocol):
    """A reader to compare with."""

    name: str

    def answers(self, table: str, queries: Sequence[Query]) -> list[Answer]:
        """An answer for each query to the table in a folder."""
        ...


class HudiRs:
    """The package ``hudi``, in this process."""

    def __init__(self) -> None:
        """Raises QueryError: the package is not installed."""
        if find_spec("hudi") is None:
            raise QueryError("--with", "hudi, which is not installed", "pip install hudi")
        self.name = f"hudi {version('hudi')}"

    def answers(self, table: str, queries: Sequence[Query]) -> list[Answer]:
        """An answer for each query."""
        return [_answer(lambda query=query: _read_by_hudi_rs(table, query)) for query in queries]  # type: ignore[misc]


def _answer(read: Callable[[], pa.Table]) -> Answer:
    try:
        return read()
    # The Rust reader panics with an exception that derives from BaseException.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return reason(str(error) or type(error).__name__)


def _read_by_hudi_rs(table: str, query: Query) -> pa.Table:
    import hudi  # noqa: PLC0415 - only where it is asked

    options = hudi.HudiReadOptions()
    if query.after is not None:
        options = options.with_query_type(hudi.HudiQueryType.Incremental).with_start_timestamp(query.after)
        if query.up_to is not None:
            options = options.with_end_timestamp(query.up_to)
    if query.as_of is not None:
        options = options.with_as_of_timestamp(query.as_of)
    if query.read_optimized:
        options = options.with_hudi_option(_READ_OPTIMIZED_BY_HUDI_RS, "true")
    opened = hudi.HudiTableBuilder.from_base_uri(table).build()
    batches = [pa.record_batch(batch) for batch in opened.read(options)]
    if batches:
        return pa.Table.from_batches(batches)
    return pa.schema(opened.get_schema_with_meta_fields()).empty_table()


class Spark:
    """Hudi on Spark, in a process of a Python that has PySpark."""

    def __init__(self, python: str | None, bundle: str | None) -> None:
        """Raises QueryError: the bundle is not there."""
        self._python = python or sys.executable
        self._bundle = bundle or os.environ.get("HUDI_SPARK_BUNDLE") or ""
        if self._bundle and not Path(self._bundle).is_file():
            raise QueryError("--bundle", self._bundle, "the jar of Hudi's bundle for the Spark of PySpark")
        match = re.search(r"-(\d[\w.]*)\.jar$", self._bundle)
        self.name = f"spark, hudi {match[1]}" if match else "spark"

    def answers(self, table: str, queries: Sequence[Query]) -> list[Answer]:
        """An answer for each query."""
        with tempfile.TemporaryDirectory(prefix="hudi-bridge-compare-") as folder:
            jobs = [
                {"table": table, "options": query.for_spark(), "answer": str(number)}
                for number, query in enumerate(queries)
            ]
            command = [self._python, str(_WORKER), self._bundle, folder]
            ended = subprocess.run(command, input=json.dumps(jobs), text=True, capture_output=True, check=False)  # noqa: S603 - of the user's own Python
            if ended.returncode:
                failed = reason("\n".join(reversed(ended.stderr.strip().splitlines())))
                raise QueryError("--with", f"spark, which does not start: {failed}", "a Python with PySpark and Java")
            return [_stored(Path(folder), str(number)) for number in range(len(queries))]


def _stored(folder: Path, name: str) -> Answer:
    error = folder / f"{name}.error"
    return reason(error.read_text()) if error.exists() else pq.read_table(folder / name)


def reason(text: str) -> str:
    """The first line of an error that says something, cut to a line's length."""
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip() and not _NOISE.match(line)]
    line_of_error = next(
        (line for line in lines if not line.startswith("An error occurred while calling")), "no reason given"
    )
    return line_of_error if len(line_of_error) <= _MOST_OF_A_REASON else line_of_error[:_MOST_OF_A_REASON] + "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One record, by its key or all of its values: on one side only, or with other values in some columns.

    ``columns`` maps a column to its value here and its value there.
    """

    record: Record
    side: str
    columns: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """How many records differ, the first of them, and the columns that only one side has."""

    only_here: int = 0
    only_there: int = 0
    changed: int = 0
    examples: tuple[Difference, ...] = ()
    columns_here: tuple[str, ...] = ()
    columns_there: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.only_here or self.only_there or self.changed or self.columns_here or self.columns_there)


def compare_rows(here: pa.Table, there: pa.Table, most: int) -> Differences:
    """The differences between two answers, with at most ``most`` examples of each kind.

    Records are matched by record key and partition, or by all of their values where keys repeat or are not there.
    """
    columns = [name for name in here.column_names if name in there.column_names]
    columns_here = tuple(name for name in here.column_names if name not in columns)
    columns_there = tuple(name for name in there.column_names if name not in columns)
    codes = {name: _codes(here[name], there[name]) for name in columns}
    keys = [name for name in KEY_COLUMNS if name in columns]
    rows = _by_key(here, there, codes, keys, most) if keys else None
    if rows is None:
        rows = _by_value(here, there, codes, columns, most)
    only_here, only_there, changed, examples = rows
    return Differences(
        only_here=only_here,
        only_there=only_there,
        changed=changed,
        examples=tuple(examples),
        columns_here=columns_here,
        columns_there=columns_there,
    )


_Found = tuple[int, int, int, list[Difference]]


def _by_key(
    here: pa.Table, there: pa.Table, codes: Mapping[str, Codes], keys: Sequence[str], most: int
) -> _Found | None:
    """The differences by key; None if keys repeat on a side."""
    size = here.num_rows
    number = _numbered([codes[name] for name in keys], size + there.num_rows)
    ours, other = number[:size], number[size:]
    if len(np.unique(ours)) < len(ours) or len(np.unique(other)) < len(other):
        return None
    _, at_here, at_there = np.intersect1d(ours, other, assume_unique=True, return_indices=True)
    unequal = {name: code[:size][at_here] != code[size:][at_there] for name, code in codes.items()}
    changed = np.flatnonzero(np.logical_or.reduce(list(unequal.values())))
    only_here = np.flatnonzero(~np.isin(ours, other))
    only_there = np.flatnonzero(~np.isin(other, ours))
    examples = [
        Difference(
            record=_record(here, keys, int(at_here[row])),
            side="both",
            columns={
                name: (here[name][int(at_here[row])].as_py(), there[name][int(at_there[row])].as_py())
                for name, differs in unequal.items()
                if differs[row]
            },
        )
        for row in changed[:most].tolist()
    ]
    examples += _of_one_side(here, keys, only_here[:most], "here")
    examples += _of_one_side(there, keys, only_there[:most], "there")
    return len(only_here), len(only_there), len(changed), examples


def _by_value(here: pa.Table, there: pa.Table, codes: Mapping[str, Codes], columns: Sequence[str], most: int) -> _Found:
    """The differences of whole rows, each counted as often as one side has it more often."""
    size = here.num_rows
    number = _numbered([codes[name] for name in columns], size + there.num_rows)
    kinds = int(number.max(initial=-1)) + 1
    balance = np.bincount(number[:size], minlength=kinds) - np.bincount(number[size:], minlength=kinds)
    more_here = np.flatnonzero(np.isin(number[:size], np.flatnonzero(balance > 0)))
    more_there = np.flatnonzero(np.isin(number[size:], np.flatnonzero(balance < 0)))
    examples = _of_one_side(here, columns, more_here[:most], "here")
    examples += _of_one_side(there, columns, more_there[:most], "there")
    return int(balance[balance > 0].sum()), int(-balance[balance < 0].sum()), 0, examples


def _of_one_side(table: pa.Table, columns: Sequence[str], rows: Codes, side: str) -> list[Difference]:
    return [Difference(record=_record(table, columns, row), side=side, columns={}) for row in rows.tolist()]


def _record(table: pa.Table, columns: Iterable[str], row: int) -> Record:
    return {name: table[name][row].as_py() for name in columns}


def _numbered(codes: Sequence[Codes], rows: int) -> Codes:
    """A number for each row, the same for rows with the same codes in all columns."""
    number = np.zeros(rows, dtype=np.int64)
    for code in codes:
        number = np.unique(np.stack([number, code], axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    return number


def _codes(here: Any, there: Any) -> Codes:  # noqa: ANN401 - chunked arrays of any type
    left, right = _comparable(here), _comparable(there)
    if left.type != right.type:
        left, right = _texts(here), _texts(there)
    both = pa.concat_arrays([left, right]).dictionary_encode(null_encoding="encode")
    return np.asarray(both.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _comparable(column: Any) -> Any:  # noqa: ANN401 - arrays of any type
    """The column in a type in which equal values of lenient types are equal."""
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_floating(kind):
        return _float_bits(array.cast(pa.float64()))
    if pa.types.is_integer(kind):
        return array.cast(pa.int64())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return array.cast(pa.large_string())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return array.cast(pa.large_binary())
    if pa.types.is_boolean(kind) or pa.types.is_date32(kind):
        return array
    return _texts(column)


def _float_bits(array: Any) -> Any:  # noqa: ANN401 - an array
    values = array.fill_null(0.0).to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    # Durations, so that floats are never equal to whole numbers.
    return pa.array(bits, mask=array.is_null().to_numpy(zero_copy_only=False)).view(pa.duration("ns"))


def _texts(column: Any) -> Any:  # noqa: ANN401 - arrays of any type
    values = column.to_pylist()
    return pa.array([None if value is None else _canonical_text(value) for value in values], pa.large_string())


def _canonical_text(value: Any) -> str:  # noqa: ANN401 - a value of any column
    """A text of a value that equal values share, whatever the types that hold them."""
    match value:
        case dict():
            return "{" + ",".join(f"{name!r}:{_canonical_text(value[name])}" for name in sorted(value)) + "}"
        case list() if value and all(isinstance(item, tuple) for item in value):
            return "map" + ",".join(sorted(f"{_canonical_text(key)}:{_canonical_text(item)}" for key, item in value))
        case list():
            return "[" + ",".join(map(_canonical_text, value)) + "]"
        case dt.datetime():
            moment = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
            return f"time {moment.isoformat()}"
        case Decimal():
            return f"decimal {value.normalize():f}" if value else "decimal 0"
        case _:
            return repr(value)


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
        int,
        typer.Option(
            min=0, metavar="N", help="As of how many commits, and in how many ranges of commits, tables are read."
        ),
    ] = 3,
    limit: Annotated[
        int, typer.Option(min=0, metavar="N", help="At most this many records of each kind are shown.")
    ] = 3,
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
    with open_sink(output, no_clobber=no_clobber) as sink, telling_progress() as tell:
        for found_path in _tables(table):
            # Hudi on Spark takes no relative path.
            path = found_path if "://" in found_path else str(Path(found_path).resolve())
            try:
                opened = HudiTable.open(path, options=parse_options(option), payloads=load_payloads(payload))
            except HudiReadError as error:
                if isinstance(error, QueryError):
                    raise
                comparisons = [_refused(Query(), reason(str(error)), pa.table({}))]
            else:
                # The other reader has no such column.
                if opened.planner().state.options.completion_times:
                    raise QueryError("--option", f"{COMPLETION_TIMES_KEY}=true", "the columns that both readers have")
                comparisons = list(compare_table(opened, path, peer, instants=instants, limit=limit, tell=tell))
            ended_well &= all(
                comparison.verdict not in (Verdict.DIFFERS, Verdict.REFUSED_HERE) for comparison in comparisons
            )
            text = (
                _json(path, peer, comparisons)
                if output_format is ComparisonFormat.JSON
                else _text(path, peer, comparisons)
            )
            sink.write(text.encode("utf-8", "backslashreplace"))
    if not ended_well:
        raise typer.Exit(_DIFFERENT)


def _tables(path: str) -> Iterator[str]:
    folder = Storage.open(path)
    if not folder.exists("") or is_table_folder(folder) or folder.is_file(""):
        yield path
        return

    def failed(_storage: Storage, error: HudiReadError) -> None:
        raise error

    paths = [storage.shown_path for storage in tables_below(folder, failed)]
    if not paths:
        raise TableNotFoundError(folder.shown_path, "neither it nor a folder in it holds .hoodie")
    yield from paths


def compare_table(
    table: HudiTable,
    path: str,
    peer: Peer,
    *,
    instants: int,
    limit: int,
    tell: Callable[[str, int, int], None] = lambda *_: None,
) -> Iterator[Comparison]:
    """The comparison of each query to a table; ``tell`` gets what is read, and how many queries are done."""
    queries = queries_to(table, instants)
    tell(f"{path}: {len(queries)} queries to {peer.name}", 0, 0)
    answers = peer.answers(path, queries)
    for number, (query, there) in enumerate(zip(queries, answers, strict=True), 1):
        what = f"{path}: {query.name}, query {number} of {len(queries)}"
        tell(what, 0, 0)
        with watching_work(lambda work, what=what: tell(f"{what}: {work}", 0, 0)):  # type: ignore[misc]
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


def _summary(differences: Differences) -> str:
    parts = [
        f"{counted(count, 'record')} {what}"
        for count, what in (
            (differences.changed, "with other values"),
            (differences.only_here, "only here"),
            (differences.only_there, "only there"),
        )
        if count
    ]
    parts += [
        f"columns only {side}: {', '.join(names)}"
        for side, names in (("here", differences.columns_here), ("there", differences.columns_there))
        if names
    ]
    return "; ".join(parts)


def _text(path: str, peer: Peer, comparisons: Sequence[Comparison]) -> str:
    lines = [f"{path} beside {peer.name}"]
    for comparison in comparisons:
        rows = "" if comparison.rows is None else f" ({counted(comparison.rows, 'row')})"
        lines.append(f"  {comparison.query}{rows}: {comparison.text}")
        lines += [
            f"    {_example(example)}"
            for example in (comparison.differences.examples if comparison.differences else ())
        ]
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


def _json(path: str, peer: Peer, comparisons: Sequence[Comparison]) -> str:
    document = {"table": path, "with": peer.name, "queries": [asdict(comparison) for comparison in comparisons]}
    return json.dumps(document, default=str) + "\n"
