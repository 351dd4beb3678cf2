"""The dataset in the hands of its users: pyarrow's own API, pandas, Polars, DuckDB."""

import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiDataset, HudiTable, QueryError, QueryType, open_reader
from hudi_bridge.readers.base_file import OpenBaseFile
from hudi_bridge.schema.meta_columns import META_COLUMNS
from hudi_bridge.split_reader import read_rows
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.table_writer import META_FIELDS, TableWriter, at, sorted_column

FIELDS = (("id", "string"), ("ts", "long"), ("value", "string"), ("part", "string"))
ROWS: list[dict[str, Any]] = [
    {"id": "a", "ts": 2, "value": "new", "part": "p"},
    {"id": "c", "ts": 1, "value": None, "part": "p"},
    {"id": "d", "ts": 4, "value": "log", "part": "p"},
    {"id": "a", "ts": 1, "value": "old", "part": "q"},
    {"id": "b", "ts": 1, "value": "old", "part": "q"},
]
"""What a snapshot of the table is."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> HudiTable:
    """Two partitions; in one of them an update, a delete and an insert."""
    writer = TableWriter(folder=tmp_path_factory.mktemp("table"), fields=FIELDS, partition_fields=("part",)).create()
    old: list[dict[str, Any]] = [{"id": key, "ts": 1, "value": "old"} for key in "ab"]
    base = [row | {"part": "p"} for row in (*old, {"id": "c", "ts": 1, "value": None})]
    writer.base_file(at(1), base, partition="p", file_id="p-0", row_group_size=2)
    writer.base_file(at(1), [row | {"part": "q"} for row in old], partition="q", file_id="q-0")
    writer.commit(at(1))
    changed = [row for row in ROWS if row["value"] in ("new", "log")]
    blocks = [writer.data_block(at(2), changed, partition="p"), writer.delete_block(at(2), [("b", 1)], partition="p")]
    writer.log_file(at(2), blocks, partition="p", file_id="p-0")
    writer.commit(at(2))
    return writer.open()


@pytest.fixture
def dataset(table: HudiTable) -> HudiDataset:
    return table.snapshot()


NAMES = ["id", "ts", "value", "part"]
EXPECTED = pa.Table.from_pylist(
    ROWS, pa.schema([(name, pa.int64() if name == "ts" else pa.string()) for name in NAMES])
)


def partitions(dataset: HudiDataset, row_filter: pc.Expression | None = None) -> list[str]:
    return [part.partition_path for split in dataset.splits(row_filter) for part in split.slices]


def test_what_a_dataset_says_of_itself(dataset: HudiDataset) -> None:
    assert isinstance(dataset, ds.Dataset)
    assert dataset.schema.names == [*META_FIELDS, *NAMES]
    assert (dataset.query_type, dataset.instant) == (QueryType.SNAPSHOT, at(2))
    assert partitions(dataset) == ["p", "q"]
    assert partitions(dataset, pc.field("part") == "q") == ["q"]
    assert dataset.left_out_log_files() == 0


def test_all_rows(dataset: HudiDataset) -> None:
    assert differences(EXPECTED, dataset.to_table(columns=NAMES)) == []
    assert dataset.to_table().schema == dataset.schema
    assert dataset.count_rows() == len(ROWS)
    assert dataset.count_rows(pc.field("id") == "a") == 2
    choices: tuple[dict[str, Any], ...] = ({}, {"use_threads": False}, {"batch_size": 1})
    for options in choices:
        assert differences(EXPECTED, dataset.scanner(columns=NAMES, **options).to_table()) == []
        assert differences(EXPECTED, pa.Table.from_batches(dataset.to_batches(columns=NAMES, **options))) == []


def test_options_of_pyarrow_s_own_readers_are_taken(dataset: HudiDataset) -> None:
    options: dict[str, Any] = {"batch_readahead": 1, "fragment_readahead": 1, "memory_pool": None}
    for rows in (dataset.to_table(columns=NAMES, **options), dataset.scanner(columns=NAMES, **options).to_table()):
        assert differences(EXPECTED, rows) == []


def test_columns_in_any_order_and_number(dataset: HudiDataset) -> None:
    assert dataset.to_table(columns=["ts", "id"]).schema.names == ["ts", "id"]
    assert dataset.scanner(columns=["ts", "id"]).to_table().schema.names == ["ts", "id"]
    assert dataset.to_table(columns=[]).num_columns == 0
    assert dataset.to_table(columns=["id", "id"]).column_names == ["id", "id"]
    assert dataset.scanner(columns=[]).count_rows() == len(ROWS)
    for columns in (["nope"], {"x": pc.field("nope")}):
        with pytest.raises(QueryError, match="nope"):
            dataset.to_table(columns=columns)
        with pytest.raises(QueryError, match="nope"):
            dataset.scanner(columns=columns)


def test_columns_may_be_expressions(dataset: HudiDataset) -> None:
    actual = dataset.to_table(
        {"key": pc.field("id"), "next": pc.field("ts") + 1, "one": pc.scalar(1)}, pc.field("ts") > 1
    )
    assert actual.sort_by("key").to_pylist() == [{"key": "a", "next": 3, "one": 1}, {"key": "d", "next": 5, "one": 1}]
    assert dataset.to_table(columns={"one": pc.scalar(1)}).num_rows == len(ROWS)
    batches = dataset.to_batches(columns={"next": pc.field("ts") + 1})
    assert sorted_column(pa.Table.from_batches(batches), "next") == [2, 2, 2, 3, 5]


def test_filters_by_position_are_those_of_the_schema(dataset: HudiDataset) -> None:
    position = dataset.schema.get_field_index("id")
    for columns in (["value"], ["part", "id"], None):
        actual = dataset.to_table(columns=columns, filter=pc.field(position) == "d")
        assert actual.num_rows == 1
        assert actual.column(0)[0].as_py() in ("log", "p", at(2))


def test_filters_add_up(dataset: HudiDataset) -> None:
    narrow = dataset.filter(pc.field("part") == "p").filter(pc.field("ts") > 1)
    assert sorted_column(narrow.to_table(), "id") == ["a", "d"]
    assert narrow.to_table(filter=pc.field("id") == "d").num_rows == 1
    assert narrow.count_rows() == 2
    assert partitions(narrow) == ["p"]
    assert dataset.count_rows() == len(ROWS)
    with pytest.raises(QueryError, match="nope"):
        dataset.filter(pc.field("nope") == 1).to_table()


def test_a_condition_between_constants_is_a_filter(dataset: HudiDataset) -> None:
    condition: Any = pa.scalar(1) == pa.scalar(2)
    assert dataset.to_table(filter=condition).num_rows == 0
    assert dataset.filter(pc.field("id") == "d").to_table(filter=condition).num_rows == 0
    assert dataset.count_rows(filter=True) == dataset.count_rows()  # type: ignore[arg-type]


def test_head_reads_no_more_than_it_needs(dataset: HudiDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    make = OpenBaseFile.__init__

    def recorded(base: OpenBaseFile, split: Any, path: str, *rest: Any) -> None:
        opened.append(path)
        make(base, split, path, *rest)

    monkeypatch.setattr(OpenBaseFile, "__init__", recorded)
    assert dataset.head(1, use_threads=False).num_rows == 1
    assert len(opened) == 1
    assert dataset.head(2).num_rows == 2
    assert dataset.head(100, columns=["id"]).num_rows == len(ROWS)
    assert dataset.head(1, filter=pc.field("id") == "d").column("value").to_pylist() == ["log"]
    assert dataset.head(0).num_rows == 0


def test_a_scanner_of_pyarrow(dataset: HudiDataset) -> None:
    scanner = dataset.scanner(columns=["id"], filter=pc.field("part") == "q")
    assert scanner.projected_schema.names == ["id"]
    assert scanner.to_reader().read_all().num_rows == 2
    assert dataset.scanner().count_rows() == len(ROWS)
    assert dataset.scanner().head(3).num_rows == 3
    with pytest.raises(QueryError, match="no fixed order"):
        scanner.take([0])


def test_each_use_of_a_scanner_reads_anew(dataset: HudiDataset) -> None:
    for columns in (["id"], {"key": pc.field("id")}):
        scanner = dataset.scanner(columns, pc.field("part") == "q")
        assert scanner.count_rows() == 2
        assert scanner.head(1).num_rows == 1
        assert scanner.to_table().num_rows == 2
        assert scanner.to_table().schema == scanner.projected_schema


def test_a_scanner_can_be_handed_to_other_libraries(dataset: HudiDataset) -> None:
    scanner = dataset.scanner(columns=NAMES)
    assert differences(EXPECTED, pa.RecordBatchReader.from_stream(scanner).read_all()) == []
    assert pl.DataFrame(scanner).height == len(ROWS)
    with duckdb.connect() as connection:
        rows = connection.from_arrow(scanner).filter("part = 'p'").aggregate("sum(ts)").fetchall()
        assert rows == [(7,)]


def test_rows_sorted_and_joined(dataset: HudiDataset) -> None:
    assert dataset.sort_by([("ts", "descending")]).to_table().column("id").to_pylist()[0] == "d"
    names = ds.dataset(pa.table({"id": ["a", "d"], "name": ["Ann", "Dan"]}))
    joined = dataset.filter(pc.field("part") == "p").join(names, keys="id", join_type="inner").to_table()
    assert sorted_column(joined, "name") == ["Ann", "Dan"]
    narrow = dataset.filter(pc.field("id") == "a")
    assert dataset.join(narrow, keys=["id", "part"], join_type="inner", right_suffix="_r").to_table().num_rows == 2
    assert dataset.join(names.to_table(), keys="id", join_type="inner").count_rows() == 3
    with pytest.raises(TypeError):
        dataset.join(None, keys="id")
    other = ds.dataset(pa.table({"ts": pa.array([4, 1], pa.int64()), "epoch": ["y", "x"]}))
    assert dataset.join_asof(other, on="ts", by=[], tolerance=-10).to_table().num_rows == len(ROWS)


def test_what_a_merged_table_cannot_offer(dataset: HudiDataset) -> None:
    for refused in (
        lambda: dataset.take([0, 1]),
        lambda: dataset.take(pa.array([0])),
        lambda: list(dataset.get_fragments()),
        lambda: dataset.replace_schema(pa.schema([])),
        lambda: dataset.replace_schema(dataset.schema),
        lambda: HudiDataset.from_paths(["x"], schema=dataset.schema),
        lambda: dataset.files,
        lambda: ds.dataset([dataset, dataset]),
    ):
        with pytest.raises(QueryError):
            refused()
    for native in (
        lambda: ds.UnionDataset(dataset.schema, [dataset, dataset]).to_table(),  # type: ignore[call-arg]
        lambda: ds.Scanner.from_dataset(dataset).to_table(),
        lambda: ds.dataset(pa.table({"id": ["a"]})).join(dataset, keys="id"),
    ):
        with pytest.raises(FileNotFoundError, match="by its own methods"):
            native()
    with pytest.raises(TypeError, match="splits"):
        pickle.dumps(dataset)


def test_what_is_misspelled_is_refused(dataset: HudiDataset) -> None:
    condition: Any = {"filters": pc.field("id") == "a"}
    for scan in (dataset.scanner, dataset.to_table, dataset.to_batches, dataset.count_rows):
        with pytest.raises(TypeError, match="unexpected keyword argument 'filters'"):
            scan(**condition)
    wrong: Any
    for wrong in ("id", [pc.field("id")], [0]):
        with pytest.raises(QueryError, match="a list of names"):
            dataset.to_table(columns=wrong)
    for wrong in ("id = 'a'", pc.field("nope") == 1):
        for refuse in (dataset.filter, dataset.count_rows, dataset.splits):
            with pytest.raises(QueryError, match="over the table's columns"):
                refuse(wrong)
    with pytest.raises(pa.ArrowInvalid, match="nope"):
        dataset.sort_by("nope")
    with pytest.raises(TypeError):
        len(dataset)  # type: ignore[arg-type]


def public_methods() -> list[str]:
    """What pyarrow offers of its own datasets of files."""
    return sorted(name for name in dir(ds.FileSystemDataset) if not name.startswith("_"))


def test_every_method_of_pyarrow_is_answered_without_a_crash(tmp_path: Path) -> None:
    """In a process of its own: what is not overridden may end up in C++, which takes our files for its own."""
    calls = {
        "count_rows": "()",
        "files": "",
        "filesystem": "",
        "filter": "(pc.field('id') == 'a')",
        "format": "",
        "from_paths": "([])",
        "get_fragments": "()",
        "head": "(1)",
        "join": "(dataset, 'id')",
        "join_asof": "(pa.table({'ts': [1], 'x': [2]}), on='ts', by=[], tolerance=0)",
        "partition_expression": "",
        "partitioning": "",
        "replace_schema": "(dataset.schema)",
        "scanner": "()",
        "schema": "",
        "sort_by": "('id')",
        "take": "([0])",
        "to_batches": "()",
        "to_table": "()",
    }
    assert sorted(calls) == public_methods()
    writer = TableWriter(folder=tmp_path).create()
    writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])
    writer.commit(at(1))
    program = f"""
