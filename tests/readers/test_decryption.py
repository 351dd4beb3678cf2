"""Encrypted base files are read with the keys that a table is opened with, in this process alone."""

import inspect
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import (
    CorruptBaseFileError,
    DataFileGoneError,
    HudiTable,
    QueryError,
    UnsupportedTableError,
    open_reader,
    tools,
)
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.polars import scan
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.connectors.trino.explain import explain_routes
from hudi_bridge.connectors.trino.publish import publish_log_records
from hudi_bridge.engines import slice_delta
from hudi_bridge.split_reader import open_reader_in
from hudi_bridge.tools.checks.findings import Severity
from tests.readers.legacy_dates import DAY, LEGACY, RETURNED, plain, write
from tests.support.compare import differences
from tests.support.counting_files import CountingFileSystem
from tests.support.encryption import COLUMNS, FORMS, WHOLE, decryption, encrypt_base_files, encrypted
from tests.support.golden_cases import golden_bootstrapped, golden_queries, golden_table
from tests.support.golden_queries import dataset_of
from tests.support.other_golden import source_of
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at, sorted_column

CASES = ("a_story_v9_120", "a_story_v6_0150", "d_compacted_only_102", "i_cdc_120", "b_late_rows_v6_by102")
"""Ranges, time travel and conditions in several table versions; change data; rows that statistics decide on."""
STORY = CASES[0]
QUERIES = {name: [query for query in golden_queries() if query.case == name] for name in CASES}
CHANGES = [query for query in golden_queries(("cdc",)) if query.case == "i_cdc_120"]


def copied(name: str, folder: Path, form: str) -> Path:
    """A golden table whose base files are encrypted."""
    shutil.copytree(golden_table(name), folder / name)
    assert encrypt_base_files(folder / name, form)
    return folder / name


def opened(folder: Path, **arguments: Any) -> HudiTable:
    return HudiTable.open(folder, **{"decryption_properties": decryption()} | arguments)


