"""The bytes that BLOB columns refer to, beside those that Hudi's ``read_blob`` gives."""

import json
import pickle
import random
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from lance.file import LanceFileWriter
from pyiceberg.table import StaticTable

from hudi_bridge import (
    CorruptBaseFileError,
    CorruptTableError,
    HudiReadError,
    HudiTable,
    QueryType,
    RealtimeFileSplit,
    UnsupportedTableError,
    open_reader,
)
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.lakes.tables import MergeSettings
from hudi_bridge.connectors.polars import scan
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.engines import slice_delta
from hudi_bridge.options import BLOB_MODE_KEY, BLOB_SOURCE_KEY, QUERY_TYPE_KEY
from hudi_bridge.readers import blobs
from hudi_bridge.readers.base_formats.lance import LanceBaseFile
from hudi_bridge.storage.storage import Storage
from tests.support.compare import differences
from tests.support.golden_cases import golden_blobs
from tests.support.table_writer import TableWriter, at

TABLE = golden_blobs() / "references_120" / "table"
MOVED = {BLOB_SOURCE_KEY: f"/blobs=>{golden_blobs() / 'blobs'}"}
READ_BY_HUDI = {
    row["id"]: row["content"] for row in pq.read_table(golden_blobs() / "references_120" / "bytes.parquet").to_pylist()
}
LANCE = golden_blobs() / "lance_120" / "table"
CHANGED = golden_blobs() / "lance_changes_120" / "table"
LOST_BY_HUDI = {4: b"second " * 100, 5: b"x"}
"""The bytes after an empty value, by key."""
BLOB = {
    "type": "record",
    "name": "Blob",
    "fields": [
        {"name": "type", "type": "string"},
        {"name": "data", "type": ["null", "bytes"], "default": None},
        {
            "name": "reference",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Reference",
                    "fields": [
                        {"name": "external_path", "type": ["null", "string"], "default": None},
                        {"name": "offset", "type": ["null", "long"], "default": None},
                        {"name": "length", "type": ["null", "long"], "default": None},
                        {"name": "managed", "type": ["null", "boolean"], "default": None},
                    ],
                },
            ],
            "default": None,
        },
    ],
}


def contents(rows: pa.Table) -> Mapping[int, bytes | None]:
    return {row["id"]: row["b"] and row["b"]["data"] for row in rows.to_pylist()}


def test_without_the_option_references_are_read_as_they_are() -> None:
    rows = HudiTable.open(TABLE).snapshot().to_table()
    assert differences(pq.read_table(TABLE.with_name("rows.parquet")), rows) == []


def test_bytes_are_those_that_hudi_reads() -> None:
    rows = HudiTable.open(TABLE, options=MOVED).snapshot().to_table()
    assert contents(rows) == READ_BY_HUDI
    # All else is as it was.
    plain = HudiTable.open(TABLE).snapshot().to_table()
    for name in ("type", "reference"):
        assert pc.struct_field(rows["b"], name).equals(pc.struct_field(plain["b"], name))
    assert differences(plain.drop_columns("b"), rows.drop_columns("b")) == []


def test_no_file_is_opened_for_other_columns_and_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = HudiTable.open(TABLE, options=MOVED).snapshot()
    expected = rows.to_table(columns=["id", "b"], filter=pc.field("id").isin([2, 7, 9]))
    assert contents(expected) == {key: READ_BY_HUDI[key] for key in (2, 7, 9)}
    monkeypatch.setattr(blobs.BlobFiles, "_file_bytes", None)
    assert rows.to_table(columns=["id"]).num_rows == rows.count_rows() == 10
    assert contents(rows.to_table(filter=pc.field("id").isin([1, 2, 7]))) == {
        key: READ_BY_HUDI[key] for key in (1, 2, 7)
    }


def test_near_ranges_are_read_together_and_batches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    original = Storage.read_range

    def counted(self: Storage, file: pa.NativeFile, path: str, start: int, size: int) -> pa.Buffer:
        read.append(size)
        return original(self, file, path, start, size)

    monkeypatch.setattr(Storage, "read_range", counted)
    dataset = HudiTable.open(TABLE, options=MOVED).snapshot()
    chosen = pc.field("id").isin([3, 4])
    dataset.to_table(filter=chosen)
    assert {100, 300} <= set(read)
    assert 5000 not in read
    monkeypatch.setattr(blobs, "_GAP_BYTES", 5000)
    read.clear()
    dataset.to_table(filter=chosen)
    assert 5000 in read
    monkeypatch.setattr(blobs, "_BYTES_AT_ONCE", 2000)
    batches = [batch for split in dataset.splits() for batch in open_reader(split).batches()]
    assert max(sum(len(data or b"") for data in contents(pa.table(batch)).values()) for batch in batches) == 10240
    assert all(
        batch.num_rows == 1 for batch in batches if 10240 in map(len, filter(None, contents(pa.table(batch)).values()))
    )
    assert contents(pa.Table.from_batches(batches)) == READ_BY_HUDI


