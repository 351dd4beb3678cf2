"""Writes read_options.tar.xz: what Hudi answers to options of its reader that change rows or columns.

    .venv-spark35/bin/python -m tests.golden.read_options work-folder RELEASE [table ...]
    tar -C work-folder --sort=name -cf - . | xz -9e > tests/golden/read_options.tar.xz

Needs the PySpark 3.5 of ``make spark``. The tables whose names begin with ``evolved`` are written here: columns are
renamed and added by SQL, so that the table has column ids. The others are golden tables of the other archives, of which
``tests.support.golden_cases`` knows the folder, and which are asked again.

<table>/table         the table, if it was written here
<table>/answers.json  the queries: kind, options of Hudi's data source, and the name of the answer or Hudi's error
<table>/answers       the rows that Hudi returned
"""

import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.golden.generate.answers import save_rows, short_error
from tests.golden.generate.options import SCHEMA_ON_READ
from tests.golden.generate.questions import AS_OF, BEGIN, END, FORMAT, QUERY_TYPE
from tests.golden.generate.releases import RELEASES
from tests.golden.generate.session import spark_session
from tests.golden.generate.timeline import WRITES, Instant, instants
from tests.support.golden_cases import golden_table

VIEW_TYPE = "hoodie.datasource.view.type"
END_SCHEMA = "hoodie.datasource.read.schema.use.end.instanttime"
RANGE_VERSION = "hoodie.datasource.read.incr.table.version"
EVOLVED = ("evolved_mor", "evolved_cow")
ADDED = "added_cow"
BY_NAME: Mapping[str, tuple[str, ...]] = {
    "0.15.0": (
        "g_logs_drop_readd_0150", "g_logs_nested_0150", "g_logs_rename_0150", "g_logs_type_int_0150",
        "g_logs_type_string_0150", "g_sor_add_0150", "g_sor_collections_0150", "g_sor_drop_0150",
        "g_sor_drop_readd_0150", "g_sor_mixed_0150", "g_sor_nested_0150", "g_sor_rename_0150",
        "g_sor_rename_readd_0150", "g_sor_reorder_0150", "g_sor_type_date_0150", "g_sor_type_float_0150",
        "g_sor_type_int_0150", "g_sor_type_long_0150", "g_sor_type_decimal_0150",
    ),
    "1.2.0": (
        "g_logs_drop_120", "g_logs_rename_readd_120", "g_logs_type_decimal_120", "g_logs_type_float_120",
        "g_sor_add_120", "g_sor_collections_120", "g_sor_drop_120", "g_sor_drop_readd_120", "g_sor_mixed_120",
        "g_sor_nested_120", "g_sor_rename_120", "g_sor_rename_readd_120", "g_sor_reorder_120", "g_sor_type_date_120",
        "g_sor_type_float_120", "g_sor_type_int_120", "g_sor_type_int_parquet_120", "g_sor_type_long_120",
        "g_sor_type_decimal_120",
    ),
}  # fmt: skip
RANGES: Mapping[str, tuple[str, ...]] = {
    "0.15.0": ("a_story_v6_0150", "g_add_column_0150"),
    "1.0.2": ("a_story_v8_102_intts",),
    "1.2.0": ("a_story_v9_120", "a_story_v6_by120", "g_add_column_120", "k_nbcc_120", "d_cleaned_120"),
}
CHANGES: Mapping[str, tuple[str, ...]] = {"1.2.0": ("i_cdc_120",)}


