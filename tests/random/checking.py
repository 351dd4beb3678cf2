"""Compares Hudi Bridge's answers with Hudi's, for the folder of a random table."""

import datetime as dt
import json
import pickle
import random
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge import (
    HudiDataset,
    HudiTable,
    InstantNotReadableError,
    RealtimeFileSplit,
    UnsupportedTableError,
    open_reader,
    tools,
)
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.options import READ_AS_RELEASE_KEY
from hudi_bridge.tools import RecordHistory
from hudi_bridge.tools.trace.record_trace import FileGroupHistory
from hudi_bridge.tools.trace.verdicts import RecordVersion
from tests.golden.generate.document import load
from tests.golden.generate.questions import AS_OF, BEGIN, COLUMNS, END
from tests.golden.generate.releases import number
from tests.random.asking import answer_of
from tests.random.draw import Draw, read_draw
from tests.support.compare import differences

EQUAL, DIFFERENT, ERROR = "equal", "different", "error"
BOTH_REFUSE, HUDI_FAILS = "both refuse", "Hudi fails"
FAULTS = (DIFFERENT, ERROR)
"""The outcomes that are faults of Hudi Bridge, unless the difference is known."""

ARROW, NO_INDEXES, DUCKDB, SPLITS = "arrow", "arrow, no indexes", "duckdb", "pickled splits"
INDEXES_OFF = {"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}
READER_OPTIONS = (
    "hoodie.payload.delete.field",
    "hoodie.payload.delete.marker",
    "hoodie.datasource.write.record.merger.impls",
)
KEYS_ASKED_FOR = 5

_EXPRESSION_NAMES = {"pa": pa, "pc": pc, "dt": dt, "Decimal": Decimal}
_MOST_OF_A_MESSAGE = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one answer came out; ``query`` is the number of the question, None for answers to none of them.

    ``reason`` says why a difference is no fault, if it is a known one. ``tables`` are Hudi's rows and ours, if they
    differ.
    """

    kind: str
    way: str
    query: int | None
    status: str
    detail: str = ""
    reason: str | None = None
    tables: tuple[pa.Table, pa.Table] | None = field(default=None, compare=False, repr=False)

    @property
    def is_fault(self) -> bool:
        """Whether Hudi Bridge is wrong."""
        return self.status in FAULTS and self.reason is None

    def as_json(self) -> dict[str, Any]:
        """All of it but the tables."""
        return {name: value for name, value in asdict(replace(self, tables=None)).items() if name != "tables"}

    @property
    def signature(self) -> tuple[str, str, str]:
        """What stays the same while a table is minimised."""
        return self.kind, self.way, self.status


@dataclass(frozen=True, slots=True)
class Case:
    """A random table with Hudi's answers."""

    folder: Path
    document: Mapping[str, Any]
    table: Draw

    @property
    def path(self) -> str:
        """The folder of the table itself."""
        return str(self.folder / "table")

    @property
    def options(self) -> dict[str, str]:
        """The options that the table is opened with."""
        options = {name: value for name, value in self.document["reader_options"].items() if name in READER_OPTIONS}
        began, ends = number(self.table.first_release), number(self.table.release)
        if (began < (1, 0) <= ends or began < (1, 1) <= ends) and self.document["table_version"] in (6, 8):
            # The properties are those of the release that began, or of 1.0 after an upgrade to version 8.
            options[READ_AS_RELEASE_KEY] = self.table.release.rpartition(".")[0]
        return options

    @property
    def snapshot(self) -> pa.Table | None:
        """Hudi's rows."""
        return self.answer(0)

    def answer(self, index: int) -> pa.Table | None:
        """Hudi's answer to a question."""
        return answer_of(self.folder, self.document["queries"][index])

    def opened(self, more: Mapping[str, str] | None = None) -> HudiTable:
        """The table as Hudi Bridge reads it, opened anew."""
        return HudiTable.open(self.path, options={**self.options, **(more or {})})


def read_case(folder: Path) -> Case:
    """The table in a folder."""
    document = load(folder)
    return Case(folder, document, read_draw(document["drawn"]))


def history_of(case: Case, key: str, as_of: str | None) -> RecordHistory:
    """The history of a record up to the end of a query, or to the newest state if that end has been cleaned."""
    table = case.opened()
    try:
        return tools.history_of(table, key, as_of=as_of)
    except InstantNotReadableError:
        return tools.history_of(table, key)


def versions_of(case: Case, key: str, as_of: str | None) -> list[RecordVersion]:
    """The versions of a record, also those that do not count."""
    return versions_in(history_of(case, key, as_of).file_groups)


def versions_in(groups: Sequence[FileGroupHistory]) -> list[RecordVersion]:
    """The versions of a record in file groups, also those that do not count."""
    uncounted = [entry.version for group in groups for entry in group.uncounted]
    return [version for group in groups for version in group.versions] + uncounted


def may_hide_late_deletes(case: Case) -> bool:
    """Whether deletes may have lost to earlier rows without a trace: base files of copy-on-write tables have none."""
    return not case.table.is_merge_on_read and any(step["name"] == "delete" for step in case.document["steps"])


def dataset_of(table: HudiTable, kind: str, options: Mapping[str, Any]) -> HudiDataset:
    """What a question asks, but for filters and projections."""
    if kind == "incremental":
        return table.incremental(options[BEGIN], options.get(END))
    if kind == "cdc":
        return table.changes(options[BEGIN], options.get(END), format="cdc")
    return table.read_optimized() if kind == "read_optimized" else table.snapshot(as_of=options.get(AS_OF))


def rows_of(table: HudiTable, kind: str, options: Mapping[str, Any]) -> pa.Table:
    """Hudi Bridge's answer to a question."""
    dataset = dataset_of(table, kind, options)
    if kind == "snapshot_filtered":
        return dataset.to_table(filter=eval(options["expression"], _EXPRESSION_NAMES))
    if kind == "snapshot_columns":
        return dataset.to_table(columns={f"x{index}": pc.field(*path) for index, path in enumerate(options[COLUMNS])})
    return dataset.to_table()


def stored_rows_of(table: HudiTable, kind: str, options: Mapping[str, Any]) -> pa.Table:
    """As ``rows_of`` without filters and projections, with partition columns as the files have them, or null."""
    dataset = dataset_of(table, kind, options)
    splits = [split for split in dataset.splits() if isinstance(split, RealtimeFileSplit)]
    stored = [replace(split, context=replace(split.context, path_columns=())) for split in splits]
    return pa.concat_tables([dataset.schema.empty_table(), *(open_reader(split).to_table() for split in stored)])


def duckdb_rows(table: HudiTable, where: str) -> pa.Table:
    """The rows that pass a condition, through DuckDB."""
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        attach(connection, table, name="t")
        rows: pa.Table = connection.sql(f"SELECT * FROM t WHERE {where}").to_arrow_table()
        return rows


def filtered(rows: pa.Table, where: str) -> pa.Table:
    """The rows of a table in memory that pass a condition."""
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.register("t", rows)
        actual: pa.Table = connection.sql(f"SELECT * FROM t WHERE {where}").to_arrow_table()
        return actual


def projected(rows: pa.Table, paths: Iterable[list[str]]) -> pa.Table:
    """The columns, and fields of columns, of a table in memory that a projection names."""
    columns = {}
    for index, (name, *fields) in enumerate(paths):
        column = rows[name].combine_chunks()
        for child in fields:
            column = pc.struct_field(column, [child])
        columns[f"x{index}"] = column
    return pa.table(columns)


def rows_through_splits(table: HudiTable) -> pa.Table:
    """The snapshot as workers read it, from pickled splits."""
    dataset = table.snapshot()
    parts = [open_reader(pickle.loads(pickle.dumps(split))).to_table() for split in dataset.splits()]
    return pa.concat_tables(parts) if parts else dataset.schema.empty_table()


def check(case: Case) -> list[Outcome]:
    """Compares all answers, through Arrow and DuckDB, with and without indexes."""
    outcomes: list[Outcome] = []
    for index, query in enumerate(case.document["queries"]):
        outcomes += _answers_to(case, index, query)
    snapshot = case.snapshot
    if snapshot is not None and snapshot.num_rows:
        outcomes += _look_ups(case, snapshot)
        outcomes.append(_compared(case, "snapshot", SPLITS, 0, lambda: rows_through_splits(case.opened())))
        outcomes.append(_compared(case, "snapshot", DUCKDB, 0, lambda: duckdb_rows(case.opened(), "true")))
    outcomes += _doctor(case)
    return outcomes


def _answers_to(case: Case, index: int, query: Mapping[str, Any]) -> Iterator[Outcome]:
    kind, options = query["kind"], query["options"]
    yield _compared(case, kind, ARROW, index, lambda: rows_of(case.opened(), kind, options))
    if case.table.has_metadata and kind in ("snapshot", "snapshot_filtered", "read_optimized"):
        yield _compared(case, kind, NO_INDEXES, index, lambda: rows_of(case.opened(INDEXES_OFF), kind, options))
    if kind == "snapshot_filtered":
        yield _compared(case, kind, DUCKDB, index, lambda: duckdb_rows(case.opened(), options["duckdb"]))


def _look_ups(case: Case, snapshot: pa.Table) -> Iterator[Outcome]:
    """Look-ups of some keys, and of one that is not there, by each index."""
    keys = snapshot["_hoodie_record_key"] if "_hoodie_record_key" in snapshot.column_names else None
    if keys is None or keys.null_count:
        return
    counts = Counter(str(key) for key in keys.to_pylist())
    chosen = random.Random(case.table.name).sample(sorted(counts), min(len(counts), KEYS_ASKED_FOR))
    # An index with one location for a key loses rows of those that have several.
    chosen += sorted({key for key, count in counts.items() if count > 1}.difference(chosen))
    expected = snapshot.filter(pc.is_in(keys, pa.array(chosen, pa.string())))
    absent = "id:absent,k2:1" if case.table.key == "composite" else "absent"
    bucket = {name: value for name, value in case.table.options.items() if "bucket" in name or "index.type" in name}
    ways: dict[str, Mapping[str, str]] = {ARROW: {}, NO_INDEXES: INDEXES_OFF}
    if case.table.index == "BUCKET":
        ways["arrow, buckets"] = bucket
    for way, options in ways.items():
        yield _outcome("look-up", way, None, expected, partial(_look_up, case, options, [*chosen, absent]))


def _look_up(case: Case, options: Mapping[str, str], keys: list[str]) -> pa.Table:
    return case.opened(options).get(keys)


def _compared(case: Case, kind: str, way: str, index: int, read: Callable[[], pa.Table]) -> Outcome:
    expected, query = case.answer(index), case.document["queries"][index]
    transform = parsed_images if kind == "cdc" else None
    return _outcome(kind, way, index, expected, read, transform, query.get("oracle_error"))


def _outcome(
    kind: str,
    way: str,
    index: int | None,
    expected: pa.Table | None,
    read: Callable[[], pa.Table],
    transform: Callable[[pa.Table], pa.Table] | None = None,
    error_of_hudi: str | None = None,
) -> Outcome:
    """Reads, and compares with what is expected; None stands for an answer that Hudi failed to give."""
    try:
        rows = read()
    except Exception as error:  # noqa: BLE001 - an error of any kind is an outcome
        text = f"{type(error).__name__}: {error}"[:_MOST_OF_A_MESSAGE]
        is_named = isinstance(error, (InstantNotReadableError, UnsupportedTableError))
        if not is_named:
            text += "\n" + traceback.format_exc()[-_MOST_OF_A_MESSAGE:]
        status = BOTH_REFUSE if expected is None and is_named else ERROR
        return Outcome(kind=kind, way=way, query=index, status=status, detail=text)
    if expected is None:
        detail = f"{rows.num_rows} rows; Hudi: {error_of_hudi}"
        return Outcome(kind=kind, way=way, query=index, status=HUDI_FAILS, detail=detail)
    if transform is not None:
        expected, rows = transform(expected), transform(rows)
    lines = differences(expected, rows)
    if not lines and way != DUCKDB:
        lines = type_differences(expected.schema, rows.schema)
    if not lines:
        return Outcome(kind=kind, way=way, query=index, status=EQUAL)
    detail, tables = " / ".join(lines)[:_MOST_OF_A_MESSAGE], (expected, rows)
    return Outcome(kind=kind, way=way, query=index, status=DIFFERENT, detail=detail, tables=tables)


def type_differences(expected: pa.Schema, schema: pa.Schema) -> list[str]:
    """The columns that have another type, whatever its form in Arrow, such as that of text with large offsets."""
    pairs = [(field, schema.field(field.name)) for field in expected]
    return [
        f"type of {field.name}: expected {field.type}, found {other.type}"
        for field, other in pairs
        if _meaning(field.type) != _meaning(other.type)
    ]


def _meaning(kind: Any) -> str:
    """A type without its form: columns of no rows can be of any type to those who compare values."""
    if pa.types.is_dictionary(kind):
        return _meaning(kind.value_type)
    if pa.types.is_struct(kind):
        return f"struct<{','.join(sorted(f'{field.name}:{_meaning(field.type)}' for field in kind))}>"
    if pa.types.is_map(kind):
        return f"map<{_meaning(kind.key_type)},{_meaning(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_meaning(kind.value_type)}>"
    if pa.types.is_timestamp(kind):
        return "timestamp with a zone" if kind.tz else "timestamp"
    return str(kind).removeprefix("large_").removesuffix("_view").removesuffix("[day]")


def parsed_images(changes: pa.Table) -> pa.Table:
    """Changes with images in one form of JSON: 0.15 has fields in another order, and names those that are null."""

    def one_form(text: str | None) -> str | None:
        fields = json.loads(text or "null")
        if fields is None:
            return None
        return json.dumps({name: value for name, value in fields.items() if value is not None}, sort_keys=True)

    for name in ("before", "after"):
        images = pa.array([one_form(text) for text in changes[name].to_pylist()], pa.string())
        changes = changes.set_column(changes.column_names.index(name), name, images)
    return changes


def first_commit_of(case: Case) -> str:
    """The first commit of the active timeline; cleans and rollbacks are archived by rules of their own."""
    instants = case.document["instants"]
    return min((entry["requested"] for entry in instants if entry["action"].endswith("commit")), default="")


def _doctor(case: Case) -> Iterator[Outcome]:
    """What the doctor finds wrong with a table that real Hudi has written, where Hudi reads it."""
    try:
        report = tools.doctor(case.opened(), deep=True)
    except Exception as error:  # noqa: BLE001 - as above
        yield Outcome(kind="doctor", way="doctor", query=None, status=ERROR, detail=f"{type(error).__name__}: {error}")
        return
    for finding in report.findings:
        severity = str(finding.severity)
        if severity in ("error", "warning"):
            status = ERROR if severity == "error" and case.snapshot is not None else f"doctor {severity}"
            yield Outcome(kind="doctor", way=finding.check, query=None, status=status, detail=str(finding)[:500])
