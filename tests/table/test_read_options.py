"""Read options: what Hudi answers to those that change rows, and that every place that takes options checks them."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiTable, QueryError
from hudi_bridge.cli.main import run
from hudi_bridge.connectors.duckdb import attach, attach_all
from hudi_bridge.connectors.lakes.roots import Roots
from hudi_bridge.connectors.lakes.tables import MergingByTable
from hudi_bridge.connectors.polars import scan
from hudi_bridge.connectors.spark import read
from hudi_bridge.connectors.spark.data_source import stream_options
from hudi_bridge.connectors.spark.options import parse_options
from hudi_bridge.connectors.spark.plan import PinnedQuery
from hudi_bridge.connectors.split_tasks import TableQuery
from hudi_bridge.options import (
    BLOB_MODE_KEY,
    COLUMN_IDS_KEY,
    END_SCHEMA_KEY,
    QUERY_TYPE_KEY,
    RANGE_VERSION_KEY,
    READ_OPTIONS,
    VIEW_TYPE_KEY,
    Effect,
    names_of,
)
from hudi_bridge.table import OpenArguments, RowsArguments
from tests.support.compare import differences
from tests.support.golden_cases import GoldenQuery, golden_blobs, golden_read_options, golden_table
from tests.support.read_options import answer_to, is_range
from tests.support.strength import one_in

QUERIES = {query.name: query for query in golden_read_options()}


def by_ids_of_no_commit(query: GoldenQuery) -> bool:
    """Whether a range of a merge-on-read table of 0.15 is asked for by ids, and ends before there are any."""
    instants = HudiTable.open(query.table).timeline.commits()
    by_ids = query.case == "evolved_mor_0150" and query.options.get(COLUMN_IDS_KEY) == "true"
    return by_ids and is_range(query) and (query.up_to or "9") < instants[2].requested_time


def by_completion_times(query: GoldenQuery) -> bool:
    """Whether a query that Hudi answers by requested times asks for completion times: changes, or any range of 0.15."""
    return query.options.get(RANGE_VERSION_KEY, "6") != "6" and (query.kind == "cdc" or query.case.endswith("_0150"))


ANSWERED = {name: query for name, query in QUERIES.items() if query.answer is not None}
DEVIATING = {name for name, query in ANSWERED.items() if by_ids_of_no_commit(query)}
BY_COMPLETION_TIMES = {name for name, query in ANSWERED.items() if by_completion_times(query)}


@pytest.mark.parametrize("name", one_in(9, sorted(ANSWERED.keys() - DEVIATING - BY_COMPLETION_TIMES)))
def test_rows_with_an_option_are_those_of_hudi(name: str) -> None:
    answer = ANSWERED[name].answer
    assert answer is not None
    assert differences(pq.read_table(answer), answer_to(ANSWERED[name])) == []


@pytest.mark.parametrize("name", sorted(DEVIATING))
def test_ranges_before_the_first_ids_are_read_by_ids_nevertheless(name: str) -> None:
    answer = ANSWERED[name].answer
    assert answer is not None
    by_name = replace(ANSWERED[name], options={**ANSWERED[name].options, COLUMN_IDS_KEY: "false"})
    expected = pq.read_table(answer)
    # 0.15 finds the columns of base files by name, and those of logs by their ids.
    in_logs = pc.invert(pc.ends_with(expected["_hoodie_file_name"], ".parquet"))
    assert pc.any(pc.invert(in_logs)).as_py()
    for rows, asked in ((in_logs, ANSWERED[name]), (pc.invert(in_logs), by_name)):
        chosen = expected.filter(rows)
        keys = chosen["_hoodie_record_key"]
        actual = answer_to(asked)
        assert differences(chosen, actual.filter(pc.is_in(actual["_hoodie_record_key"], keys))) == []


@pytest.mark.parametrize("name", one_in(5, sorted(BY_COMPLETION_TIMES)))
def test_what_hudi_answers_by_requested_times_is_answered_so_if_asked(name: str) -> None:
    query, answer = ANSWERED[name], ANSWERED[name].answer
    assert answer is not None
    by_request = replace(query, options={**query.options, RANGE_VERSION_KEY: "6"})
    assert differences(pq.read_table(answer), answer_to(by_request)) == []
    if query.kind == "cdc":
        assert differences(pq.read_table(answer), answer_to(query))
    else:
        with pytest.raises(QueryError, match=RANGE_VERSION_KEY):
            answer_to(query)


@pytest.mark.parametrize(
    "name", sorted(name for name, query in QUERIES.items() if "timeline version 1" in (query.hudi_error or ""))
)
def test_ranges_of_completion_times_that_hudi_refuses_are_refused(name: str) -> None:
    with pytest.raises(QueryError, match=RANGE_VERSION_KEY):
        answer_to(QUERIES[name])


EVOLVED = next(query.table for query in QUERIES.values() if query.case == "evolved_mor_120")
"""A name in it is that of another column in older files, so that rows differ by ids and by name."""
VALUES: Mapping[str, str] = {
    "hoodie.payload.delete.field": "name",
    "hoodie.payload.delete.marker": "none has it",
    "hoodie.write.record.merge.custom.implementation.classes": "org.apache.hudi.HoodieSparkRecordMerger",
    "hoodie.datasource.write.record.merger.impls": "org.apache.hudi.HoodieSparkRecordMerger",
    "hudi_bridge.read.as.release": "1.2",
    "hoodie.read.timeline.holes.resolution.policy": "BLOCK",
    BLOB_MODE_KEY: "CONTENT",
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.num.buckets": "4",
    "hoodie.bucket.index.hash.field": "id",
    QUERY_TYPE_KEY: "snapshot",
    VIEW_TYPE_KEY: "realtime",
    RANGE_VERSION_KEY: "8",
}
"""Values of options that are not true or false."""
Entrance = Callable[[Path, Path, Mapping[str, str]], pa.Table]


def through_open(table: Path, scratch: Path, options: Mapping[str, str]) -> pa.Table:  # noqa: ARG001
    return HudiTable.open(table, options=options).query().to_table()


def through_attach(table: Path, scratch: Path, options: Mapping[str, str]) -> pa.Table:  # noqa: ARG001
    with duckdb.connect() as connection:
        attach(connection, table, "t", options=options)
        rows: pa.Table = connection.sql("FROM t").to_arrow_table()
        return rows


def through_attach_all(table: Path, scratch: Path, options: Mapping[str, str]) -> pa.Table:  # noqa: ARG001
    with duckdb.connect() as connection:
        rows = attach_all(connection, table.parent, "lake", options=options).sql(f'FROM lake."{table.name}"')
        assert rows is not None
        actual: pa.Table = rows.to_arrow_table()
        return actual


def through_polars(table: Path, scratch: Path, options: Mapping[str, str]) -> pa.Table:  # noqa: ARG001
    return scan(table, options=options).collect().to_arrow()


def through_command(table: Path, scratch: Path, options: Mapping[str, str]) -> pa.Table:
    return _commanded(["read", str(table)], scratch, [f"{name}={value}" for name, value in options.items()])


def through_sql_command(table: Path, scratch: Path, options: Mapping[str, str]) -> pa.Table:
    named = [f"{table.name}:{name}={value}" for name, value in options.items()]
    return _commanded(["sql", str(table.parent), f'FROM "{table.name}"'], scratch, named)


def _commanded(arguments: list[str], scratch: Path, options: list[str]) -> pa.Table:
    output = scratch / "rows.parquet"
    given = [argument for option in options for argument in ("--option", option)]
    code = run([*arguments, "-o", str(output), *given])
    if code != 0:
        raise QueryError("command", "an error, which is printed", "rows")
    return pq.read_table(output)


def through_service(table: Path, scratch: Path, options: Mapping[str, str]) -> pa.Table:  # noqa: ARG001
    roots = Roots.of([str(table.parent)], [])
    merging = MergingByTable.parse([f"{name}={value}" for name, value in options.items()], {}, roots.find_by_name)
    storage = roots.find_by_name(table.name)
    assert storage is not None
    settings = merging.of(storage)
    return HudiTable.of(storage, settings.options, settings.payloads).query().to_table()


def through_spark(table: Path, scratch: Path, options: Mapping[str, str]) -> pa.Table:  # noqa: ARG001
    return PinnedQuery.of(parse_options({**options, "path": str(table)})).dataset.to_table()


def through_stream(table: Path, scratch: Path, options: Mapping[str, str]) -> pa.Table:  # noqa: ARG001
    first_batch = replace(stream_options(parse_options({**options, "path": str(table)})), begin="000")
    return PinnedQuery.of(first_batch).dataset.to_table()


ENTRANCES: Mapping[str, Entrance] = {
    entrance.__name__.removeprefix("through_"): entrance
    for entrance in (
        through_open,
        through_attach,
        through_attach_all,
        through_polars,
        through_command,
        through_sql_command,
        through_service,
        through_spark,
        through_stream,
    )
}
PER_ENTRANCE = pytest.mark.parametrize("entrance", one_in(4, ENTRANCES.values()), ids=ENTRANCES.keys())


def complaint(capfd: pytest.CaptureFixture[str], error: QueryError) -> str:
    """What an entrance says: the error, or what a command prints."""
    return f"{error} {capfd.readouterr().err}"


@PER_ENTRANCE
@pytest.mark.parametrize("enabled", ["true", "false"])
def test_an_option_that_is_honoured_counts_everywhere(entrance: Entrance, tmp_path: Path, enabled: str) -> None:
    answer = next(
        pq.read_table(query.answer)
        for query in QUERIES.values()
        if query.table == EVOLVED and query.answer and query.options == {COLUMN_IDS_KEY: enabled}
    )
    assert differences(answer, entrance(EVOLVED, tmp_path, {COLUMN_IDS_KEY: enabled})) == []


@PER_ENTRANCE
@pytest.mark.parametrize(("mode", "inline"), [(None, 2), ("DESCRIPTOR", 2), ("CONTENT", 5)])
def test_blobs_of_lance_are_references_everywhere_or_bytes(
    entrance: Entrance, mode: str | None, inline: int, tmp_path: Path
) -> None:
    table = golden_blobs() / "lance_120" / "table"
    rows = entrance(table, tmp_path, {} if mode is None else {BLOB_MODE_KEY: mode})
    # Those of the log have their bytes in any case.
    assert len(pc.struct_field(rows["b"].combine_chunks(), "data").drop_null()) == inline
    assert len(rows) == 5


@PER_ENTRANCE
def test_other_modes_of_blobs_are_refused_by_name(
    entrance: Entrance, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # Engines have errors of their own, which show ours.
    with pytest.raises(Exception, match=r".") as caught:
        entrance(golden_blobs() / "lance_120" / "table", tmp_path, {BLOB_MODE_KEY: "both"})
    assert BLOB_MODE_KEY in f"{caught.value} {capfd.readouterr().err}"


def test_columns_are_found_by_id_unless_an_option_says_otherwise() -> None:
    by_default, by_id, by_name = (
        HudiTable.open(EVOLVED, options=options).snapshot().to_table()
        for options in ({}, {COLUMN_IDS_KEY: "true"}, {COLUMN_IDS_KEY: "false"})
    )
    assert differences(by_id, by_default) == []
    assert differences(by_id, by_name)


@PER_ENTRANCE
def test_options_that_change_no_row_are_taken_everywhere(entrance: Entrance, tmp_path: Path) -> None:
    table = golden_table("a_story_v9_120")
    harmless = dict.fromkeys(names_of(Effect.HARMLESS), "false")
    allowed = {name: READ_OPTIONS[name].allowed for name in names_of(Effect.REFUSED)}
    taken = harmless | {name: value for name, value in allowed.items() if value is not None}
    assert differences(HudiTable.open(table).snapshot().to_table(), entrance(table, tmp_path, taken)) == []


@PER_ENTRANCE
def test_all_options_that_are_honoured_are_taken_everywhere(entrance: Entrance, tmp_path: Path) -> None:
    honoured = {name: VALUES.get(name, "false") for name in names_of(Effect.HONOURED)}
    assert entrance(golden_table("a_story_v9_120"), tmp_path, honoured).num_rows > 0


REFUSED_BY = [
    pytest.param(entrance, name, id=f"{entrance.__name__}-{name}")
    for entrance in ENTRANCES.values()
    for name in names_of(Effect.REFUSED, Effect.OF_QUERY)
    if READ_OPTIONS[name].effect is Effect.REFUSED or entrance not in (through_spark, through_stream)
]
"""Places, with the names that they refuse; Spark's format takes the options of single queries."""


