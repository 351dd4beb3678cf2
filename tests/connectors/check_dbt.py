"""The plugin of dbt-duckdb; run by ``make dbt`` in the environment that has dbt."""

import multiprocessing
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import yaml
from dbt.adapters.duckdb.credentials import DuckDBCredentials, PluginConfig
from dbt.adapters.duckdb.environments.local import LocalEnvironment
from dbt.adapters.duckdb.plugins import BasePlugin
from dbt.adapters.duckdb.utils import SourceConfig
from dbt.cli.main import dbtRunner
from dbt_common.exceptions import DbtRuntimeError
from dbt_common.invocation import reset_invocation_id

from hudi_bridge import HudiTable
from hudi_bridge.catalogs.tables import CatalogTable
from hudi_bridge.config import QueryType
from hudi_bridge.schema.meta_columns import META_COLUMNS
from tests.support.compare import differences
from tests.support.golden_cases import golden_table, golden_trips
from tests.support.snippets import ROOT, blocks_of
from tests.support.table_writer import Row, TableWriter, at

TIMEOUT_SECONDS = 300
MODULE = "hudi_bridge.connectors.dbt"
EXAMPLE = ROOT / "examples" / "dbt"
GOLDEN_TABLES = ("a_story_v6_0150", "a_story_v9_120", "b_default_payload_0150", "h_stats_of_nan_120")
MIRROR = """
{{ config(
    materialized='incremental',
    incremental_strategy='merge',
    unique_key='id',
    merge_clauses={
        'when_matched': [
            {'action': 'delete', 'condition': "DBT_INTERNAL_SOURCE.op = 'd'"},
            {'action': 'update', 'mode': 'by_name'},
        ],
        'when_not_matched': [
            {'action': 'insert', 'mode': 'by_name', 'condition': "DBT_INTERNAL_SOURCE.op <> 'd'"},
        ],
    },
    post_hook="select error('stopped') where {{ var('stop', false) }}",
) }}
select coalesce(after.id, before.id) as id, after.value as value, op, _hudi_next_after
from {{ source('lake', 'trips_changes') }}
where _hudi_after = '{{ hudi_after() }}'
"""
APPENDED = """
{{ config(materialized='incremental') }}
{% set after = hudi_after() %}
select id, value, _hoodie_commit_time, _hudi_next_after
from {{ source('lake', 'trips_written') }}
where _hudi_after = '{{ after }}'
"""


def row(key: str, value: str, ts: int = 1) -> Row:
    return {"id": key, "ts": ts, "value": value}