def test_splits_read_them_elsewhere() -> None:
    dataset = HudiTable.open(TABLE, options=MOVED).snapshot()
    tables = []
    for split in dataset.splits():
        assert isinstance(split, RealtimeFileSplit)
        assert pickle.loads(pickle.dumps(split)) == split
        tables.append(open_reader(RealtimeFileSplit.from_json(split.to_json())).to_table())
        with slice_delta(split) as delta:
            assert delta.base_file is None or "BLOB" in (delta.base_file.reason_unreadable() or "")
            assert "BLOB" in str(delta.log_records()) or not split.log_paths
    assert contents(pa.concat_tables(tables)) == READ_BY_HUDI


def test_engines_get_the_bytes(tmp_path: Path) -> None:
    table = HudiTable.open(TABLE, options=MOVED)
    with duckdb.connect() as connection:
        attach(connection, table, "rows")
        assert contents(connection.sql("SELECT id, b FROM rows").to_arrow_table()) == READ_BY_HUDI
    frame = scan(table).select("id", pl.col("b").struct.field("data")).collect()
    assert dict(frame.iter_rows()) == READ_BY_HUDI
    published = publish_table(
        Storage.open(str(TABLE)),
        Scratch.open(str(tmp_path)),
        locations=Locations(),
        builds=1,
        merging=MergeSettings(options=MOVED, payloads={}),
    )
    actual = StaticTable.from_metadata(published.metadata_location).scan().to_arrow()
    assert contents(actual) == READ_BY_HUDI


def table_of(folder: Path, reference: Mapping[str, Any] | None) -> TableWriter:
    """A table with one row that refers to bytes."""
    writer = TableWriter(folder=folder, fields=(("id", "string"), ("ts", "long"), ("b", BLOB))).create()
    stored = reference and {"external_path": None, "offset": None, "length": None, "managed": None} | dict(reference)
    writer.base_file(at(1), [{"id": "a", "ts": 1, "b": {"type": "OUT_OF_LINE", "data": None, "reference": stored}}])
    writer.commit(at(1))
    return writer