def two_rows(folder: Path) -> Path:
    """The base file of a table with two rows."""
    writer = TableWriter(folder=folder).create()
    path = writer.base_file(at(1), [{"id": "a", "value": "1", "ts": 1}, {"id": "b", "value": "2", "ts": 1}])
    writer.log_file(at(2), [writer.data_block(at(2), [{"id": "b", "value": "3", "ts": 2}])])
    writer.commit(at(1))
    writer.commit(at(2))
    return path


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A golden table with the footers of its base files in plain text."""
    return copied(STORY, tmp_path_factory.mktemp("story"), COLUMNS)


@pytest.mark.parametrize("form", one_in(2, FORMS))
@pytest.mark.parametrize("name", one_in(3, CASES))
def test_rows_are_those_of_the_files_before(name: str, form: str, tmp_path: Path) -> None:
    folder = copied(name, tmp_path, form)
    before, table = HudiTable.open(golden_table(name)), opened(folder)
    assert QUERIES[name]
    for query in QUERIES[name]:
        expected, dataset = dataset_of(query, before).to_table(filter=query.expression), dataset_of(query, table)
        assert dataset.schema == expected.schema
        assert differences(expected, dataset.to_table(filter=query.expression)) == [], query.name
        assert dataset.count_rows(filter=query.expression) == expected.num_rows


@pytest.mark.parametrize("form", one_in(2, FORMS))
def test_changes_are_those_of_the_files_before(form: str, tmp_path: Path) -> None:
    before, table = HudiTable.open(golden_table("i_cdc_120")), opened(copied("i_cdc_120", tmp_path, form))
    assert CHANGES
    for query in CHANGES:
        expected = dataset_of(query, before).to_table()
        assert differences(expected, dataset_of(query, table).to_table()) == [], query.name


def through_duckdb(table: HudiTable) -> pa.Table:
    rows = table.snapshot()
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        actual: pa.Table = connection.sql("FROM rows").to_arrow_table()
        return actual


READS: dict[str, Callable[[HudiTable], pa.Table]] = {
    "stream": lambda table: pa.Table.from_batches(table.snapshot().to_batches(), table.schema),
    "a column": lambda table: table.snapshot().to_table(columns=["_hoodie_record_key"]),
    "a partition": lambda table: table.snapshot().to_table(filter=pc.field("_hoodie_partition_path") == "a"),
    "keys": lambda table: table.get(sorted_column(table.snapshot().to_table(), "_hoodie_record_key")[:3]),
    "a condition on keys": lambda table: table.snapshot().to_table(
        filter=pc.field("_hoodie_record_key") == table.snapshot().to_table()["_hoodie_record_key"][0].as_py()
    ),
    "Polars": lambda table: scan(table).collect().to_arrow(),
    "DuckDB's scan of a dataset": through_duckdb,
    "versions": lambda table: tools.find_versions(table, columns=["_hoodie_record_key"]).read_all(),
    "differences": lambda table: tools.diff(table, table.timeline.commits()[0].requested_time).to_table(),
    "history": lambda table: pa.table(
        {"one": [str(tools.history_of(table, sorted_column(table.snapshot().to_table(), "_hoodie_record_key")[0]))]}
    ),
}


@pytest.mark.parametrize("read", one_in(3, READS))
def test_whatever_reads_in_this_process_has_the_keys(story: Path, read: str) -> None:
    expected = READS[read](HudiTable.open(golden_table(STORY)))
    assert expected.num_rows
    assert differences(expected, READS[read](opened(story))) == []


def test_what_is_told_of_files_has_the_keys(story: Path) -> None:
    before, table = HudiTable.open(golden_table(STORY)), opened(story)
    (path, *_) = (file_slice.base_file.path for file_slice in table.file_slices() if file_slice.base_file is not None)
    assert table.file_columns(path) == before.file_columns(path)
    row_filter = pc.field("_hoodie_partition_path") == "a"
    assert [item.slices for item in (table.snapshot().explain(row_filter),)]
    names = {
        finding.check for finding in tools.doctor(table, deep=True).findings if finding.severity is not Severity.INFO
    }
    # The files are of other sizes than the commits say.
    assert names <= {"base-file-sizes", "metadata-files"} | {
        finding.check for finding in tools.doctor(before, deep=True).findings if finding.severity is not Severity.INFO
    }


def test_a_function_has_the_location_of_each_file(tmp_path: Path) -> None:
    folder = copied(STORY, tmp_path, WHOLE)
    asked = []

    def properties(path: str) -> Any:
        asked.append(path)
        return decryption()

    table = opened(folder, decryption_properties=properties)
    rows = table.read_optimized().to_table()
    paths = {
        str(folder / file_slice.base_file.path)
        for file_slice in table.file_slices()
        if file_slice.base_file is not None
    }
    assert rows.num_rows
    assert set(asked) == paths


def test_files_without_properties_are_read_without(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    shutil.copytree(golden_table(STORY), folder)
    (first, *_) = encrypt_base_files(folder / "a", WHOLE)
    table = opened(folder, decryption_properties=lambda path: decryption() if "/a/" in path else None)
    expected = HudiTable.open(golden_table(STORY)).snapshot().to_table()
    assert differences(expected, table.snapshot().to_table()) == []
    # The same properties may be for files that are not encrypted.
    assert differences(expected, opened(folder).snapshot().to_table()) == []
    with pytest.raises(UnsupportedTableError, match=f"{first.stem.partition('_')[0]}.*, which is encrypted"):
        opened(folder, decryption_properties=lambda _: None).snapshot().to_table()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("keys", [{"missing": ("footer",)}, {"wrong": ("footer",)}], ids=str)
def test_keys_that_do_not_open_a_file_are_an_error_that_names_it(tmp_path: Path, form: str, keys: Any) -> None:
    path = two_rows(tmp_path)
    encrypt_base_files(tmp_path, form)
    table = opened(tmp_path, decryption_properties=decryption(**keys))
    for read in (table.snapshot, table.read_optimized):
        with pytest.raises(QueryError, match=f"decryption_properties: found keys that do not decrypt {path.name}"):
            read().to_table()
    with pytest.raises(QueryError, match=f"do not decrypt {path.name}"):
        table.file_columns(path.name)
    findings = [finding for finding in tools.doctor(table, deep=True).findings if "do not decrypt" in finding.found]
    assert {finding.severity for finding in findings} == {Severity.WARNING, Severity.INFO}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("keys", [{"missing": ("column",)}, {"wrong": ("column",)}], ids=str)
def test_a_column_without_its_key_is_an_error_if_it_is_read(tmp_path: Path, form: str, keys: Any) -> None:
    path = two_rows(tmp_path)
    path.write_bytes(encrypted(pq.read_table(path), form, ["value"]))
    table = opened(tmp_path, decryption_properties=decryption(**keys))
    with pytest.raises(QueryError, match=f"found keys that do not decrypt {path.name}"):
        table.snapshot().to_table()
    assert sorted_column(table.snapshot().to_table(columns=["id"]), "id") == ["a", "b"]
    assert table.snapshot().count_rows() == 2
    assert table.snapshot().explain(pc.field("value") == "1").slices
    assert [finding for finding in tools.doctor(table, deep=True).findings if "do not decrypt" in finding.found]


@pytest.mark.parametrize("error", [KeyError("no key"), FileNotFoundError(2, "no key"), ConnectionError("no key")])
def test_whatever_a_function_raises_names_the_file(tmp_path: Path, error: Exception) -> None:
    path = two_rows(tmp_path)

    def properties(_: str) -> Any:
        raise error

    with pytest.raises(QueryError, match=f"do not decrypt {path.name} .*no key"):
        opened(tmp_path, decryption_properties=properties).snapshot().to_table()


@pytest.mark.parametrize("given", ["key", {"footer": "key"}, b"0123456789abcdef"])
def test_other_things_than_properties_are_refused(tmp_path: Path, given: Any) -> None:
    path = two_rows(tmp_path)
    with pytest.raises(QueryError, match="decryption_properties: found"):
        opened(tmp_path, decryption_properties=given)
    with pytest.raises(QueryError, match=f"do not decrypt {path.name}"):
        opened(tmp_path, decryption_properties=lambda _: given).snapshot().to_table()


@pytest.mark.parametrize("form", FORMS)
def test_damage_is_told_from_keys(tmp_path: Path, form: str) -> None:
    path = two_rows(tmp_path)
    plain_content = path.read_bytes()
    encrypt_base_files(tmp_path, form)
    content = path.read_bytes()
    path.write_bytes(content[:-5])
    with pytest.raises(CorruptBaseFileError, match=path.name):
        opened(tmp_path).snapshot().to_table()
    # Whether bytes are damaged, or encrypted with another key, cannot be told.
    position = 60
    path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
    with pytest.raises(QueryError, match=f"{path.name}.*or the file is damaged"):
        opened(tmp_path).snapshot().to_table()
    path.write_bytes(plain_content[:-5])
    with pytest.raises(CorruptBaseFileError, match=path.name):
        opened(tmp_path).snapshot().to_table()
    path.write_bytes(b"PAR1" + bytes(200) + plain_content[204:])
    with pytest.raises(CorruptBaseFileError, match=path.name):
        opened(tmp_path).snapshot().to_table()
    table = opened(tmp_path)
    (split,) = table.splits()
    path.unlink()
    with pytest.raises(DataFileGoneError, match=path.name):
        open_reader_in(table.storage, split).to_table()


@pytest.mark.parametrize("name", ["metadata_v9-0-snapshot", "metadata_v6-1-read_optimized"])
def test_both_files_of_a_bootstrapped_slice_are_decrypted(name: str, tmp_path: Path) -> None:
    (query,) = (item for item in golden_bootstrapped() if item.name == name)
    shutil.copytree(query.table.parent, tmp_path / "copy")
    paths = [path for part in ("table", "source") for path in encrypt_base_files(tmp_path / "copy" / part, WHOLE)]
    asked: set[str] = set()

    def properties(path: str) -> Any:
        asked.add(path)
        return decryption()

    options = {
        key: value.replace(str(query.table.parent), str(tmp_path / "copy")) for key, value in source_of(query).items()
    }
    table = opened(tmp_path / "copy" / "table", options=options, decryption_properties=properties)
    expected = dataset_of(query, HudiTable.open(query.table, options=source_of(query))).to_table()
    assert differences(expected, dataset_of(query, table).to_table()) == []
    assert asked
    assert asked <= {str(path) for path in paths}
    assert any("/source/" in path for path in asked)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("is_whole", [True, False])
def test_files_in_a_store_are_decrypted(
    tmp_path: Path, form: str, is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_whole:
        monkeypatch.setattr("hudi_bridge.readers.fetch_ahead._ALWAYS_WHOLE_BYTES", 0)
        monkeypatch.setattr("hudi_bridge.readers.fetch_ahead._WHOLE_BYTES", 0)
    path = two_rows(tmp_path)
    encrypt_base_files(tmp_path, form)
    table = opened(tmp_path, filesystem=CountingFileSystem())
    rows = table.snapshot().to_table()
    assert sorted_column(rows, "value") == ["1", "3"]
    assert table.snapshot().to_table(filter=pc.field("value") == "3").num_rows == 1
    with pytest.raises(QueryError, match=f"do not decrypt {path.name}"):
        opened(
            tmp_path, filesystem=CountingFileSystem(), decryption_properties=decryption(missing=("column",))
        ).snapshot().to_table()


@pytest.mark.parametrize("form", FORMS)
def test_a_file_may_be_all_that_tells_the_columns(tmp_path: Path, form: str) -> None:
    writer = TableWriter(folder=tmp_path).create()
    path = writer.base_file(at(1), [{"id": "a", "value": "1", "ts": 1}])
    writer.commit(at(1), wrote=[path], extra={"schema": ""})
    expected = HudiTable.open(tmp_path).snapshot().to_table()
    encrypt_base_files(tmp_path, form)
    assert expected.num_rows == 1
    assert differences(expected, opened(tmp_path).snapshot().to_table()) == []
    with pytest.raises(UnsupportedTableError):
        opened(tmp_path, decryption_properties=decryption(missing=("footer",))).snapshot()


def test_dates_of_spark_2_are_rebased_without_statistics(tmp_path: Path) -> None:
    write(tmp_path, LEGACY)
    encrypt_base_files(tmp_path, WHOLE)
    rows = opened(tmp_path).snapshot().to_table()
    assert plain(rows["d"].combine_chunks()) == list(RETURNED)
    assert plain(rows["t"].combine_chunks()) == [day * DAY for day in RETURNED]


def test_row_groups_of_an_encrypted_file_are_read_together(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    path = writer.base_file(at(1), [{"id": str(number), "value": "x" * 100, "ts": 1} for number in range(5000)])
    writer.commit(at(1))
    rows = pq.read_table(path)
    expected = HudiTable.open(tmp_path).snapshot().to_table()
    path.write_bytes(encrypted(rows, WHOLE, row_group_size=700))
    table = opened(tmp_path)
    assert differences(expected, table.snapshot().to_table()) == []
    batches = list(table.snapshot().to_batches(filter=pc.field("id") != "7"))
    assert sum(batch.num_rows for batch in batches) == expected.num_rows - 1


LEAVES: dict[str, Callable[[HudiTable, Path], object]] = {
    "pickle of a table": lambda table, _: pickle.dumps(table),
    "pickle of a storage": lambda table, _: pickle.dumps(table.storage),
    "pickle of a split": lambda table, _: pickle.dumps(table.splits()[0]),
    "JSON of a split": lambda table, _: table.splits()[0].to_json(),
    "reader of a split": lambda table, _: open_reader(table.splits()[0]),
    "delta of a split": lambda table, _: slice_delta(table.splits()[0]),
    "changes": lambda table, _: pickle.dumps(list(table.changes("earliest").splits())),
    "DuckDB": lambda table, _: attach(duckdb.connect(), table, "rows"),
    "Iceberg": lambda table, folder: publish_table(
        table.storage, Scratch.open(str(folder)), locations=Locations(), builds=1
    ),
    "Trino": lambda table, folder: publish_log_records(table, str(folder)),
    "routes to Trino": lambda table, _: explain_routes(table),
}


@pytest.mark.parametrize("way", LEAVES)
def test_keys_leave_this_process_in_no_way(story: Path, tmp_path: Path, way: str) -> None:
    with pytest.raises(QueryError, match=r"decryption_properties: found keys that .* would need, expected a read as"):
        LEAVES[way](opened(story), tmp_path / "published")
    assert not list(tmp_path.rglob("*.parquet"))


def test_tables_without_keys_leave_as_ever(tmp_path: Path) -> None:
    two_rows(tmp_path)
    table = pickle.loads(pickle.dumps(HudiTable.open(tmp_path)))
    (split,) = pickle.loads(pickle.dumps(table.splits()))
    assert open_reader(split).to_table().num_rows == 2
    assert pl.from_arrow(table.snapshot().to_table()).shape[0] == 2


def test_keys_are_shown_nowhere(tmp_path: Path) -> None:
    two_rows(tmp_path)
    table = opened(tmp_path)
    assert "ecrypt" not in repr(table) + repr(table.storage)


def test_keys_are_an_argument_of_open_alone() -> None:
    name = "decryption_properties"
    assert name in inspect.signature(HudiTable.open).parameters
    for function in (attach, scan):
        assert name not in inspect.signature(function).parameters