def add(table: TableWriter, number: int, *rows: Row, completed: str | None = None) -> None:
    """A delta commit, which may complete later than others."""
    log = table.log_file(at(number), [table.data_block(at(number), rows)], base_instant=at(1), number=number)
    table.commit(at(number), wrote=[log], completed=completed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A dbt project over a folder with the table ``trips``."""

    folder: Path
    trips: TableWriter

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse.duckdb"

    @classmethod
    def create(cls, folder: Path, models: Mapping[str, str], *, version: int = 9, threads: int = 1) -> "Project":
        trips = TableWriter(folder=folder / "lake" / "trips", version=version).create()
        trips.commit(at(1), wrote=[trips.base_file(at(1), [row("a", "first"), row("b", "first")])])
        shutil.copytree(EXAMPLE / "macros", folder / "macros")
        shutil.copy(EXAMPLE / "dbt_project.yml", folder)
        (folder / "models").mkdir()
        for name, text in models.items():
            (folder / "models" / f"{name}.sql").write_text(text)
        tables = [
            {"name": "trips"},
            {"name": "trips_changes", "config": {"meta": {"table": "trips", "query": "changes"}}},
            {"name": "trips_written", "config": {"meta": {"table": "trips", "query": "incremental"}}},
        ]
        source = {"name": "lake", "config": {"meta": {"plugin": "hudi"}}, "tables": tables}
        (folder / "models" / "sources.yml").write_text(yaml.safe_dump({"sources": [source]}))
        project = cls(folder=folder, trips=trips)
        plugin = {"module": MODULE, "alias": "hudi", "config": {"root": str(folder / "lake")}}
        output = {"type": "duckdb", "path": str(project.warehouse), "threads": threads, "plugins": [plugin]}
        profile = {"hudi_lake": {"target": "dev", "outputs": {"dev": output}}}
        (folder / "profiles.yml").write_text(yaml.safe_dump(profile))
        return project

    def run(self, *arguments: str) -> dict[str, str | None]:
        """Run dbt; returns the message of each model that has failed, or None, by name."""
        return run_dbt(self.folder, *arguments)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.warehouse)) as connection:
            return connection.execute(query).fetchall()

    def expected(self) -> list[tuple[Any, ...]]:
        """The rows of the table as they are now."""
        rows = self.trips.open().snapshot().to_table(["id", "value"]).to_pylist()
        return sorted((item["id"], item["value"]) for item in rows)

    def mirrored(self) -> list[tuple[Any, ...]]:
        return self.rows("SELECT id, value FROM mirror ORDER BY id")


def run_dbt(folder: Path, *arguments: str, **environment: str) -> dict[str, str | None]:
    """Run dbt in a process of its own, to which nothing but the warehouse comes from the runs before."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["dbt.cli.main", "dbt.adapters.duckdb", MODULE])
    with ProcessPoolExecutor(1, forks) as processes:
        return processes.submit(_run_dbt, folder, arguments, environment).result(TIMEOUT_SECONDS)


def _run_dbt(folder: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, str | None]:
    os.environ |= {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false", **environment}
    folders = ("--project-dir", str(folder), "--profiles-dir", str(folder))
    done = dbtRunner().invoke(["--quiet", "run", *folders, *arguments])
    if done.exception is not None:
        raise AssertionError(str(done.exception))
    results: Any = done.result
    return {result.node.name: None if result.status == "success" else result.message for result in results}


@pytest.mark.parametrize("version", [6, 9])
def test_a_mirror_has_the_rows_of_the_table_after_each_run(tmp_path: Path, version: int) -> None:
    project = Project.create(tmp_path, {"mirror": MIRROR}, version=version)
    trips = project.trips
    assert project.run() == {"mirror": None}
    assert project.mirrored() == project.expected() == [("a", "first"), ("b", "first")]
    # A run without news changes nothing.
    assert project.run() == {"mirror": None}
    assert project.rows("SELECT DISTINCT op FROM mirror") == [("i",)]
    add(trips, 2, row("b", "second", 2), row("c", "second", 2))
    deleted = trips.log_file(at(3), [trips.delete_block(at(3), [("a", 3)])], base_instant=at(1), number=3)
    trips.commit(at(3), wrote=[deleted])
    assert project.run() == {"mirror": None}
    assert project.mirrored() == project.expected() == [("b", "second"), ("c", "second")]
    assert project.rows("SELECT op FROM mirror ORDER BY id") == [("u",), ("i",)]
    assert project.run("--full-refresh") == {"mirror": None}
    assert project.mirrored() == project.expected()
    assert project.rows("SELECT DISTINCT op FROM mirror") == [("i",)]


def test_a_commit_that_completes_late_is_in_the_run_after(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"mirror": MIRROR, "appended": APPENDED})
    add(project.trips, 3, row("c", "third"))
    assert set(project.run().values()) == {None}
    # It was requested before the newest commit that the models have seen.
    add(project.trips, 2, row("d", "second"), completed=at(4))
    assert project.rows("SELECT max(_hoodie_commit_time) FROM appended") == [(at(3),)]
    assert set(project.run().values()) == {None}
    expected = [("a", "first"), ("b", "first"), ("c", "third"), ("d", "second")]
    assert project.mirrored() == expected
    assert project.rows("SELECT id, value FROM appended ORDER BY id") == expected


def test_a_model_that_fails_gets_the_same_range_again(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"mirror": MIRROR})
    project.run()
    add(project.trips, 2, row("c", "second"))
    # The rows are in the table of the model by then, in a transaction.
    assert "stopped" in str(project.run("--vars", "stop: true")["mirror"])
    assert project.mirrored() == [("a", "first"), ("b", "first")]
    assert project.run() == {"mirror": None}
    assert project.mirrored() == project.expected()
    assert len(project.mirrored()) == 3