@pytest.mark.parametrize(("entrance", "name"), one_in(7, REFUSED_BY))
def test_options_that_are_refused_are_refused_everywhere(
    entrance: Entrance, name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(QueryError) as caught:
        entrance(golden_table("a_story_v9_120"), tmp_path, {name: "7"})
    assert name in complaint(capfd, caught.value)


@PER_ENTRANCE
@pytest.mark.parametrize(
    ("misspelt", "nearest"),
    [
        ("hoodie.schema.on.read.enabled", "hoodie.schema.on.read.enable"),
        ("hoodie.datasource.view.typ", "hoodie.datasource.view.type"),
        ("hoodie.datasource.read.beginn.instanttime", "hoodie.datasource.read.begin.instanttime"),
        ("hudi_bridge.read.as_release", "hudi_bridge.read.as.release"),
        ("HOODIE.BUCKET_INDEX.NUM.BUCKETS", "hoodie.bucket.index.num.buckets"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(
    entrance: Entrance, misspelt: str, nearest: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(QueryError) as caught:
        entrance(EVOLVED, tmp_path, {misspelt: "true"})
    text = complaint(capfd, caught.value)
    assert misspelt in text
    assert nearest in text


def through_tasks(table: Path, scratch: Path, options: Mapping[str, str]) -> pa.Table:  # noqa: ARG001
    """As Dask, Ray and Daft open a table."""
    arguments = OpenArguments(
        filesystem=None, options=options, payloads=None, log_memory_bytes=None, storage_options=None
    )
    rows = RowsArguments(as_of=None, read_optimized=False, after=None, up_to=None)
    return TableQuery.of("tests", table, arguments, rows, None, meta_columns=True).dataset.to_table()


@pytest.mark.parametrize("given", [[("hoodie.metadata.enable", "false")], "hoodie.metadata.enable=false"], ids=str)
@pytest.mark.parametrize("entrance", [through_open, through_attach, through_attach_all, through_polars, through_tasks])
def test_options_that_are_no_mapping_are_refused(entrance: Entrance, given: Any, tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=r"options: found .*hoodie\.metadata\.enable.*, expected a mapping of names"):
        entrance(EVOLVED, tmp_path, given)
    with pytest.raises(QueryError, match=r"storage_options: found a (list|str), expected a mapping of names"):
        HudiTable.open(EVOLVED, storage_options=given)


@pytest.mark.parametrize("function", [attach, attach_all, scan, read], ids=lambda function: function.__name__)
def test_whatever_opens_tables_takes_the_arguments_of_open(function: Callable[..., Any]) -> None:
    expected = dict(inspect.signature(HudiTable.open).parameters)
    del expected["path"]
    # Keys stay in the process that reads as Arrow.
    del expected["decryption_properties"]
    given = inspect.signature(function).parameters
    described = {name: (given[name].annotation, given[name].default) for name in expected if name in given}
    assert described == {name: (parameter.annotation, parameter.default) for name, parameter in expected.items()}


@pytest.mark.parametrize("argument", ["options", "payloads", "log_memory_bytes", "storage_options"])
@pytest.mark.parametrize("entrance", [lambda table, **given: attach(duckdb.connect(), table, **given), scan])
def test_arguments_beside_an_open_table_are_refused(entrance: Callable[..., Any], argument: str) -> None:
    table = HudiTable.open(EVOLVED)
    with pytest.raises(QueryError, match=argument):
        entrance(table, **{argument: {} if argument != "log_memory_bytes" else 1})


@pytest.mark.parametrize("view", ["read_optimized", "realtime"])
def test_the_older_words_mean_what_hudi_takes_them_for(view: str) -> None:
    table = golden_table("a_story_v9_120")
    opened = HudiTable.open(table, options={VIEW_TYPE_KEY: view})
    assert differences(HudiTable.open(table).snapshot().to_table(), opened.query().to_table()) == []
    with pytest.raises(QueryError, match=VIEW_TYPE_KEY):
        HudiTable.open(table, options={VIEW_TYPE_KEY: "snapshot"})


def test_streams_do_not_follow_the_options_of_ranges() -> None:
    given = {RANGE_VERSION_KEY: "6", END_SCHEMA_KEY: "true", "path": "t"}
    assert not {RANGE_VERSION_KEY, END_SCHEMA_KEY} & dict(stream_options(parse_options(given)).table_options).keys()


def test_a_table_without_completion_times_has_no_ranges_of_them() -> None:
    table = HudiTable.open(golden_table("a_story_v6_0150"), options={RANGE_VERSION_KEY: "8"})
    assert table.snapshot().to_table().num_rows > 0
    with pytest.raises(QueryError, match=RANGE_VERSION_KEY):
        table.incremental("earliest")


def test_ranges_of_requested_times_join() -> None:
    table = HudiTable.open(golden_table("a_story_v9_120"), options={RANGE_VERSION_KEY: "6"})
    requested = [commit.requested_time for commit in table.timeline.commits()]
    ranges = table.instant_range("earliest")
    assert list(ranges.ordering_times) == requested
    assert ranges.next_after == requested[-1]
    rows = [table.incremental(begin, end) for begin, end in zip(["earliest", *requested], requested, strict=False)]
    assert [row.next_after for row in rows] == requested