import pyarrow as pa, pyarrow.compute as pc
from hudi_bridge import HudiTable, QueryError
dataset = HudiTable.open({str(tmp_path)!r}).snapshot()
refused = []
for name, call in {calls!r}.items():
    try:
        eval("dataset." + name + call)
    except QueryError:
        refused.append(name)
print(*refused)
"""
    command = [sys.executable, "-X", "faulthandler", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["files", "from_paths", "get_fragments", "replace_schema", "take"]


def test_arrow_streams(dataset: HudiDataset) -> None:
    assert differences(EXPECTED, pa.table(dataset).select(NAMES)) == []
    assert pa.RecordBatchReader.from_stream(dataset).read_all().num_rows == len(ROWS)


def test_a_dataset_can_be_written(dataset: HudiDataset, tmp_path: Path) -> None:
    ds.write_dataset(dataset, tmp_path, format="parquet", partitioning=["part"], partitioning_flavor="hive")
    assert pq.read_table(tmp_path, partitioning="hive").num_rows == len(ROWS)


def test_a_scanner_can_be_written(dataset: HudiDataset, tmp_path: Path) -> None:
    for columns in (NAMES, {name: pc.field(name) for name in NAMES}):
        scanner: Any = dataset.scanner(columns)
        ds.write_dataset(
            scanner,
            tmp_path,
            format="parquet",
            existing_data_behavior="overwrite_or_ignore",
        )
        assert differences(EXPECTED, pq.read_table(tmp_path)) == []


def test_a_dataset_can_be_read_again_and_at_once(dataset: HudiDataset) -> None:
    with ThreadPoolExecutor(4) as pool:
        actual = list(pool.map(lambda _: dataset.to_table(columns=NAMES), range(8)))
    assert all(differences(EXPECTED, item) == [] for item in actual)


@pytest.mark.parametrize(("few_bytes", "is_one"), [(1 << 23, True), (0, False)])
def test_few_small_slices_are_read_by_the_thread_that_asks(
    dataset: HudiDataset, monkeypatch: pytest.MonkeyPatch, few_bytes: int, is_one: bool
) -> None:
    threads: list[int] = []

    def read(*arguments: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        threads.append(threading.get_ident())
        return read_rows(*arguments, **options)

    monkeypatch.setattr("hudi_bridge.split_reader._FEW_SMALL_BYTES", few_bytes)
    monkeypatch.setattr("hudi_bridge.common.threads.os.cpu_count", lambda: 2)
    monkeypatch.setattr("hudi_bridge.split_reader.read_rows", read)
    assert differences(EXPECTED, dataset.to_table(columns=NAMES)) == []
    assert ({*threads} == {threading.get_ident()}) is is_one
    assert (threading.get_ident() in threads) is is_one


def test_pandas(dataset: HudiDataset) -> None:
    frame = dataset.to_table(columns=NAMES).to_pandas().sort_values(["part", "id"], ignore_index=True)
    assert frame["id"].tolist() == ["a", "c", "d", "a", "b"]
    assert frame["ts"].sum() == 9
    assert frame["value"].isna().tolist() == [False, True, False, False, False]


def test_polars(dataset: HudiDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    scanner = HudiDataset.scanner

    def recorded(self: HudiDataset, columns: Any = None, filter: Any = None, **options: Any) -> Any:  # noqa: A002
        asked.append(columns)
        assert filter is not None or len(asked) > 1
        return scanner(self, columns, filter, **options)

    monkeypatch.setattr(HudiDataset, "scanner", recorded)
    lazy = pl.scan_pyarrow_dataset(dataset)
    actual = lazy.filter((pl.col("part") == "p") & (pl.col("ts") >= 2)).select("id", "ts").collect()
    assert sorted(actual.rows()) == [("a", 2), ("d", 4)]
    assert len(asked) == 1
    assert {"id", "ts"}.issubset(asked[0])
    assert "value" not in asked[0]
    assert lazy.select(pl.len()).collect().item() == len(ROWS)
    assert lazy.filter(pl.col("id").is_in(["c", "d"])).collect().height == 2
    assert lazy.filter(pl.col("value").is_null()).select("id").collect().item() == "c"
    assert lazy.head(1).collect().height == 1


def test_duckdb(dataset: HudiDataset) -> None:
    hudi_rows = dataset
    with duckdb.connect() as connection:
        connection.register("registered", hudi_rows)
        for name in ("hudi_rows", "registered"):
            rows = connection.sql(f"SELECT id, ts FROM {name} WHERE part = 'p' AND ts >= 2 ORDER BY id").fetchall()
            assert rows == [("a", 2), ("d", 4)]
            assert connection.sql(f"SELECT count(*) FROM {name}").fetchall() == [(len(ROWS),)]
            grouped = f"SELECT part, sum(ts) FROM {name} WHERE value IS NOT NULL GROUP BY part ORDER BY part"
            assert connection.sql(grouped).fetchall() == [("p", 6), ("q", 2)]
            assert connection.sql(f"SELECT id FROM {name} WHERE id IN ('d', 'x') OR value LIKE 'ol%'").fetchall() != []
            both = f"SELECT count(*) FROM {name} l JOIN {name} r USING (id) WHERE l.part = 'p' AND r.part = 'q'"
            assert connection.sql(both).fetchall() == [(1,)]
            assert connection.sql(f"SELECT id FROM {name} LIMIT 1").fetchall() != []


def test_errors_reach_the_engine_s_user(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])
    writer.commit(at(1))
    dataset = writer.open().snapshot()
    (path,) = tmp_path.glob("*.parquet")
    path.write_bytes(b"no parquet")
    with duckdb.connect() as connection:
        connection.register("rows", dataset)
        rows = connection.sql("SELECT sum(ts) FROM rows")
        with pytest.raises(duckdb.Error, match="readable Parquet"):
            rows.fetchall()


def test_an_empty_table(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    writer.commit(at(1))
    dataset = writer.open().snapshot()
    assert dataset.to_table().schema == dataset.schema
    assert dataset.count_rows() == 0
    assert dataset.head(1).num_rows == 0
    assert dataset.scanner(columns=["id"], filter=pc.field("ts") > 1).to_table().num_rows == 0
    with duckdb.connect() as connection:
        connection.register("rows", dataset)
        assert connection.sql("SELECT count(*), sum(ts) FROM rows").fetchall() == [(0, None)]


def test_skipped_log_blocks_are_counted(dataset: HudiDataset) -> None:
    skipped = dataset.skipped_log_blocks()
    assert (skipped.corrupt, skipped.later, skipped.uncommitted, skipped.rolled_back, skipped.compacted) == (0,) * 5


def test_read_optimized_leaves_logs_out(table: HudiTable) -> None:
    dataset = table.read_optimized()
    assert dataset.left_out_log_files() == 1
    assert dataset.count_rows() == 5
    assert dataset.count_rows(pc.field("value") == "new") == 0


OWN = ["id", "ts", "value", "part"]


def test_rows_in_the_form_of_each_library(table: HudiTable) -> None:
    later = pc.field("ts") > 1
    for rows in (table, table.snapshot()):
        arrow = rows.to_arrow(meta_columns=False)
        assert arrow.sort_by([("part", "ascending"), ("id", "ascending")]).to_pylist() == ROWS
        assert rows.to_arrow().schema.names == [*META_COLUMNS, *OWN]
        assert sorted(rows.to_pandas(["id"], later)["id"]) == ["a", "d"]
        assert list(rows.to_pandas(meta_columns=False, types_mapper=None).columns) == OWN
        frame = rows.to_polars(filter=later, meta_columns=False)
        assert isinstance(frame, pl.DataFrame)
        assert (frame.columns, sorted(frame["value"])) == (OWN, ["log", "new"])
        connection = rows.to_duckdb('the "trips"', columns=["id", "ts"])
        assert connection.execute('SELECT count(*), max(ts) FROM "the ""trips"""').fetchall() == [(5, 4)]
        assert rows.to_duckdb("others", connection, filter=later, meta_columns=False) is connection
        assert sorted(connection.execute("SELECT value FROM others").fetchall()) == [("log",), ("new",)]
        connection.close()
    assert table.to_arrow(["value"], as_of=at(1)).num_rows == 5
    assert set(table.to_pandas(as_of=at(1))["value"].dropna()) == {"old"}