def found_in(writer: TableWriter, source: str) -> bytes:
    rows = HudiTable.open(str(writer.folder), options={BLOB_SOURCE_KEY: source}).snapshot().to_table()
    content: bytes = rows["b"][0]["data"].as_py()
    return content


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a file, beside one whose name begins alike."""
    for name in ("files", "files2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.bin").write_bytes(b"0123456789")
    return tmp_path / "files"


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
@pytest.mark.parametrize("source_prefix", ["", "file://"])
def test_ways_to_write_a_path(tmp_path: Path, files: Path, prefix: str, source_prefix: str) -> None:
    writer = table_of(tmp_path / "table", {"external_path": f"{prefix}{files}/one.bin", "offset": 3, "length": 4})
    assert found_in(writer, f"{source_prefix}{files}/") == b"3456"
    assert found_in(writer, f"/elsewhere, {source_prefix}{tmp_path}") == b"3456"


@pytest.mark.parametrize(
    "path", ["{}2/one.bin", "/etc/hostname", "s3://bucket/one.bin", "one.bin", "{}", "https://example.com/one.bin"]
)
def test_files_of_other_folders_are_refused(tmp_path: Path, files: Path, path: str) -> None:
    writer = table_of(tmp_path / "table", {"external_path": path.format(files)})
    with pytest.raises(UnsupportedTableError, match=rf"reference of a BLOB: .*{BLOB_SOURCE_KEY}"):
        found_in(writer, str(files))


@pytest.mark.parametrize("path", ["{}/../files2/one.bin", "{}//etc/hostname", "{}/a/../../files2/one.bin"])
def test_paths_do_not_leave_the_folder(tmp_path: Path, files: Path, path: str) -> None:
    writer = table_of(tmp_path / "table", {"external_path": path.format(files)})
    with pytest.raises(CorruptTableError, match="leaves the table's folder"):
        found_in(writer, str(files))


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        (None, "the reference None"),
        ({"external_path": ""}, "expected the path of a file"),
        ({"external_path": "gone.bin"}, "a file that is not there"),
        ({"external_path": "one.bin", "offset": 5, "length": 6}, "the bytes from 5 to 11"),
        ({"external_path": "one.bin", "offset": -1, "length": 6}, "the bytes from -1 to 5"),
        ({"external_path": "one.bin", "offset": 11}, "the bytes from 11 to 10"),
    ],
)
def test_bytes_that_are_not_there(tmp_path: Path, files: Path, reference: Any, found: str) -> None:
    if reference and reference["external_path"]:
        reference = {**reference, "external_path": f"{files}/{reference['external_path']}"}
    with pytest.raises(CorruptTableError, match=found):
        found_in(table_of(tmp_path / "table", reference), str(files))


def test_more_bytes_than_a_value_can_have(tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "_MAX_BYTES", 9)
    writer = table_of(tmp_path / "table", {"external_path": f"{files}/one.bin"})
    with pytest.raises(UnsupportedTableError, match=r"size of a BLOB: found 10 bytes of .*one\.bin"):
        found_in(writer, str(files))


@pytest.mark.parametrize("link", ["secret", "elsewhere/secret"])
def test_links_out_of_an_allowed_folder_are_not_followed(tmp_path: Path, link: str) -> None:
    (tmp_path / "allowed").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    (tmp_path / "allowed" / "secret").symlink_to(tmp_path / "outside" / "secret")
    (tmp_path / "allowed" / "elsewhere").symlink_to(tmp_path / "outside")
    (tmp_path / "allowed" / "whole").write_bytes(b"whole")
    (tmp_path / "allowed" / "inside").symlink_to(tmp_path / "allowed" / "whole")
    (tmp_path / "linked").symlink_to(tmp_path / "allowed")
    files = blobs.BlobFiles(Storage.open(tmp_path), [str(tmp_path / "linked")])

    def read(name: str) -> Any:
        reference = {"external_path": str(tmp_path / "linked" / name), "offset": None, "length": None, "managed": False}
        column = pa.array([{"type": "OUT_OF_LINE", "data": None, "reference": reference}], blobs.BLOB_TYPE)
        (batch,) = files.filled(pa.record_batch([column], names=["b"]), ["b"])
        return pc.struct_field(batch.column("b"), "data")[0].as_py()

    assert [read("whole"), read("inside")] == [b"whole", b"whole"]
    with pytest.raises(UnsupportedTableError, match="a link that leads elsewhere"):
        read(link)


@pytest.mark.parametrize(
    ("query_type", "answer"), [(QueryType.SNAPSHOT, "content"), (QueryType.READ_OPTIMIZED, "base")]
)
def test_bytes_in_lance_files_are_given_if_asked_for(query_type: QueryType, answer: str) -> None:
    options = {BLOB_MODE_KEY: "content", QUERY_TYPE_KEY: query_type.value}
    rows = HudiTable.open(LANCE, options=options).query().to_table()
    answered = pq.read_table(LANCE.with_name(f"{answer}.parquet"))
    of_both = ~pc.field("id").isin(list(LOST_BY_HUDI))
    assert differences(answered.filter(of_both), rows.filter(of_both)) == []
    assert differences(answered.drop_columns("b"), rows.drop_columns("b")) == []
    ours, lost = contents(rows), contents(answered)
    assert {key: (ours[key], lost[key]) for key in LOST_BY_HUDI} == {
        key: (content, b"") for key, content in LOST_BY_HUDI.items()
    }


def by_hudi(table: Path, answer: str) -> pa.Table:
    """What Hudi gives, with references into the files of the table here, spelled in one way."""
    rows = pq.read_table(table.with_name(f"{answer}.parquet"))
    blobs_of_rows: list[Any] = rows["b"].to_pylist()
    for blob in blobs_of_rows:
        if blob["reference"] and blob["reference"]["managed"]:
            path = blob["reference"]["external_path"]
            assert re.match("file:(///)?/?", path)
            blob["reference"]["external_path"] = f"file://{table}{path.partition('/table')[2]}"
    position = rows.schema.get_field_index("b")
    return rows.set_column(position, rows.schema.field(position), pa.array(blobs_of_rows, rows.schema.field("b").type))


@pytest.mark.parametrize("options", [{}, {BLOB_MODE_KEY: "descriptor"}], ids=str)
@pytest.mark.parametrize(
    ("table", "query_type", "answer"),
    [
        (LANCE, QueryType.SNAPSHOT, "default"),
        (LANCE, QueryType.READ_OPTIMIZED, "base_default"),
        (CHANGED, QueryType.SNAPSHOT, "default"),
    ],
)
def test_blobs_in_lance_files_are_references_by_default(
    table: Path, query_type: QueryType, answer: str, options: Mapping[str, str]
) -> None:
    dataset = HudiTable.open(table, options={**options, QUERY_TYPE_KEY: query_type.value}).query()
    expected = by_hudi(table, answer)
    assert differences(expected, dataset.to_table()) == []
    for columns in (["b"], ["id", "b"], ["ts", "b", "id"]):
        assert differences(expected.select(columns), dataset.to_table(columns=columns)) == []
    is_into_file = pc.equal(pc.struct_field(expected["b"], [2, 3]), pa.scalar(value=True))
    row_filter = pc.field("b", "reference", "managed") == pa.scalar(value=True)
    assert dataset.count_rows(filter=row_filter) == pc.sum(is_into_file).as_py() > 0
    assert dataset.to_table(columns=["id"]).num_rows == expected.num_rows


def test_changes_of_lance_files_have_references_too() -> None:
    changes = HudiTable.open(CHANGED).changes("0", format="cdc").to_table()
    answer = pq.read_table(CHANGED.with_name("changes.parquet"))
    assert changes.num_rows == answer.num_rows == 9
    assert sorted(map(change_of, changes.to_pylist())) == sorted(map(change_of, answer.to_pylist()))


def change_of(change: Mapping[str, Any]) -> tuple[str, ...]:
    """A change whatever the form of its JSON; of references into files, the names of these alone count."""
    images = (re.sub('"file:/[^"]*/', '"', change[name] or "null") for name in ("before", "after"))
    parsed = (json.loads(image, object_hook=without_nulls) for image in images)
    return (change["op"], change["ts_ms"], *(json.dumps(image, sort_keys=True) for image in parsed))


def without_nulls(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def test_references_into_lance_files_of_a_store_name_these_and_no_copy() -> None:
    store = fsspec.filesystem("memory")
    store.put(str(LANCE), "/references/table", recursive=True)
    options = {QUERY_TYPE_KEY: "read_optimized"}
    rows = HudiTable.open("memory://references/table", filesystem=store, options=options).query().to_table()
    local = HudiTable.open(LANCE, options=options).query().to_table()
    moved = pa.array(
        json.loads(json.dumps(local["b"].to_pylist()).replace(f"file://{LANCE}/", "memory://references/table/")),
        rows.schema.field("b").type,
    )
    assert rows["b"].combine_chunks().equals(moved)


def test_tables_that_are_published_have_references_into_lance_files(tmp_path: Path) -> None:
    published = publish_table(
        Storage.open(str(LANCE)),
        Scratch.open(str(tmp_path)),
        locations=Locations(),
        builds=1,
        merging=MergeSettings(options={}, payloads={}),
    )
    rows = StaticTable.from_metadata(published.metadata_location).scan().to_arrow()
    expected = by_hudi(LANCE, "default")
    references = {row["id"]: row["b"]["reference"] for row in rows.to_pylist()}
    assert references == {row["id"]: row["b"]["reference"] for row in expected.to_pylist()}


def test_the_option_for_files_reads_the_references_to_these_alone() -> None:
    rows = HudiTable.open(LANCE, options={**MOVED, QUERY_TYPE_KEY: "read_optimized"}).query().to_table()
    first = (golden_blobs() / "blobs" / "first.bin").read_bytes()
    assert contents(rows) == {0: None, 2: first[:16], 3: None, 4: None, 5: None}


NO_REFERENCE = dict.fromkeys(("external_path", "offset", "length", "managed"))
LANCE_BLOB = pa.field(
    "b",
    pa.struct(
        [
            pa.field("type", pa.string()),
            pa.field("data", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
            blobs.BLOB_TYPE.field("reference"),
        ]
    ),
    metadata={"hudi_type": "BLOB"},
)


def lance_rows(count: int) -> pa.Table:
    """Rows with BLOBs of all kinds, among columns of other types that take several columns of the file."""

    def blob(number: int) -> Mapping[str, Any]:
        content = [bytes([number % 251]) * (number % 300), None, b""][number % 3]
        if number % 5:
            return {"type": "INLINE", "data": content, "reference": NO_REFERENCE}
        reference = {"external_path": f"/x/{number}", "offset": number, "length": 2, "managed": False}
        return {"type": "OUT_OF_LINE", "data": None, "reference": reference}

    numbers = range(count)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(range(3 * count), pa.float32()), 3)
    lists = pa.array([[{"x": number, "y": "y"}] * (number % 3) for number in numbers])
    columns = {"select": pa.array(numbers, pa.int32()), "vector": vectors, "lists": lists}
    schema = pa.schema([*(pa.field(name, column.type) for name, column in columns.items()), LANCE_BLOB])
    rows = [*columns.values(), pa.array(map(blob, numbers), LANCE_BLOB.type)]
    return pa.table(rows, schema=schema)


def lance_file(folder: Path, rows: pa.Table) -> LanceBaseFile:
    """A Lance file as Hudi writes it, opened in a split that asks for references."""
    file = folder / "f.lance"
    with LanceFileWriter(str(file), rows.schema, version="2.0") as writer:
        writer.write_batch(rows)
    (split,) = HudiTable.open(CHANGED).snapshot().splits()
    assert isinstance(split, RealtimeFileSplit)
    return LanceBaseFile.open(Storage.open(folder), split, "f.lance")


@pytest.mark.parametrize("folder", ["plain", "a b", "p=x%20y", "#?é", "back[s]*"])
def test_references_are_to_the_bytes_of_each_row(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    # More rows than Lance writes into one page of a column of BLOBs.
    rows = lance_rows(1300)
    with lance_file(tmp_path / folder, rows) as base:
        stored = pa.Table.from_batches(base.batches(0, ["b", "vector", "lists", "select"], 500))
    content = (tmp_path / folder / "f.lance").read_bytes()
    assert stored.drop_columns("b").equals(rows.select(["vector", "lists", "select"]))
    stored_blobs: list[Any] = stored["b"].to_pylist()
    written_blobs: list[Any] = rows["b"].to_pylist()
    for blob, written in zip(stored_blobs, written_blobs, strict=True):
        assert (blob["type"], blob["data"]) == (written["type"], None)
        start, size = blob["reference"]["offset"], blob["reference"]["length"]
        if written["type"] == "OUT_OF_LINE":
            assert blob["reference"] == written["reference"]
            continue
        assert blob["reference"]["external_path"] == f"file://{tmp_path}/{folder}/f.lance"
        assert blob["reference"]["managed"]
        # Null is at 1, as Lance has it and Hudi gives it.
        expected = (1, b"") if written["data"] is None else (start, written["data"])
        assert (start, content[start : start + size]) == expected


def test_null_blobs_have_null_fields(tmp_path: Path) -> None:
    blob = {"type": None, "data": None, "reference": NO_REFERENCE}
    rows = pa.table([pa.array([blob, blob], LANCE_BLOB.type)], schema=pa.schema([LANCE_BLOB]))
    with lance_file(tmp_path, rows) as base:
        (batch,) = base.batches(0, ["b"], 10)
    assert batch["b"].to_pylist() == [blob, blob]


def test_a_blob_of_no_known_type_is_damage(tmp_path: Path) -> None:
    blob = {"type": "ELSEWHERE", "data": b"x", "reference": NO_REFERENCE}
    rows = pa.table([pa.array([blob], LANCE_BLOB.type)], schema=pa.schema([LANCE_BLOB]))
    with (
        lance_file(tmp_path, rows) as base,
        pytest.raises(CorruptBaseFileError, match=r"f\.lance.*type ELSEWHERE.*INLINE or OUT_OF_LINE"),
    ):
        list(base.batches(0, ["b"], 10))


def test_damage_of_lance_files_is_an_error_that_names_them(tmp_path: Path) -> None:
    shutil.copytree(LANCE, tmp_path / "table")
    (file,) = (tmp_path / "table").glob("*.lance")
    content, errors = file.read_bytes(), []
    generator = random.Random(7)
    for _ in range(40):
        damaged = bytearray(content)
        for position in generator.sample(range(len(content)), 3):
            damaged[position] ^= 1 << generator.randrange(8)
        file.write_bytes(damaged)
        try:
            HudiTable.open(tmp_path / "table").snapshot().to_table(columns=["b"])
        except HudiReadError as error:
            errors.append(error)
    assert {type(error) for error in errors} >= {CorruptBaseFileError}
    assert all(file.name in str(error) for error in errors)


def test_a_panic_of_the_package_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        """As the package raises it, which is no ``Exception``."""

    def panics(*_: object, **__: object) -> None:
        raise PanicException("range start must not be greater than end")

    rows = HudiTable.open(LANCE).snapshot()
    monkeypatch.setattr("lance.file.LanceFileReader", panics)
    with pytest.raises(CorruptBaseFileError, match=r"\.lance.*range start"):
        rows.to_table()


def test_splits_say_whether_blobs_of_lance_are_bytes() -> None:
    for split in HudiTable.open(LANCE, options={BLOB_MODE_KEY: "CONTENT"}).snapshot().splits():
        assert isinstance(split, RealtimeFileSplit)
        for same in (pickle.loads(pickle.dumps(split)), RealtimeFileSplit.from_json(split.to_json())):
            assert same == split
            assert LOST_BY_HUDI.items() <= contents(open_reader(same).to_table()).items()
