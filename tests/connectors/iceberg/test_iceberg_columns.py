"""Ids and names of columns, and which base files clients may read where they lie."""

import shutil
import struct
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.types import NestedField, StringType

from hudi_bridge import HudiTable
from hudi_bridge.connectors.iceberg.columns import columns_of, complete, names_to_ids
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.iceberg.slice_files import data_file
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.errors import QueryError, UnsupportedTableError
from hudi_bridge.splits.committed_files import CommittedFiles
from hudi_bridge.storage.storage import Storage
from tests.connectors.iceberg.publishing import rename_in_footer
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.golden_queries import QUERIES, answer_of
from tests.support.strength import one_in
from tests.support.table_writer import KEY_AND_VALUE, TableWriter, at

NESTED = pa.schema(
    [
        ("_hoodie_record_key", pa.string()),
        ("id", pa.string()),
        ("st", pa.struct([("x", pa.int32()), ("l", pa.list_(pa.struct([("y", pa.date32())])))])),
        ("m", pa.map_(pa.string(), pa.decimal128(10, 2))),
    ]
)


def test_columns_without_a_history_keep_the_ids_they_had() -> None:
    first = columns_of(NESTED, (), {})
    assert first.ids["_hoodie_record_key"] == 3
    assert len(set(first.ids.values())) == len(first.ids)
    assert min(id_ for path, id_ in first.ids.items() if not path.startswith("_")) == 100
    fields = [pa.field("new", pa.int64()), NESTED.field("m"), NESTED.field("id")]
    later = columns_of(pa.schema(fields), (), first.ids)
    assert {path: later.ids[path] for path in ("id", "m", "m.key", "m.value")} == {
        path: first.ids[path] for path in ("id", "m", "m.key", "m.value")
    }
    assert later.ids["new"] == max(first.ids.values()) + 1


def test_ids_of_a_history_are_hudi_s_moved_up() -> None:
    fields: list[Any] = [("a", pa.int64()), ("b", pa.string()), ("part", pa.string())]
    schema = pa.schema(fields)
    columns = columns_of(schema, ({"b": 0, "a": 3}, {"a": 0, "c": 1}), {"a": 55})
    assert columns.ids == {"a": 103, "b": 100, "part": 7}
    # b was called a, but a is another column by now.
    assert names_to_ids(columns.mapping, columns.schema) == columns.ids


def test_parts_of_variants_get_ids_that_no_column_has() -> None:
    parts = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    names = [f"v{number}" for number in range(60)]
    hudi_ids = ({name: number for number, name in enumerate(names)}, {"former": 99})
    columns = columns_of(pa.schema([(name, parts) for name in names]), hudi_ids, {})
    assert len({199, *columns.ids.values()}) == 1 + 3 * len(names)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([("s", pa.struct([("B", pa.int32()), ("b", pa.int32())]))], "s.B and s.b"),
        ([("l", pa.list_(pa.struct([("x", pa.struct([("É", pa.int32()), ("é", pa.date32())]))])))], "x.É and .*x.é"),
        ([("s", pa.struct([("x.y", pa.int32()), ("x", pa.struct([("y", pa.int32())]))]))], "two with the path s.x.y"),
        ([("x", pa.struct([("y", pa.int32())])), ("x.y", pa.int32())], "two with the path x.y"),
    ],
)
def test_fields_that_clients_take_for_one_are_refused(fields: list[Any], message: str) -> None:
    with pytest.raises(UnsupportedTableError, match=message):
        columns_of(pa.schema(fields), (), {})


def test_columns_that_differ_in_case_are_for_clients_that_tell_them_apart() -> None:
    fields: list[Any] = [("S", pa.int32()), ("s", pa.string())]
    columns = columns_of(pa.schema(fields), (), {})
    assert set(columns.ids) == {"S", "s"}


def test_no_name_of_a_mapping_differs_from_another_in_case_alone() -> None:
    """Trino opens no file of a table with such a mapping."""
    fields: list[Any] = [("B", pa.int64()), ("c", pa.int64()), ("s", pa.struct([("Y", pa.int64())]))]
    schema = pa.schema(fields)
    now = {"B": 0, "c": 1, "s": 2, "s.Y": 3}
    earlier = ({"b": 0, "C": 0, "b_": 1}, {"b0": 0, "B_": 1, "B0": 1}, {"s.y": 3, "s.x": 3, "s": 2})
    columns = columns_of(schema, (now, *earlier), {})
    assert {path: id_ - 100 for path, id_ in names_to_ids(columns.mapping, columns.schema).items()} == {
        "B": 0,
        "b0": 0,
        "c": 1,
        "b_": 1,
        "s": 2,
        "s.Y": 3,
        "s.x": 3,
    }


