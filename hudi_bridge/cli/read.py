"""``read``, ``get``, ``explain`` and ``log``: rows of a table or of record keys, what a query would read, log records.

The condition of ``--where`` is SQL, and DuckDB checks it. It passes on what it can to the dataset, so that indexes rule
out files. ``RowCondition`` evaluates it for single rows, for commands that test several versions of a record.
"""

import csv
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import typer

from hudi_bridge.cli import options
from hudi_bridge.cli.grid import Look
from hudi_bridge.cli.opening import (
    note_empty_past,
    note_if_planned_again,
    open_query,
    open_table,
    require_newest,
    rows_look,
)
from hudi_bridge.cli.output import Destination, noticing_closed_pipe, write_rows
from hudi_bridge.cli.sql import SHORT_NAME, Session, connection_in_utc, table_name
from hudi_bridge.cli.terminal import escape_control, print_note
from hudi_bridge.connectors.duckdb import quote_identifier
from hudi_bridge.connectors.duckdb.dialect import from_arrow, sql_names, without_offsets
from hudi_bridge.connectors.duckdb.file_system import Errors, Read, Source
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.errors import HudiReadError, QueryError
from hudi_bridge.inspection import inspect_log_blocks, inspect_log_records
from hudi_bridge.options import OnFilesGone
from hudi_bridge.readers.request import referenced_columns
from hudi_bridge.schema.meta_columns import own_columns
from hudi_bridge.table import HudiTable

_STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True)
class RowsSource:
    """The rows of a query, by the name of the table."""

    name: str
    errors: Errors
    example: str = SHORT_NAME

    @property
    def greeting(self) -> str:
        """The name of the rows."""
        return f"rows named {self.name} or {SHORT_NAME}"

    def prepare(self, statement: str) -> None:
        """Nothing: the view is there."""

    def tables(self) -> Iterable[str]:
        """None: DuckDB has all."""
        return ()

    def answer(self, statement: str) -> None:
        """Nothing: all statements are DuckDB's."""

    def cause_of(self, error: BaseException) -> HudiReadError | None:
        """The error of the table that caused an error of DuckDB, whose text it has."""
        return next((cause for cause in reversed(self.errors) if str(cause) in str(error)), None)


@contextmanager
def open_rows_session(dataset: HudiDataset, name: str, read: Read | None = None) -> Iterator[Session]:
    """Opens a session with the rows of a query under a name and under ``SHORT_NAME``; ``read`` reads them."""
    errors: Errors = deque(maxlen=1)
    source = Source(dataset.schema, read or dataset.to_batches, errors)
    with connection_in_utc() as connection:
        rows = source.rows_in(connection)
        for view in dict.fromkeys((name, SHORT_NAME)):
            rows.create_view(view)
        yield Session(connection=connection, source=RowsSource(name, errors))


def rows_where(name: str, columns: Sequence[str], condition: str) -> str:
    """The statement that selects columns, by their names in SQL, of the rows that meet a condition."""
    # With the line break, a comment at the end of the condition does not hide the closing parenthesis.
    selected = ", ".join(map(quote_identifier, columns))
    return f"SELECT {selected} FROM {quote_identifier(name)} WHERE (\n{condition}\n)"


def in_sql(schema: pa.Schema, columns: Sequence[str]) -> list[str]:
    """The names in SQL of some columns of a table."""
    names = dict(zip(schema.names, sql_names(schema.names), strict=True))
    return [names[column] for column in columns]


def pushed_filter(
    dataset: HudiDataset, name: str, columns: Sequence[str], condition: str
) -> tuple[list[str], pc.Expression | None]:
    """The columns and the filter with which DuckDB would scan the rows for a condition; nothing is read.

    Raises:
        QueryError: the condition reads the table again, as in a subquery.
    """
    asked: list[tuple[list[str], pc.Expression | None]] = []

    def ask(columns: Sequence[str], row_filter: pc.Expression | None) -> Iterable[pa.RecordBatch]:
        asked.append((list(columns), row_filter))
        return ()

    selected = in_sql(dataset.schema, columns)
    with open_rows_session(dataset, name, ask) as session:
        session.query(rows_where(name, selected, condition), lambda rows: deque(rows, 0).clear())
    if len(asked) > 1:
        raise QueryError("--where", condition, "a condition without subqueries")
    # DuckDB does not ask if no row can pass.
    return asked[0] if asked else (list(columns), pc.scalar(False))  # noqa: FBT003 - a literal of the language