def _write_evolved(spark: SparkSession, name: str, path: Path) -> None:
    """Four commits; before the third, ``b`` is renamed and ``c`` added, before the last, there is a ``b`` again."""
    kind = name.rpartition("_")[2]
    settings = {
        SCHEMA_ON_READ: "true",
        "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
        "hoodie.spark.sql.insert.into.operation": "upsert",
        "hoodie.index.bloom.num_entries": "50",
        "hoodie.bloom.index.filter.dynamic.max.entries": "50",
        "hoodie.compact.inline": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.metadata.enable": "false",
    }
    for setting, value in settings.items():
        spark.conf.set(setting, value)
    columns = "id string, ts int, a int, b string, part string"
    create = (
        f"create table {name} ({columns}) using hudi partitioned by (part) location '{path}' "
        f"tblproperties (type='{kind}', primaryKey='id', preCombineField='ts')"
    )
    steps = (
        create,
        _insert(name, range(8), "1, cast(id as int), concat('b', id)"),
        _insert(name, range(0, 8, 3), "2, cast(-id as int), 'second'"),
        f"alter table {name} rename column b to b2",
        f"alter table {name} add columns (c string)",
        _insert(name, range(0, 10, 4), "3, cast(id * 10 as int), 'third', 'c3'"),
        f"alter table {name} add columns (b string)",
        _insert(name, range(1, 12, 5), "4, cast(id * 100 as int), 'fourth', 'c4', 'another b'"),
    )
    for step in steps:
        spark.sql(step)
        spark.sql(f"refresh table {name}")
    for setting in settings:
        spark.conf.unset(setting)


def _write_added(spark: SparkSession, name: str, path: Path) -> None:
    """Three commits through the data source; from the second one on, there is a column more."""
    options = {
        "hoodie.table.name": name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.index.bloom.num_entries": "50",
        "hoodie.bloom.index.filter.dynamic.max.entries": "50",
        "hoodie.embed.timeline.server": "false",
        "hoodie.metadata.enable": "false",
        "hoodie.upsert.shuffle.parallelism": "1",
        "hoodie.insert.shuffle.parallelism": "1",
    }
    for ts, keys in enumerate((range(8), range(0, 8, 3), range(5, 10)), start=1):
        columns = ("concat('k', id) as id", f"{ts} as ts", "'a' as part", f"id * {ts} as a")
        more = () if ts == 1 else (f"nullif(concat('c', id, '-{ts}'), '') as c",)
        frame = spark.range(keys.start, keys.stop, keys.step, 1).selectExpr(*columns, *more)
        frame.write.format("hudi").options(**options).mode("append").save(str(path))


def _insert(name: str, keys: range, values: str) -> str:
    source = f"range({keys.start}, {keys.stop}, {keys.step}, 1)"
    return f"insert into {name} select concat('k', id), {values}, if(id % 2 = 0, 'p', 'q') from {source}"


def _done(table: Path) -> list[Instant]:
    return [instant for instant in instants(table) if instant.state == "completed" and instant.action in WRITES]