def test_a_renamed_column_has_all_its_names() -> None:
    versions = ({"new": 0}, {"mid": 0}, {"old": 0})
    columns = columns_of(pa.schema([("new", pa.string())]), versions, {})
    assert names_to_ids(columns.mapping, columns.schema) == {"new": 100, "mid": 100, "old": 100}


def test_the_mapping_is_completed_by_what_files_have_besides() -> None:
    columns = columns_of(NESTED, (), {})
    paths = {"id": 1, "gone": None, "gone.element": None, "gone.element.z": 44, "st.z": None, "st.x": 7}
    completed = complete(columns.mapping, paths, 500)
    added = {"gone": 500, "gone.element": 501, "gone.element.z": 44, "st.z": 502}
    every = Schema(*[NestedField(id_, str(id_), StringType()) for id_ in {*columns.ids.values(), *added.values()}])
    assert names_to_ids(completed, every) == dict(columns.ids) | added
    assert names_to_ids(columns.mapping, every) == columns.ids


@pytest.mark.parametrize("kind", [pa.null(), pa.decimal256(40, 2), pa.timestamp("ns"), pa.uint64(), pa.duration("us")])
def test_types_that_iceberg_does_not_have_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedTableError, match=r"st\.x of type"):
        columns_of(pa.schema([("st", pa.struct([("x", kind)]))]), (), {})


BOUNDS: dict[str, tuple[list[Any], Any, Any]] = {
    "i": ([3, None, 1], 1, 3),
    "t": (["b", "a" * 70, None], "a" * 64, "b"),
    "top": (["z" * 70, "z" * 64 + "a"], "z" * 64, "z" * 63 + "{"),
    "d": ([Decimal("-1.50"), Decimal("2.25")], Decimal("-1.50"), Decimal("2.25")),
    "day": ([date(2020, 2, 29), date(1960, 1, 1)], -3653, 18321),
    "time": ([time(1, 2), time(0, 0, 1)], 1_000_000, 3_720_000_000),
    "bytes": ([b"\x80", b"\x01" * 70], b"\x01" * 64, b"\x80"),
    "long bytes": ([b"\x01\xff" + b"\xff" * 70], b"\x01" + b"\xff" * 63, b"\x02"),
    "at": ([datetime(2020, 1, 1, tzinfo=UTC)], 1577836800000000, 1577836800000000),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_are_those_of_the_footer(tmp_path: Path, name: str) -> None:
    values, least, greatest = BOUNDS[name]
    kind = pa.timestamp("us", "UTC") if name == "at" else pa.decimal128(5, 2) if name == "d" else pa.array(values).type
    kind = pa.int32() if name == "i" else kind
    column = pa.array(values, kind)
    columns = columns_of(pa.schema([(name, kind)]), (), {})
    pq.write_table(pa.table({name: column}), tmp_path / "file.parquet", row_group_size=2)
    footer = pq.read_metadata(tmp_path / "file.parquet")
    described = data_file("file:///x", 1, footer, columns.schema, columns.ids, None)
    actual: Any = columns.schema.find_type(100)
    assert from_bytes(actual, described.lower_bounds[100]) == least
    assert from_bytes(actual, described.upper_bounds[100]) == greatest
    assert described.null_counts == {100: column.null_count}
    assert described.value_counts == {100: len(values)}
    assert described.column_sizes == {
        100: sum(footer.row_group(group).column(0).total_compressed_size for group in range(footer.num_row_groups))
    }


def test_there_are_no_bounds_where_statistics_do_not_tell(tmp_path: Path) -> None:
    table = pa.table(
        {"f": [1.0, float("nan")], "n": pa.array([None, None], pa.int32()), "top": [chr(0x10FFFF) * 70] * 2}
    )
    columns = columns_of(table.schema, (), {})
    pq.write_table(table, tmp_path / "file.parquet")
    footer = pq.read_metadata(tmp_path / "file.parquet")
    described = data_file("file:///x", 1, footer, columns.schema, columns.ids, None)
    assert set(described.lower_bounds) == {columns.ids["top"]}
    assert described.upper_bounds == {}
    pq.write_table(table, tmp_path / "file.parquet", write_statistics=False)
    footer = pq.read_metadata(tmp_path / "file.parquet")
    described = data_file("file:///x", 1, footer, columns.schema, columns.ids, None)
    assert described.lower_bounds == {}
    assert described.null_counts == {}


def test_bounds_of_numbers_with_fractions_are_known_of_files_that_are_written(tmp_path: Path) -> None:
    fields = (*KEY_AND_VALUE, ("f", "double"), ("g", "float"), ("h", "double"))
    table = TableWriter(folder=tmp_path / "t", fields=fields).create()
    rows = [
        {"id": "a", "ts": 1, "f": -0.0, "g": 1.5, "h": float("nan")},
        {"id": "b", "ts": 1, "f": 0.0, "g": float("inf"), "h": 1.0},
        {"id": "c", "ts": 1},
    ]
    table.log_file(at(1), [table.data_block(at(1), rows)])
    table.commit(at(1))
    published = publish_table(
        Storage.open(str(table.folder)), Scratch.open(str(tmp_path / "x")), locations=Locations(), builds=1
    )
    shown = StaticTable.from_metadata(published.metadata_location)
    (task,) = shown.scan().plan_files()
    ids = {name: shown.schema().find_field(name).field_id for name in ("f", "g", "h")}
    assert task.file.nan_value_counts == {ids["f"]: 0, ids["g"]: 0, ids["h"]: 1}
    lower, upper = task.file.lower_bounds or {}, task.file.upper_bounds or {}
    assert (lower[ids["f"]], upper[ids["f"]]) == (struct.pack("<d", -0.0), struct.pack("<d", 0.0))
    assert (lower[ids["g"]], upper[ids["g"]]) == (struct.pack("<f", 1.5), struct.pack("<f", float("inf")))
    assert not {ids["h"]} & {*lower, *upper}
    assert shown.scan(row_filter="f = 0 and g >= 1.5").to_arrow().num_rows == 2
    assert shown.scan(row_filter="h is nan").to_arrow().num_rows == 1


def plain_table(folder: Path) -> TableWriter:
    table = TableWriter(folder=folder).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])
    table.commit(at(1))
    return table


