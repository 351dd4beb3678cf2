"""Hudi's table-valued functions in Spark SQL, as table functions in Python (PySpark 4.1 or later).

    hudi_table_changes(table, format, begin [, end])       the rows, or the changes, of a range of commits
    hudi_query_timeline(table [, include_archived])        the instants, with what commits have written
    hudi_filesystem_view(table [, sub_path])               the file slices in the folders that a glob pattern names
    hudi_metadata(table)                                   the records of the metadata table

Spark analyzes a call in a process that has no session. It opens the table, says which columns there are, and plans the
range. The plan goes to the task that reads. A call without a table among its arguments is one task, so
``hudi_table_changes`` also takes a table whose rows are numbers of parts, which become tasks. ``EXPLAIN`` shows nothing
but the name and the arguments of a call, so a warning says where one task reads a large range, and what to write
instead. Spark analyzes a call for ``EXPLAIN``, too.

Rows are Arrow batches from the reader to the JVM, one at a time. The decorator ``arrow_udtf`` of PySpark refuses
functions that say their columns when they are called. Spark itself runs them: the evaluation type is set here.

Source: ``TableValuedFunctions`` and the parsers of their arguments of Hudi; ``analyze_udtf.py`` and ``read_udtf`` of
PySpark.
"""

import inspect
import logging
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark.util
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf
from pyspark.sql.types import IntegralType, StructType

from hudi_bridge.changes.split import ChangeFormat
from hudi_bridge.common.display import size_text
from hudi_bridge.connectors.spark.errors import noting_error_details
from hudi_bridge.connectors.spark.jobs import read_task
from hudi_bridge.connectors.spark.lake import Lake
from hudi_bridge.connectors.spark.options import (
    BEGIN,
    END,
    INCREMENTAL_FORMAT,
    LATEST_STATE,
    SparkQuery,
    parse_options,
    settings_of_tables,
)
from hudi_bridge.connectors.spark.plan import PinnedQuery
from hudi_bridge.connectors.spark.sessions import on_workers, parallelism_of, require_same_python
from hudi_bridge.connectors.spark.types import arrow_layout, in_layout, spark_schema
from hudi_bridge.errors import QueryError
from hudi_bridge.inspection import (
    FILESYSTEM_VIEW_SCHEMA,
    METADATA_RECORDS_SCHEMA,
    QUERY_TIMELINE_SCHEMA,
    filesystem_view,
    metadata_records,
    query_timeline,
)
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.options import QUERY_TYPE_KEY
from hudi_bridge.storage.storage import PathLike, StorageOptions, path_text

_LOG = logging.getLogger(__name__)
_EVALUATION = "SQL_ARROW_UDTF"
"""The evaluation type of table functions that return Arrow batches, which PySpark 4.0 has not."""
_FORMATS = (LATEST_STATE, ChangeFormat.CDC.value)
_PART, _PARTS = "part", "parts"
_EXPECTED_PARTS = "a table of the whole numbers part and parts: read part 0 of 8, part 1 of 8, …"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSettings:
    """What the tables of all calls are opened with.

    ``paths`` are those of the tables that calls may name, by the name in small letters.
    """

    paths: Mapping[str, str]
    options: Mapping[str, str] = field(repr=False)
    payloads: Mapping[str, RecordPayload] = field(repr=False)
    parallelism: int