def read(
    table: options.Table,
    *,
    columns: options.Columns = None,
    no_meta_columns: options.NoMetaColumns = False,
    completion_times: options.CompletionTimes = False,
    where: options.Where = None,
    limit: options.Limit = None,
    read_optimized: options.ReadOptimized = False,
    as_of: options.AsOf = None,
    after: options.After = None,
    up_to: options.UpTo = None,
    on_files_gone: options.FilesGone = OnFilesGone.ERROR,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """Read the rows of the newest snapshot, or with --after those that later commits have written."""
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    opened = open_table(table, option, payload, storage_option, completion_times=completion_times)
    dataset = open_query(
        opened,
        read_optimized=read_optimized,
        as_of=as_of,
        after=after,
        up_to=up_to,
        on_files_gone=on_files_gone,
    )
    note_empty_past(opened, as_of)
    if left_out := dataset.left_out_log_files():
        print_note(f"read optimized: changes in {left_out:,} log {'file' if left_out == 1 else 'files'} are left out")
    look, instant = rows_look(opened), dataset.instant
    names = column_names(columns, dataset, meta_columns=not no_meta_columns)
    schema = pa.schema([dataset.schema.field(name) for name in names])
    if where is None:
        rows = pa.RecordBatchReader.from_batches(schema, _planned_at_first(dataset, names))
        write_rows(rows, destination, limit=limit, look=look)
    else:
        name = table_name(opened)
        with open_rows_session(dataset, name) as session:
            session.query(
                rows_where(name, in_sql(dataset.schema, names), where),
                lambda rows: write_rows(_with_schema(rows, schema), destination, limit=limit, look=look),
            )
    note_if_planned_again(dataset, instant)
    if after is not None:
        print_note(f"the range that follows begins with --after {dataset.next_after}")
    if limit is None and not read_optimized and (damaged := dataset.skipped_log_blocks().corrupt):
        print_note(f"{damaged:,} damaged log {'block' if damaged == 1 else 'blocks'} left out, as Hudi does")


def _planned_at_first(dataset: HudiDataset, names: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows, planned when the first are asked for: by then, progress is shown."""
    yield from dataset.to_batches(names)


def column_names(text: str | None, dataset: HudiDataset, *, meta_columns: bool = True) -> list[str]:
    """The names in a comma-separated list; names with commas are in double quotes. Without a list, all columns."""
    if text is None:
        return list(dataset.schema.names) if meta_columns else own_columns(dataset.schema.names)
    names = next(csv.reader([text], skipinitialspace=True), [])
    for name in names:
        if name not in dataset.schema.names:
            raise QueryError("--columns", repr(name), f"columns among {', '.join(dataset.schema.names)}")
    return names


def _with_schema(rows: pa.RecordBatchReader, schema: pa.Schema) -> pa.RecordBatchReader:
    """The rows with the names and types of the table: DuckDB returns some columns by other names or in wider types."""
    batches: Iterator[pa.RecordBatch] = (batch.rename_columns(schema.names).cast(schema) for batch in rows)
    return pa.RecordBatchReader.from_batches(schema, batches)


def get(
    table: options.Table,
    keys: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY...",
            help="Record keys, as in _hoodie_record_key; of several fields: field:value,field:value.",
            show_default=False,
        ),
    ] = None,
    *,
    keys_from: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A file with a key in each line; - is standard input.", show_default=False),
    ] = None,
    columns: options.Columns = None,
    no_meta_columns: options.NoMetaColumns = False,
    completion_times: options.CompletionTimes = False,
    partition: Annotated[
        str | None, typer.Option(metavar="PATH", help="Search this partition only.", show_default=False)
    ] = None,
    as_of: options.AsOf = None,
    on_files_gone: options.FilesGone = OnFilesGone.ERROR,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """Look up the rows of record keys, with the indexes of the table.

    The exit code is 1 if none of the keys has a row.
    """
    if not keys and keys_from is None:
        raise QueryError("KEY", "no key", "record keys, or --keys-from FILE")
    require_newest(on_files_gone, {"--as-of": as_of})
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    record_keys = [*(keys or ()), *(_lines(keys_from) if keys_from is not None else ())]
    opened = open_table(table, option, payload, storage_option, completion_times=completion_times)
    dataset = opened.query(as_of, on_files_gone=on_files_gone)
    instant = dataset.instant
    names = column_names(columns, dataset, meta_columns=not no_meta_columns)
    rows = dataset.get(record_keys, names, partition_path=partition)
    write_rows(rows.to_reader(), destination, limit=rows.num_rows, look=rows_look(opened))
    note_if_planned_again(dataset, instant)
    if not rows.num_rows:
        print_note(f"no row as of {dataset.instant} for {_counted(len(set(record_keys)))}")
        note_empty_past(opened, as_of)
        raise typer.Exit(1)


def _lines(path: str) -> list[str]:
    try:
        text = sys.stdin.read() if path == _STANDARD_INPUT else Path(path).read_text(encoding="utf-8")
        # Some programs begin a text with a byte order mark.
        lines = text.removeprefix("\ufeff").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise QueryError("--keys-from", f"{path}: {error}", "a file of text in UTF-8") from error
    return [key for line in lines if (key := line.removesuffix("\r"))]


def _counted(keys: int) -> str:
    return "the key" if keys == 1 else f"{keys:,} keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCondition:
    """A condition, and the columns that it needs; one thread at a time may use it.

    ``row_filter`` is a condition for Arrow that all matching rows pass.
    """

    columns: tuple[str, ...]
    row_filter: pc.Expression | None
    _connection: duckdb.DuckDBPyConnection
    _lock: Lock
    _name: str
    _sql_names: Mapping[str, str]
    _condition: str

    def passes(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """A mask of the rows of a batch with the ``columns`` that meet the condition."""
        number = "".join(rows.schema.names) + "#"
        numbers = pa.array(np.arange(rows.num_rows))
        names = [*(self._sql_names[name] for name in rows.schema.names), number]
        numbered = pa.table([*without_offsets(rows).columns, numbers], names=names)
        passes = np.zeros(rows.num_rows, dtype=np.bool_)
        with self._lock:
            view = from_arrow(self._connection, numbered)
            for name in dict.fromkeys((self._name, SHORT_NAME)):
                view.create_view(name, replace=True)
            numbers_of_passing = self._connection.sql(rows_where(self._name, [number], self._condition)).fetchnumpy()
        passes[np.asarray(numbers_of_passing[number], dtype=np.int64)] = True
        return passes


@contextmanager
def row_condition(dataset: HudiDataset, name: str, condition: str) -> Iterator[RowCondition]:
    """The condition on rows with the columns of a dataset, which has a name in it; nothing is read of the dataset.

    Raises:
        QueryError: the condition reads the table again, as in a subquery.
        duckdb.Error: the condition cannot be understood.
    """
    schema = dataset.schema
    asked, row_filter = pushed_filter(dataset, name, schema.names[:1], condition)
    used = {*asked, *(() if row_filter is None else referenced_columns(row_filter, schema))}
    columns = tuple(column for column in schema.names if column in used)
    with connection_in_utc() as connection:
        yield RowCondition(
            columns=columns,
            row_filter=row_filter,
            _connection=connection,
            _lock=Lock(),
            _name=name,
            _sql_names=dict(zip(columns, in_sql(schema, columns), strict=True)),
            _condition=condition,
        )


class ExplanationFormat(StrEnum):
    """How an explanation is written."""

    TABLE = "table"
    JSON = "json"


def explain(
    table: options.Table,
    *,
    columns: options.Columns = None,
    no_meta_columns: options.NoMetaColumns = False,
    where: options.Where = None,
    read_optimized: options.ReadOptimized = False,
    as_of: options.AsOf = None,
    after: options.After = None,
    up_to: options.UpTo = None,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    output_format: Annotated[
        ExplanationFormat, typer.Option("--format", "-f", help="Text for people, or one JSON object with all slices.")
    ] = ExplanationFormat.TABLE,
) -> None:
    """What read would read with the same options: files found, ruled out by which index, and left to read."""
    opened = open_table(table, option, payload, storage_option)
    dataset = open_query(opened, read_optimized=read_optimized, as_of=as_of, after=after, up_to=up_to)
    names = column_names(columns, dataset, meta_columns=not no_meta_columns)
    row_filter: pc.Expression | None = None
    if where is not None:
        names, row_filter = pushed_filter(dataset, table_name(opened), names, where)
    explanation = dataset.explain(row_filter, names)
    lines = [explanation.to_json()] if output_format is ExplanationFormat.JSON else str(explanation).splitlines()
    with noticing_closed_pipe():
        sys.stdout.writelines(f"{escape_control(line)}\n" for line in lines)
        sys.stdout.flush()


_BLOCKS = Look(keep=("kind", "instant_time", "counts", "rows", "deletes", "block", "why_not", "problem"), sizes=True)
_RECORDS = Look(keep=("record_key", "operation", "instant_time", "counts", "row", "problem"))
_ROW = "row"


def log(
    table: options.Table,
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="A log file, by its path in the table or its name.", show_default=False),
    ] = None,
    *,
    file_slice: Annotated[
        str | None, typer.Option("--slice", metavar="ID", help="The logs of this file id.", show_default=False)
    ] = None,
    records: Annotated[bool, typer.Option("--records", help="The records in the blocks, one row each.")] = False,
    columns: options.Columns = None,
    where: options.Where = None,
    limit: options.Limit = None,
    as_of: options.AsOf = None,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """The blocks of log files, or the records in them: what counts, and why the rest does not."""
    if file is not None and file_slice is not None:
        raise QueryError("FILE", "a file and --slice", "one of the two")
    if not records and (columns is not None or where is not None):
        raise QueryError("--columns" if where is None else "--where", "blocks", "--records, which have columns")
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    opened = open_table(table, option, payload, storage_option)
    if not records:
        blocks = inspect_log_blocks(opened, file, file_id=file_slice, as_of=as_of)
        write_rows(blocks.to_reader(), destination, limit=limit, look=_BLOCKS)
        return
    dataset = opened.snapshot(as_of)
    names = None if columns is None else column_names(columns, dataset)
    if where is None:
        rows = inspect_log_records(opened, file, file_id=file_slice, columns=names, as_of=as_of)
        write_rows(rows, destination, limit=limit, look=_RECORDS)
        return
    with row_condition(dataset, table_name(opened), where) as test:
        shown = tuple(dataset.schema.names) if names is None else tuple(names)
        rows = _records_where(opened, test, shown, file=file, file_id=file_slice, as_of=as_of)
        write_rows(rows, destination, limit=limit, look=_RECORDS)


def _records_where(
    table: HudiTable, test: RowCondition, names: tuple[str, ...], **arguments: str | None
) -> pa.RecordBatchReader:
    """The records with rows that meet a condition, with some columns of their rows."""
    needed = tuple(dict.fromkeys((*names, *test.columns)))
    reader = inspect_log_records(
        table,
        arguments["file"],
        file_id=arguments["file_id"],
        columns=needed,
        filter=test.row_filter,
        as_of=arguments["as_of"],
    )
    position = reader.schema.get_field_index(_ROW)
    row = pa.struct([reader.schema.field(position).type.field(name) for name in names])
    schema = reader.schema.set(position, pa.field(_ROW, row))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            structs: Any = batch.column(_ROW)
            values = dict(zip(needed, structs.flatten(), strict=True))
            tested = pa.record_batch([values[name] for name in test.columns], names=list(test.columns))
            has_row = structs.is_valid()
            passes = pa.array(test.passes(tested))
            shown = pa.StructArray.from_arrays([values[name] for name in names], fields=list(row))
            columns = [*batch.columns[:position], shown]
            yield pa.record_batch(columns, schema=schema).filter(pc.and_(passes, has_row))

    return pa.RecordBatchReader.from_batches(schema, batches())