def test_the_columns_of_hudi_are_left_out_wherever_columns_are_chosen(table: HudiTable) -> None:
    dataset = table.snapshot()
    for rows in (
        dataset.to_table(meta_columns=False),
        dataset.head(1, meta_columns=False),
        next(dataset.to_batches(meta_columns=False)),
        dataset.scanner(meta_columns=False).to_table(),
        dataset.get("a", meta_columns=False),
        table.get("a", meta_columns=False),
        table.read_optimized().to_table(meta_columns=False),
        table.incremental(at(1)).to_table(meta_columns=False),
    ):
        assert rows.schema.names == OWN
    # Names that are asked for are there.
    assert dataset.to_table(["_hoodie_record_key"], meta_columns=False).num_columns == 1


def test_images_of_changes_lack_the_columns_of_hudi() -> None:
    table = HudiTable.open(golden_table("i_cdc_120"))
    own = [name for name in table.schema.names if name not in META_COLUMNS]
    changes = table.changes("earliest")
    expected = [
        {name: {key: value[key] for key in own} if isinstance(value, dict) else value for name, value in row.items()}
        for row in changes.to_table().to_pylist()
    ]
    assert {row["op"] for row in expected} == {"i", "u", "d"}
    rows = changes.to_table(meta_columns=False)
    assert sorted(rows.to_pylist(), key=str) == sorted(expected, key=str)
    # A condition may still name them.
    written: Any = pc.field("after", "_hoodie_record_key").is_valid()
    count = changes.count_rows(written)
    assert changes.to_table(meta_columns=False, filter=written).num_rows == count > 0
    with pytest.raises(QueryError, match="meta_columns"):
        table.changes("earliest", format="cdc").to_table(meta_columns=False)


def test_a_reader_and_an_explanation_can_leave_out_the_columns_of_hudi(table: HudiTable) -> None:
    for split in table.splits():
        assert open_reader(split, meta_columns=False).to_table().schema.names == OWN
    assert list(table.snapshot().explain(meta_columns=False).columns) == OWN
    for changed in HudiTable.open(golden_table("i_cdc_120")).changes("earliest").splits():
        with pytest.raises(QueryError, match="meta_columns"):
            open_reader(changed, meta_columns=False)


@pytest.mark.extra
@pytest.mark.parametrize(("method", "package"), [("to_polars", "polars"), ("to_duckdb", "duckdb")])
def test_a_library_that_is_missing_is_named_with_its_extra(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch, method: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=rf"{method} needs {package}: .*{package}"):
        getattr(table, method)("name")