Batches = Iterator[pa.RecordBatch]
Parts = Iterable[tuple[int, int]]
Rows = Callable[[Parts], Batches]
"""The rows of a call, or of parts of them: each part by its number, from 0, and the number of all parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """An analyzed call: its columns, and what the tasks do."""

    schema: pa.Schema
    rows: Rows


def register_functions(
    spark: SparkSession,
    tables: "Mapping[str, PathLike] | Lake | None" = None,
    *,
    options: Mapping[str, str] | None = None,
    payloads: Mapping[str, RecordPayload] | None = None,
    log_memory_bytes: int | None = None,
    storage_options: StorageOptions | None = None,
) -> None:
    """Makes Hudi's table-valued functions for the SQL of a session: ``hudi_table_changes`` and three others.

    They take the path of a table, which has a slash, or a name of ``tables``: a mapping of names to paths, or what
    ``attach_all`` has returned. ``options``, ``payloads``, ``log_memory_bytes`` and ``storage_options`` are those of
    ``read``, for all tables.

    Raises:
        QueryError: this release of PySpark cannot run the functions, an option is unknown or refused, or the workers
            run another version of Python.
    """
    # PySpark 3.5 has the types of evaluation elsewhere.
    evaluation = getattr(getattr(pyspark.util, "PythonEvalType", None), _EVALUATION, None)
    if evaluation is None:
        instead = "read() with the query type incremental, and attach_all()"
        raise QueryError(
            "register_functions", f"PySpark {pyspark.__version__}", f"PySpark 4.1 or later; before it, {instead}"
        )
    require_same_python(spark)
    # Each function says what it reads.
    given = settings_of_tables(options, log_memory_bytes, storage_options, (SparkQuery.SNAPSHOT,))
    named = tables.paths() if isinstance(tables, Lake) else tables or {}
    settings = FunctionSettings(
        paths={name.lower(): path_text(path) for name, path in named.items()},
        options=given,
        payloads=payloads or {},
        parallelism=parallelism_of(spark),
    )
    for name, function in _FUNCTIONS.items():
        handler = _handler(on_workers(partial(_analyze, function, settings)), on_workers(_run))
        made: Any = udtf(handler, useArrow=False)
        made.evalType = evaluation
        spark.udtf.register(name, made.asDeterministic())


def _handler(analyze_call: Callable[[Any], tuple[Any, bytes]], run_call: Callable[[Any], Batches]) -> type:
    """The class of a table function, which is pickled by value: a worker without this package says so."""

    class TableFunction:
        def __init__(self, analyzed: Any) -> None:  # noqa: ANN401 - defined below
            self._call = analyzed.call

        def eval(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - batches
            yield from run_call((self._call, [*arguments, *named.values()]))

        @staticmethod
        def analyze(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - defined below
            from dataclasses import dataclass  # noqa: PLC0415 - what a worker needs

            from pyspark.sql.types import StructType  # noqa: PLC0415
            from pyspark.sql.udtf import AnalyzeResult  # noqa: PLC0415

            @dataclass
            class Analyzed(AnalyzeResult):
                call: bytes = b""

            schema, call = analyze_call((arguments, named))
            return Analyzed(schema=StructType.fromJson(schema), call=call)

    return TableFunction


def _analyze(
    function: Callable[..., _Call], settings: FunctionSettings, given: tuple[tuple[Any, ...], Mapping[str, Any]]
) -> tuple[Any, bytes]:
    """The columns of a call, as JSON of Spark, and the pickled call."""
    with noting_error_details():
        try:
            bound = inspect.signature(function).bind(settings, *given[0], **given[1])
        except TypeError as error:
            usage = ", ".join(list(inspect.signature(function).parameters)[1:])
            raise QueryError("arguments", str(error), usage) from error
        call = function(*bound.args, **bound.kwargs)
        pickled: bytes = cloudpickle.dumps(call)  # type: ignore[no-untyped-call]
        return spark_schema(call.schema).jsonValue(), pickled


def _run(task: tuple[bytes, list[Any]]) -> Batches:
    """The rows of a call, or of the parts in the batch of its table argument."""
    with noting_error_details():
        call: _Call = pickle.loads(task[0])  # noqa: S301 - from the driver of this job
        batches = [argument for argument in task[1] if isinstance(argument, pa.RecordBatch)]
        parts = [part for batch in batches for part in _parts_in(batch)] if batches else [(0, 1)]
        yield from in_layout(call.rows(parts), arrow_layout(call.schema))


def _parts_in(batch: pa.RecordBatch) -> list[tuple[int, int]]:
    columns = (batch.column(name).to_pylist() for name in (_PART, _PARTS))
    parts = list(zip(*columns, strict=True))
    for part, count in parts:
        if part is None or count is None or not 0 <= part < count:
            raise QueryError(_PARTS, f"part {part} of {count}", "a number from 0 on, below that of the parts")
    return parts


def _text(name: str, argument: Any) -> str:  # noqa: ANN401 - AnalyzeArgument
    """The value of an argument as Hudi takes it."""
    if argument.isTable or not argument.isConstantExpression:
        raise QueryError(name, "what is not a constant", "a literal, as Spark plans the call before it has rows")
    if argument.value is None:
        raise QueryError(name, "NULL", "a value")
    return str(argument.value).lower() if isinstance(argument.value, bool) else str(argument.value)


def _path(settings: FunctionSettings, argument: Any) -> str:  # noqa: ANN401 - AnalyzeArgument
    text = _text("table", argument)
    if "/" in text:
        # Of a local table, the absolute path: workers may run in another folder.
        return text if "://" in text or text.startswith("file:") else str(Path(text).absolute())
    path = settings.paths.get(text.replace("`", "").lower())
    if path is None:
        names = ", ".join(sorted(settings.paths)) or "none are given to register_functions"
        raise QueryError("table", repr(text), f"a path, which has a slash, or a name of a table: {names}")
    return path


def _query(settings: FunctionSettings, table: Any, more: Mapping[str, str]) -> PinnedQuery:  # noqa: ANN401
    options = parse_options({**settings.options, **more, "path": _path(settings, table)})
    return PinnedQuery.of(options, settings.payloads)


def _table_changes(
    settings: FunctionSettings,
    table: Any,  # noqa: ANN401 - AnalyzeArgument, as all that follow
    format: Any,  # noqa: A002, ANN401
    begin: Any,  # noqa: ANN401
    end: Any = None,  # noqa: ANN401
    parts: Any = None,  # noqa: ANN401
) -> _Call:
    kind = _text("format", format)
    if kind not in _FORMATS:
        raise QueryError("format", repr(kind), " or ".join(_FORMATS))
    if parts is not None:
        _require_parts(parts)
    bounds = {BEGIN: _text("begin", begin)} | ({} if end is None else {END: _text("end", end)})
    incremental = {QUERY_TYPE_KEY: SparkQuery.INCREMENTAL.value, INCREMENTAL_FORMAT: kind}
    query = _query(settings, table, incremental | bounds)
    listing = query.listing()
    plan = listing.plan(settings.parallelism)
    weight = sum(split.weight for split in listing.splits)
    if parts is None and len(plan.tasks) > 1 and weight > listing.options.partition_bytes:
        _warn_of_one_task(query.table.path, weight, len(plan.tasks))

    def rows(numbers: Parts) -> Batches:
        for part, count in numbers:
            for task in plan.tasks[part::count]:
                yield from read_task(plan.reading, task)

    return _Call(schema=plan.reading.schema, rows=rows)


def _warn_of_one_task(path: str, weight: int, tasks: int) -> None:
    _LOG.warning(
        "%s: one task reads %s, as Spark divides no table function without a table among its arguments; for %d tasks: "
        "parts => TABLE(SELECT id AS part, %d AS parts FROM range(0, %d, 1, %d))",
        path,
        size_text(weight),
        *[tasks] * 4,
    )


def _require_parts(argument: Any) -> None:  # noqa: ANN401 - AnalyzeArgument
    kind = argument.dataType
    columns = {field.name: field.dataType for field in kind} if isinstance(kind, StructType) else {}
    if not argument.isTable or not all(isinstance(columns.get(name), IntegralType) for name in (_PART, _PARTS)):
        raise QueryError(_PARTS, kind.simpleString(), _EXPECTED_PARTS)


def _query_timeline(settings: FunctionSettings, table: Any, include_archived: Any = None) -> _Call:  # noqa: ANN401
    archived = include_archived is not None and _text("include_archived", include_archived) in ("true", "TRUE")
    rows = partial(query_timeline, _query(settings, table, {}).table, include_archived=archived)
    return _Call(schema=QUERY_TIMELINE_SCHEMA, rows=lambda _: iter(rows().to_batches()))


def _filesystem_view(settings: FunctionSettings, table: Any, sub_path: Any = None) -> _Call:  # noqa: ANN401
    pattern = "" if sub_path is None else _text("sub_path", sub_path)
    rows = partial(filesystem_view, _query(settings, table, {}).table, pattern)
    return _Call(schema=FILESYSTEM_VIEW_SCHEMA, rows=lambda _: iter(rows().to_batches()))


def _metadata(settings: FunctionSettings, table: Any) -> _Call:  # noqa: ANN401
    opened = _query(settings, table, {}).table
    return _Call(schema=METADATA_RECORDS_SCHEMA, rows=lambda _: metadata_records(opened))


_FUNCTIONS: Mapping[str, Callable[..., _Call]] = {
    "hudi_table_changes": _table_changes,
    "hudi_query_timeline": _query_timeline,
    "hudi_filesystem_view": _filesystem_view,
    "hudi_metadata": _metadata,
}