def _by_name(table: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Every kind of query, by name."""
    off, done = {SCHEMA_ON_READ: "false"}, _done(table)
    yield "snapshot", off
    yield "read_optimized", off | {QUERY_TYPE: "read_optimized"}
    yield "time_travel", off | {AS_OF: done[len(done) // 2].requested}
    yield "incremental", off | {QUERY_TYPE: "incremental", BEGIN: _time(done[0]), END: _time(done[-2])}
    yield "incremental", off | {QUERY_TYPE: "incremental", BEGIN: _time(done[-2])}


def _of_ranges(table: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Ranges by requested and by completion times, with the columns of their end."""
    done = _done(table)
    incremental = {QUERY_TYPE: "incremental"}
    middle = done[len(done) // 2]
    for ends in (
        {BEGIN: "000"},
        {BEGIN: "000", END: middle.requested},
        {BEGIN: done[0].requested, END: _time(middle)},
        {BEGIN: _time(done[0]), END: middle.requested},
        {BEGIN: middle.requested},
        {BEGIN: _time(middle)},
    ):
        for version in ("6", "8", "9"):
            yield "incremental", incremental | ends | {RANGE_VERSION: version}
    for index in range(1, len(done)):
        yield "incremental", incremental | {BEGIN: "000", END: _time(done[index]), END_SCHEMA: "true"}
    yield "incremental", incremental | {BEGIN: _time(done[0]), END: _time(done[0]), END_SCHEMA: "true"}
    yield "incremental", incremental | {BEGIN: _time(done[-1]), END_SCHEMA: "true"}


def _of_changes(table: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Ranges of changes by requested and by completion times."""
    done = _done(table)
    changes = {QUERY_TYPE: "incremental", FORMAT: "cdc"}
    for ends in ({BEGIN: done[0].requested}, {BEGIN: "000", END: done[1].requested}):
        for version in ("6", "8"):
            yield "cdc", changes | ends | {RANGE_VERSION: version}


def _of_evolved(table: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """All of it together; by ids at last, as what 0.15 reads then stays in the settings of the session."""
    done = _done(table)
    yield from _of_ranges(table)
    for kind in ("snapshot", "read_optimized", "realtime"):
        yield kind, {VIEW_TYPE: kind}
    yield "incremental", {VIEW_TYPE: "incremental", BEGIN: _time(done[1])}
    yield "incremental", {VIEW_TYPE: "snapshot", QUERY_TYPE: "incremental", BEGIN: _time(done[1])}
    yield "snapshot", {VIEW_TYPE: "incremental", QUERY_TYPE: "snapshot"}
    for enabled in ("false", "true"):
        given = {SCHEMA_ON_READ: enabled}
        yield "snapshot", given
        yield "read_optimized", given | {QUERY_TYPE: "read_optimized"}
        for instant in done:
            yield "time_travel", given | {AS_OF: instant.requested}
        for instant in done:
            for end_schema in ("true", "false"):
                options = given | {QUERY_TYPE: "incremental", BEGIN: "000", END: _time(instant)}
                yield "incremental", options | {END_SCHEMA: end_schema}


def _time(instant: Instant) -> str:
    return instant.completed or instant.requested


def _answer(spark: SparkSession, table: Path, folder: Path, index: int, kind: str, options: dict[str, str]) -> Any:
    spark.catalog.clearCache()
    answer: dict[str, Any] = {"kind": kind, "options": options}
    name = f"{index}_{kind}.parquet"
    try:
        save_rows(spark, spark.read.format("hudi").options(**options).load(str(table)), folder / "answers" / name)
        answer["rows"] = name
    except Exception as error:  # noqa: BLE001 - whatever Hudi and Spark raise
        answer["error"] = short_error(error)
    return answer


def ask(spark: SparkSession, folder: Path, release: str, name: str) -> None:
    """Writes a table, if it is one of those that are written here, and asks Hudi for its rows."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "answers").mkdir(parents=True)
    if name.startswith(ADDED):
        table = folder / "table"
        _write_added(spark, name.rpartition("_")[0], table)
        asked = list(_of_ranges(table))
    elif name.startswith(EVOLVED):
        table = folder / "table"
        _write_evolved(spark, name.rpartition("_")[0], table)
        asked = list(_of_evolved(table))
    else:
        table = golden_table(name)
        asked = list(_by_name(table)) if name in BY_NAME.get(release, ()) else []
        asked += list(_of_ranges(table)) if name in RANGES[release] else []
        asked += list(_of_changes(table)) if name in CHANGES.get(release, ()) else []
    answers = [_answer(spark, table, folder, index, *question) for index, question in enumerate(asked)]
    (folder / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")
    for path in folder.rglob("*.crc"):
        path.unlink()
    print(name, len(answers), [answer["error"][:200] for answer in answers if "error" in answer], flush=True)


def main() -> None:
    """Asks about the tables of a release, or those that are named."""
    folder, release, *names = sys.argv[1:]
    suffix = release.replace(".", "")
    changes = CHANGES.get(release, ())
    tables = [
        *BY_NAME.get(release, ()),
        *RANGES[release],
        *changes,
        *(f"{name}_{suffix}" for name in (ADDED, *EVOLVED)),
    ]
    with spark_session(release, RELEASES[release].bundle.fetched()) as spark:
        for name in names or dict.fromkeys(tables):
            try:
                ask(spark, Path(folder).resolve() / name, release, name)
            except Exception as error:  # noqa: BLE001 - the other tables go on
                print(f"{name}: FAILED: {short_error(error)}", flush=True)


if __name__ == "__main__":
    main()