def rewritten(table: TableWriter, scratch: Path) -> bool:
    """Whether a client reads a copy of the only base file."""
    (path,) = table.folder.glob("*.parquet")
    published = publish_table(
        Storage.open(str(table.folder)), Scratch.open(str(scratch)), locations=Locations(), builds=1
    )
    (task,) = StaticTable.from_metadata(published.metadata_location).scan().plan_files()
    return task.file.file_path != f"file://{path}"


def with_field_ids(stored: pa.Table) -> pa.Table:
    fields = [field.with_metadata({"PARQUET:field_id": "1"}) for field in stored.schema]
    return stored.cast(pa.schema(fields))


REASONS: dict[str, tuple[Any, dict[str, Any], bool]] = {
    "nothing": (lambda stored: stored, {}, False),
    "a wider column": (lambda stored: stored.set_column(6, "ts", stored["ts"].cast(pa.int32())), {}, False),
    "columns in another order": (lambda stored: stored.select(stored.column_names[::-1]), {}, False),
    "a column that the table does not have": (lambda stored: stored.append_column("gone", stored["ts"]), {}, False),
    "no such column yet": (lambda stored: stored.drop_columns(["value"]), {}, False),
    "another type": (lambda stored: stored.set_column(7, "value", pa.array([date(2020, 1, 1)])), {}, True),
    "bytes for text": (lambda stored: stored.set_column(7, "value", stored["value"].cast(pa.binary())), {}, True),
    "a name in another case": (lambda stored: stored.rename_columns([*stored.column_names[:-1], "VALUE"]), {}, True),
    "ids of its own": (with_field_ids, {}, True),
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_base_file_is_rewritten_where_clients_would_not_read_it_as_hudi_does(tmp_path: Path, reason: str) -> None:
    change, options, expected = REASONS[reason]
    table = plain_table(tmp_path / "table")
    (path,) = table.folder.glob("*.parquet")
    pq.write_table(change(pq.read_table(path)), path, **options)
    assert rewritten(table, tmp_path / "scratch") == expected


def test_times_of_96_bits_are_rewritten(tmp_path: Path) -> None:
    table = TableWriter(
        folder=tmp_path / "table",
        fields=(("id", "string"), ("ts", "long"), ("at", {"type": "long", "logicalType": "timestamp-micros"})),
    ).create()
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    path = table.base_file(at(1), [{"id": "a", "ts": 1, "at": moment}])
    table.commit(at(1))
    assert not rewritten(table, tmp_path / "scratch")
    pq.write_table(pq.read_table(path), path, use_deprecated_int96_timestamps=True)
    assert rewritten(table, tmp_path / "other")


GROUPS: dict[str, tuple[dict[bytes, bytes], bool]] = {
    "as in Iceberg": ({}, False),
    "other elements": ({b"element": b"array_e"}, False),
    "other lists": ({b"list": b"bag1"}, True),
    "other maps": ({b"key_value": b"map_entry"}, True),
    "other keys": ({b"key": b"kez"}, True),
    "other values": ({b"value": b"valuf"}, True),
}
"""Names of a file's footer, and those that take their place: DuckDB returns nulls for what has not Iceberg's names."""


@pytest.mark.parametrize("is_within", [False, True], ids=["at the top", "within"])
@pytest.mark.parametrize("groups", one_in(3, GROUPS))
def test_lists_and_maps_are_rewritten_where_their_groups_have_other_names(
    tmp_path: Path, groups: str, is_within: bool
) -> None:
    names, expected = GROUPS[groups]
    kind: Any = pa.map_(pa.string(), pa.list_(pa.int64()))
    value: Any = [("k", [1, 2])]
    if is_within:
        kind, value = pa.list_(pa.struct([("x", kind)])), [{"x": value}]
    table = TableWriter(folder=tmp_path / "table", fields=(("id", "string"), ("ts", "long"))).create()
    path = table.base_file(at(1), [{"id": "a", "ts": 1}])
    table.commit(at(1))
    stored = pq.read_table(path).append_column("gone", pa.array([value], kind))
    pq.write_table(stored, path, store_schema=False)
    rename_in_footer(path, names)
    assert pq.read_table(path).num_rows == 1
    assert rewritten(table, tmp_path / "scratch") == expected


POINT = {"type": "record", "name": "p", "fields": [{"name": "x", "type": ["null", "long"], "default": None}]}
X, BOTH = pa.struct([("x", pa.int64())]), pa.struct([("x", pa.int64()), ("X", pa.int64())])


@pytest.mark.parametrize(
    ("name", "kind", "value", "is_rewritten"),
    [
        ("other", pa.string(), "other", False),
        ("Value", pa.string(), "other", True),
        ("p", X, {"x": 1}, False),
        ("p", BOTH, {"x": 1, "X": 2}, True),
        ("dropped", BOTH, {"x": 1, "X": 2}, True),
        ("dropped", pa.list_(pa.map_(pa.string(), BOTH)), [[("k", {"x": 1, "X": 2})]], True),
    ],
)
def test_files_are_rewritten_where_another_column_would_be_found_regardless_of_case(
    tmp_path: Path, name: str, kind: Any, value: Any, is_rewritten: bool
) -> None:
    table = TableWriter(folder=tmp_path / "table", fields=(*KEY_AND_VALUE, ("p", POINT))).create()
    path = table.base_file(at(1), [{"id": "a", "ts": 1, "value": "v", "p": {"x": 1}}])
    stored = pq.read_table(path)
    stored = stored.drop_columns([name]) if name in stored.column_names else stored
    pq.write_table(stored.append_column(name, pa.array([value], kind)), path)
    table.commit(at(1))
    published = publish_table(
        Storage.open(table.folder), Scratch.open(tmp_path / "scratch"), locations=Locations(), builds=1
    )
    scan = StaticTable.from_metadata(published.metadata_location).scan()
    (task,) = scan.plan_files()
    assert (task.file.file_path != f"file://{path}") is is_rewritten
    assert differences(table.open().snapshot().to_table(), scan.to_arrow()) == []


@pytest.mark.parametrize("partition", ["a?b", "a#b"])
def test_paths_that_no_uri_can_hold_are_rewritten(tmp_path: Path, partition: str) -> None:
    table = TableWriter(
        folder=tmp_path / "table",
        fields=(("id", "string"), ("ts", "long"), ("part", "string")),
        partition_fields=("part",),
    ).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "part": partition}], partition=partition)
    table.commit(at(1))
    published = publish_table(
        Storage.open(table.folder), Scratch.open(tmp_path / "scratch"), locations=Locations(), builds=1
    )
    assert StaticTable.from_metadata(published.metadata_location).scan().to_arrow()["part"].to_pylist() == [partition]