def test_a_first_run_that_fails_begins_with_the_table_again(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"mirror": MIRROR})
    assert "stopped" in str(project.run("--vars", "stop: true")["mirror"])
    add(project.trips, 2, row("c", "second"))
    assert project.run() == {"mirror": None}
    assert project.mirrored() == project.expected()


def test_models_in_several_threads_share_sources(tmp_path: Path) -> None:
    counts = {
        f"count_{number}": "{{ config(materialized='table') }}\n"
        f"select {number} as number, count(*) as rows from {{{{ source('lake', 'trips') }}}} where id <> 'x'"
        for number in range(12)
    }
    project = Project.create(tmp_path, {**counts, "mirror": MIRROR, "appended": APPENDED}, threads=2)
    for _ in range(2):
        assert set(project.run().values()) == {None}
        for name in counts:
            assert project.rows(f"SELECT rows FROM {name}") == [(2,)]
    assert project.mirrored() == project.expected()


def plugin_of(settings: Mapping[str, Any] | None = None) -> BasePlugin:
    return BasePlugin.create(MODULE, config=dict(settings or {}), alias="hudi")


def source_of(**meta: Any) -> SourceConfig:
    return SourceConfig(name="trips", identifier="trips", schema="lake", database=None, meta=meta, tags=[])