@pytest.mark.parametrize("stored", ["x", "y"], ids=["that of the path", "another one"])
def test_a_partition_is_what_all_rows_of_a_file_have(tmp_path: Path, stored: str) -> None:
    """Up to Hudi 0.x, a snapshot takes partition columns from the files."""
    table = TableWriter(
        folder=tmp_path / "table",
        version=6,
        fields=(("id", "string"), ("ts", "long"), ("part", "string")),
        partition_fields=("part",),
    ).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "part": stored}], partition="x")
    table.commit(at(1))
    published = publish_table(
        Storage.open(str(table.folder)), Scratch.open(str(tmp_path / "scratch")), locations=Locations(), builds=1
    )
    iceberg = StaticTable.from_metadata(published.metadata_location)
    assert iceberg.scan().to_arrow().select(["part"]).to_pylist() == [{"part": stored}]
    (task,) = iceberg.scan(row_filter=f"part = '{stored}'").plan_files()
    assert len(task.file.partition) == (stored == "x")


@pytest.mark.parametrize(
    ("rules", "uri"),
    [
        ((), "file:///data/lake/t/f"),
        (("/data=local:///",), "local:///lake/t/f"),
        (("/data/lake=s3://bucket/lake/",), "s3://bucket/lake/t/f"),
        (("/data=local:///", "/data/lake=s3://lake"), "s3://lake/t/f"),
        (("/dat=s3://wrong", "/=local:///"), "local:///data/lake/t/f"),
    ],
)
def test_files_are_called_what_clients_call_them(rules: tuple[str, ...], uri: str) -> None:
    assert Locations.of(rules).uri(Storage.open("/data/lake/t"), "f") == uri


def test_what_is_no_rule_for_locations_is_refused() -> None:
    for text in ("x", "=s3://x", "/data=", "/data=/elsewhere"):
        with pytest.raises(QueryError, match="--locate"):
            Locations.of((text,))


def test_publishing_again_writes_what_has_changed(tmp_path: Path) -> None:
    table = plain_table(tmp_path / "table")
    folder = Scratch.open(str(tmp_path / "published"))

    def publish() -> Any:
        return publish_table(Storage.open(str(table.folder)), folder, locations=Locations(), builds=1)

    first, again = publish(), publish()
    assert first.metadata_location == again.metadata_location
    assert (first.slices_built, again.slices_built) == (1, 0)
    table.log_file(at(2), [table.data_block(at(2), [{"id": "b", "ts": 2, "value": "y"}])])
    table.commit(at(2))
    later = publish()
    assert folder.read("metadata/version-hint.text") == b"2"
    assert later.metadata_location.endswith("/metadata/v2.metadata.json")
    assert StaticTable.from_metadata(later.metadata_location).scan().to_arrow().num_rows == 2
    assert StaticTable.from_metadata(first.metadata_location).scan().to_arrow().num_rows == 1


def test_many_tables_publish_side_by_side(tmp_path: Path) -> None:
    cases = ("a_story_v9_120", "g_sor_mixed_120", "e_drop_part_cols_120")

    def rows_of(case: str) -> int:
        published = publish_table(
            Storage.open(str(golden_table(case))),
            Scratch.open(str(tmp_path / case)),
            locations=Locations(),
            builds=2,
        )
        rows: int = StaticTable.from_metadata(published.metadata_location).scan().to_arrow().num_rows
        return rows

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(rows_of, cases)) == [rows_of(case) for case in cases]


def test_columns_have_the_same_ids_while_a_table_holds_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "table"
    shutil.copytree(golden_table("g_sor_mixed_120"), table)

    def field_ids(scratch: str) -> dict[str, int]:
        folder = Scratch.open(str(tmp_path / scratch))
        published = publish_table(Storage.open(str(table)), folder, locations=Locations(), builds=1)
        fields = StaticTable.from_metadata(published.metadata_location).schema().fields
        return {field.name: field.field_id for field in fields}

    with_files = field_ids("with-files")
    for partition in table.iterdir():
        if not partition.name.startswith("."):
            shutil.rmtree(partition)
    # The metadata table still has the files.
    properties = table / ".hoodie" / "hoodie.properties"
    lines = properties.read_text().splitlines(keepends=True)
    properties.write_text("".join(line for line in lines if not line.startswith("hoodie.table.metadata.partitions=")))
    # As if another commit had replaced them.
    monkeypatch.setattr(CommittedFiles, "by_folder", {})
    assert HudiTable.open(str(table)).splits() == []
    assert field_ids("without-files") == with_files


@pytest.mark.parametrize("case", ["v_vector_parquet_120", "v_vector_mor_120"])
def test_vectors_are_lists_in_files_that_are_written_anew(tmp_path: Path, case: str) -> None:
    folder = Scratch.open(str(tmp_path / "published"))
    published = publish_table(Storage.open(str(golden_table(case))), folder, locations=Locations(), builds=1)
    table = StaticTable.from_metadata(published.metadata_location)
    kinds = {str(field.field_type) for field in table.schema().fields}
    assert kinds >= {"list<float>", "list<double>", "list<int>"}
    assert all(task.file.file_path.startswith(f"file://{tmp_path}") for task in table.scan().plan_files())
    assert differences(answer_of(QUERIES[case, 0]), table.scan().to_arrow()) == []