@contextmanager
def loaded(plugin: BasePlugin | None = None, **meta: Any) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection in which a source is called ``trips``."""
    with duckdb.connect() as connection:
        rows = (plugin or plugin_of()).load(source_of(**meta))
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("trips", rows)
        yield connection


def values(plugin: BasePlugin | None = None, **meta: Any) -> list[tuple[Any, ...]]:
    with loaded(plugin, **meta) as connection:
        return connection.execute("SELECT id, value FROM trips ORDER BY id").fetchall()


@pytest.fixture
def trips(tmp_path: Path) -> TableWriter:
    table = TableWriter(folder=tmp_path / "lake" / "trips").create()
    table.commit(at(1), wrote=[table.base_file(at(1), [row("a", "first"), row("b", "first")])])
    return table


def test_threads_load_sources_at_the_same_time(trips: TableWriter, tmp_path: Path) -> None:
    plugin = PluginConfig(module=MODULE, alias="hudi", config={"root": str(trips.folder.parent)})
    warehouse = DuckDBCredentials(path=str(tmp_path / "w.duckdb"), database="w", plugins=[plugin])
    environment = LocalEnvironment(warehouse)

    def count(number: int) -> list[tuple[Any, ...]]:
        source = SourceConfig(f"trips{number % 3}", f"trips{number % 3}", "lake", "w", {"table": "trips"}, [])
        environment.load_source("hudi", source)
        handle = environment.handle()
        counted = handle.cursor().execute(f"SELECT count(*) FROM w.lake.trips{number % 3}").fetchall()
        handle.close()
        return list(counted)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(count, range(96))) == [[(2,)]] * 96
    environment.close()


@pytest.mark.parametrize("query", ["changes", "incremental"])
@pytest.mark.parametrize(
    "where",
    [
        "",
        "WHERE ts = 1",
        "WHERE _hudi_after IN ('earliest', '20260101000000100')",
        "WHERE _hudi_after >= 'earliest'",
        "WHERE _hudi_after = 'earliest' OR ts = 1",
        "WHERE _hudi_after = op",
        "WHERE _hudi_after = (SELECT max(begin) FROM state)",
        "JOIN state ON _hudi_after = begin",
    ],
)
def test_a_range_without_one_begin_is_refused(trips: TableWriter, query: str, where: str) -> None:
    where = where.replace("ts = 1", "op = 'i'") if query == "changes" else where.replace("= op", "= value")
    with loaded(path=str(trips.folder), query=query) as connection:
        connection.execute("CREATE TABLE state AS SELECT unnest(['earliest', '20260101000000100']) AS begin")
        expected = r"condition on _hudi_after: found .*, expected WHERE _hudi_after = '...'"
        for columns in ("*", "count(*)", "trips._hudi_next_after"):
            with pytest.raises(duckdb.Error, match=expected):
                connection.execute(f"SELECT {columns} FROM trips {where}").fetchall()


def test_a_range_has_what_was_written_and_where_it_ends(trips: TableWriter) -> None:
    add(trips, 2, row("b", "second", 2), row("c", "second", 2))
    ends = trips.open().snapshot().next_after
    written = "SELECT id, _hudi_after, _hudi_next_after FROM trips WHERE _hudi_after = {} AND id <> 'b'"
    with loaded(path=str(trips.folder), query="incremental") as connection:
        begin = trips.open().snapshot(at(1)).next_after
        assert connection.execute(written.format(f"'{begin}'")).fetchall() == [("c", begin, ends)]
        first = connection.execute(written.format("'earliest'")).fetchall()
        assert sorted(first) == [("a", "earliest", ends), ("c", "earliest", ends)]
        assert connection.execute(written.format(f"'{ends}'")).fetchall() == []
        count = f"SELECT count(*), min(_hudi_next_after) FROM trips WHERE _hudi_after = '{begin}'"
        assert connection.execute(count).fetchall() == [(2, ends)]
    changed = f"SELECT op, before.value, after.value FROM trips WHERE _hudi_after = '{begin}' ORDER BY after.id"
    with loaded(path=str(trips.folder), query="changes") as connection:
        assert connection.execute(changed).fetchall() == [("u", "first", "second"), ("i", None, "second")]
        with pytest.raises(duckdb.Error, match="after: found 'None'"):
            connection.execute("SELECT op FROM trips WHERE _hudi_after = 'None'").fetchall()


def test_a_range_whose_files_are_gone_is_refused() -> None:
    folder = golden_table("d_cleaned_120")
    first = HudiTable.open(folder).timeline.commits()[0].completion_time
    with loaded(path=str(folder), query="changes") as connection:
        with pytest.raises(duckdb.Error, match="have been cleaned; the earliest instant still readable is"):
            connection.execute(f"SELECT op FROM trips WHERE _hudi_after = '{first}'").fetchall()
        rows = "SELECT count(*) FROM trips WHERE _hudi_after = 'earliest' AND op = 'i'"
        assert connection.execute(rows).fetchall() == [(HudiTable.open(folder).snapshot().count_rows(),)]


@pytest.mark.parametrize("case", GOLDEN_TABLES)
def test_golden_tables_have_the_rows_of_hudi(case: str) -> None:
    folder = golden_table(case)
    with loaded(path=str(folder)) as connection:
        actual: pa.Table = connection.sql("FROM trips").to_arrow_table()
    assert differences(HudiTable.open(folder).snapshot().to_table(), actual) == []


def test_sources_are_read_as_of_an_instant_and_without_logs(trips: TableWriter) -> None:
    add(trips, 2, row("b", "second", 2))
    path = str(trips.folder)
    first, second = [("a", "first"), ("b", "first")], [("a", "first"), ("b", "second")]
    assert values(path=path) == values(path=path, query="snapshot") == second
    # YAML takes an instant for a number.
    assert values(path=path, as_of=int(at(1))) == values(path=path, as_of=at(1), query="snapshot") == first
    assert values(path=path, query="read_optimized") == first
    assert values(path=path, options={"hoodie.datasource.query.type": "read_optimized"}) == first
    with pytest.raises(DbtRuntimeError, match="as_of: found"):
        values(path=path, as_of="no instant")
    with loaded(path=path, meta_columns=False) as connection:
        assert connection.sql("FROM trips").columns == ["id", "ts", "value"]


def test_sources_are_found_by_path_folder_and_catalog(trips: TableWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(trips.folder.parent)
    rows = [("a", "first"), ("b", "first")]
    shutil.copytree(trips.folder, trips.folder.parent / "sales" / "orders")
    assert values(root=root) == values(root=root, table="sales.orders") == rows
    assert values(plugin_of({"root": root})) == values(plugin_of({"root": "nowhere"}), root=root) == rows
    assert values(root="nowhere", path=str(trips.folder)) == rows
    add(trips, 2, row("b", "second", 2))
    asked: list[str] = []

    def find(uri: str) -> CatalogTable:
        asked.append(uri)
        return CatalogTable(location=str(trips.folder), query_type=QueryType.READ_OPTIMIZED)

    monkeypatch.setattr("hudi_bridge.table.find_in_catalog", find)
    assert values(catalog="hive://metastore") == rows
    assert values(plugin_of({"catalog": "glue://"}), table="sales.orders_ro") == rows
    assert asked == ["hive://metastore/lake.trips", "glue:///sales.orders_ro"]


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"as_off": at(1)}, "'as_off', expected as_of, perhaps; one of path, root"),
        ({"owner": "data"}, "'owner', expected one of path, root.* name it in other_meta"),
        ({"query": "snapshots"}, "query: found 'snapshots', expected snapshot, read_optimized, incremental, changes"),
        ({"query": "changes", "as_of": at(1)}, "as_of: found it beside query: changes"),
        ({"query": "changes", "materialization": "table"}, "materialization: found 'table', expected view"),
        ({"meta_columns": "no"}, "meta_columns: found 'no', expected true or false"),
        ({"options": "all"}, "options: found 'all', expected a mapping"),
        ({"options": {"hoodie.nothing": 1}}, "hoodie.nothing"),
        ({"path": None}, "source: found no place of the table, expected one of path, root and catalog"),
        ({"path": None, "root": "a", "catalog": "b"}, "source: found root and catalog, expected one of"),
        ({"path": "nowhere"}, "nowhere"),
        ({"path": None, "root": "LAKE", "table": "other"}, "lake/other: .*there is no table of that name"),
        ({"path": None, "catalog": "nothing"}, "catalog"),
    ],
)
def test_settings_that_are_wrong_are_refused_by_name(trips: TableWriter, meta: dict[str, Any], message: str) -> None:
    given = {"path": str(trips.folder), **meta}
    if given.get("root") == "LAKE":
        given["root"] = str(trips.folder.parent)
    with pytest.raises(DbtRuntimeError, match=f"(?s)source lake.trips: .*{message}"):
        values(**{name: value for name, value in given.items() if value is not None})


def test_settings_of_the_plugin_are_checked_and_hold_for_all_sources(trips: TableWriter) -> None:
    with pytest.raises(DbtRuntimeError, match="plugin hudi: option: found 'rot', expected root, perhaps"):
        plugin_of({"rot": "lake"})
    credentials = DuckDBCredentials(settings={"memory_limit": "1GB"})
    add(trips, 2, row("b", "second", 2))
    settings = {
        "memory_limit": "1GB",
        "root": str(trips.folder.parent),
        "other_meta": ["owner"],
        "meta_columns": False,
        "options": {"hoodie.datasource.query.type": "read_optimized", "hoodie.metadata.enable": False},
    }
    plugin = BasePlugin.create(MODULE, config=settings, alias="hudi", credentials=credentials)
    assert values(plugin, owner="data") == [("a", "first"), ("b", "first")]
    own = {"options": {"hoodie.datasource.query.type": "snapshot"}, "meta_columns": True}
    assert values(plugin, **own) == [("a", "first"), ("b", "second")]


def test_a_table_without_a_commit_or_with_a_column_of_the_name_is_refused(tmp_path: Path) -> None:
    empty = TableWriter(folder=tmp_path / "empty").create()
    with pytest.raises(DbtRuntimeError, match="no columns, since nothing has been written yet"):
        values(path=str(empty.folder))
    fields = (("id", "string"), ("ts", "long"), ("_hudi_after", "string"))
    taken = TableWriter(folder=tmp_path / "taken", fields=fields).create()
    taken.commit(at(1), wrote=[taken.base_file(at(1), [{"id": "a", "ts": 1, "_hudi_after": "x"}])])
    with pytest.raises(DbtRuntimeError, match="a column named _hudi_after"):
        values(path=str(taken.folder), query="incremental")


def test_all_models_of_a_run_see_one_instant(trips: TableWriter) -> None:
    plugin, path = plugin_of(), str(trips.folder)
    assert values(plugin, path=path) == [("a", "first"), ("b", "first")]
    add(trips, 2, row("b", "second", 2))
    assert values(plugin, path=path) == [("a", "first"), ("b", "first")]
    # Sources of one table agree.
    with loaded(plugin, path=path, query="incremental") as connection:
        query = "SELECT DISTINCT _hudi_next_after FROM trips WHERE _hudi_after = 'earliest'"
        assert connection.execute(query).fetchall() == [(trips.open().snapshot(at(1)).next_after,)]
    reset_invocation_id()
    assert values(plugin, path=path) == [("a", "first"), ("b", "second")]


def test_the_page_shows_the_files_of_the_example() -> None:
    (shown,) = blocks_of("tests/connectors/check_dbt.py").values()
    for block in shown:
        assert block.text == (EXAMPLE / block.options["file"]).read_text(), block.place
    files = {path.relative_to(EXAMPLE).as_posix() for path in EXAMPLE.rglob("*.*")}
    assert files - {block.options["file"] for block in shown} == {"dbt_project.yml"}


def test_views_of_sources_may_be_in_memory(tmp_path: Path) -> None:
    counted = "{{ config(materialized='table') }} select count(*) as rows from {{ source('lake', 'trips') }}"
    project = Project.create(tmp_path, {"counted": counted})
    profile = yaml.safe_load((tmp_path / "profiles.yml").read_text())
    profile["hudi_lake"]["outputs"]["dev"]["attach"] = [{"path": ":memory:", "alias": "hudi"}]
    (tmp_path / "profiles.yml").write_text(yaml.safe_dump(profile))
    sources = yaml.safe_load((tmp_path / "models" / "sources.yml").read_text())
    sources["sources"][0] |= {"database": "hudi", "schema": "main"}
    (tmp_path / "models" / "sources.yml").write_text(yaml.safe_dump(sources))
    assert project.run() == {"counted": None}
    assert project.rows("SELECT rows FROM counted") == [(2,)]
    assert project.rows("SELECT view_name FROM duckdb_views() WHERE NOT internal") == []


@pytest.mark.parametrize("case", ["i_cdc_120", "i_cdc_cow_120", "q_cdc_key_0150"])
def test_the_last_change_of_a_key_leads_to_the_rows_of_the_table(case: str) -> None:
    """With change data capture, each change of a key is told; the example takes its last one."""
    folder = golden_table(case)
    table = HudiTable.open(folder)
    last = (EXAMPLE / "models" / "trips_mirror.sql").read_text().splitlines()[-1].replace("city", "part")

    def rows_as_of(instant: str | None) -> dict[tuple[str, str], dict[str, Any]]:
        rows = table.snapshot(instant).to_table(meta_columns=False).to_pylist()
        return {(item["id"], item["part"]): item for item in rows}

    with loaded(path=str(folder), query="changes") as connection:
        for commit in table.timeline.commits():
            begin = commit.completion_time or commit.requested_time
            query = (
                "SELECT op, ts_ms, coalesce(after.id, before.id) AS id, coalesce(after.part, before.part) AS part, "
                f"after FROM trips WHERE _hudi_after = '{begin}' {last}"
            )
            rows = rows_as_of(commit.requested_time)
            for op, _, key, part, after in connection.execute(query).fetchall():
                if op == "d":
                    rows.pop((key, part), None)
                else:
                    rows[key, part] = {name: after[name] for name in table.schema.names if name not in META_COLUMNS}
            assert rows == rows_as_of(None), begin


def test_the_example_works(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "project")
    shutil.copytree(golden_trips() / "trips", tmp_path / "lake" / "trips")
    environment = {"LAKE": str(tmp_path / "lake"), "DUCKDB": str(tmp_path / "warehouse.duckdb")}
    for _ in range(2):
        assert set(run_dbt(tmp_path / "project", **environment).values()) == {None}
        with duckdb.connect(str(tmp_path / "warehouse.duckdb")) as connection:
            mirrored: pa.Table = connection.sql("SELECT id, city, fare FROM trips_mirror").to_arrow_table()
            sums = connection.execute("SELECT city, fares FROM fares_by_city ORDER BY city").fetchall()
    rows = HudiTable.open(tmp_path / "lake" / "trips").snapshot().to_table(["id", "city", "fare"])
    assert differences(rows, mirrored) == []
    assert sums == [("la", 46.0), ("nyc", 75.5), ("sf", 108.0)]
