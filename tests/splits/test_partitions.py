"""Partition columns from paths, and the pruning of folders before they are listed."""

import datetime as dt
import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, cast

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge import HudiTable, tools
from hudi_bridge.config import QueryType, TableConfig, parse_table_config
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.connectors.polars import scan_dataset
from hudi_bridge.errors import CorruptTableError
from hudi_bridge.splits import partitions
from hudi_bridge.splits.partitions import (
    certain_values,
    columns_from_path,
    folders_that_may_pass,
    list_partitions,
    matching_partitions,
    partition_values,
)
from hudi_bridge.splits.query_schema import QuerySchema, columns_of_query
from hudi_bridge.storage.storage import FileInfo, Storage
from hudi_bridge.timeline.timeline import TableState, Timeline
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.strength import examples, one_in
from tests.support.table_writer import KEY_AND_VALUE, TableWriter, at, sorted_column
from tests.timeline.timeline_files import record_type

NULL = "__HIVE_DEFAULT_PARTITION__"
TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "text": pa.string(),
    "number": pa.int32(),
    "day": pa.date32(),
    "x": pa.float64(),
}
SCHEMA = pa.schema(TYPES)


def config(fields: str, version: int = 9, **stated: str) -> TableConfig:
    """A table's settings; keyword names have ``__`` for a dot."""
    properties = {
        "hoodie.table.name": "trips",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": str(version),
        "hoodie.table.partition.fields": fields,
    }
    properties |= {key.replace("__", "."): value for key, value in stated.items()}
    return parse_table_config(properties, "hoodie.properties", "/trips")


HIVE = {"hoodie__datasource__write__hive_style_partitioning": "true"}
SLASHED = {"hoodie__datasource__write__slash__separated__date__partitioning": "true"}
ENCODED = {"hoodie__datasource__write__partitionpath__urlencode": "true"}
CUSTOM = {"hoodie__table__keygenerator__type": "CUSTOM"}
DROPPED = {"hoodie__datasource__write__drop__partition__columns": "true"}
BY_1X = {"hoodie__record__merge__mode": "EVENT_TIME_ORDERING"}


def values(path: str, table: TableConfig) -> dict[str, Any] | None:
    path_columns = columns_from_path(table, QueryType.SNAPSHOT, SCHEMA, has_ids=False)
    actual = partition_values(path, table, SCHEMA, path_columns)
    return None if actual is None else {name: value.as_py() for name, value in actual}


@pytest.mark.parametrize(
    ("path", "table", "expected"),
    [
        ("a", config("text"), {"text": "a"}),
        ("text=a", config("text"), {"text": "a"}),
        ("x=y", config("text"), {"text": "y"}),
        ("x=y", config("text", 6), {"text": "x=y"}),
        ("text=a", config("text", 6, **HIVE), {"text": "a"}),
        ("a%2Fb", config("text"), {"text": "a/b"}),
        ("a%2Fb", config("text", 6, **ENCODED), {"text": "a/b"}),
        ("a%2Fb", config("text", 6), {"text": "a%2Fb"}),
        ("S%C3%A3o", config("text"), {"text": "S\xc3\xa3o"}),
        ("text=100%ff", config("text", 9, **HIVE), {"text": "100\xff"}),
        ("x%%41%zz%4", config("text"), {"text": "x%A%zz%4"}),
        ("s\xe3o%2Fx%01%25", config("text", 9, **ENCODED), {"text": "s\xe3o/x\x01%"}),
        ("s\xe3o%2Fx%01%25", config("text", 6, **ENCODED), {"text": "s\xe3o/x\x01%"}),
        ("a%20b/%41", config("text"), {"text": "a%20b/%41"}),
        ("text=a%20b/%41", config("text", 9, **HIVE), {"text": "a%20b/%41"}),
        ("a%41/7", config("text,number"), {"text": "aA", "number": 7}),
        ("o.a=x/7", config("o.a,number", 9, **HIVE), {"number": 7}),
        (f"{NULL}/7", config("o.a,number", 6), {"number": 7}),
        ("x/y", config("o.a"), {}),
        ("2021/01/02", config("text"), {"text": "2021/01/02"}),
        ("text=2021/01/02", config("text", 9, **HIVE), {"text": "2021/01/02"}),
        ("2021/01/02", config("text", 6), {"text": "2021/01/02"}),
        ("2021/01/02", config("text", 9, **SLASHED), {"text": "2021-01-02"}),
        ("text=2021/01/02", config("text", 9, **SLASHED), {"text": "2021/01/02"}),
        ("2021/01/02", config("day", 9, **SLASHED), {"day": dt.date(2021, 1, 2)}),
        ("2021/01/02", config("text", 6, **SLASHED), None),
        ("a b/c%41", config("text", 9, **SLASHED, **ENCODED), {"text": "a b-c%41"}),
        ("x=y/z", config("text", 9, **SLASHED), {"text": "x=y-z"}),
        ("x=y", config("text", 9, **SLASHED), {"text": "y"}),
        ("%41", config("text", 9, **SLASHED), {"text": "A"}),
        (NULL, config("text", 9, **SLASHED), {"text": None}),
        ("5", config("number", 9, **SLASHED), {"number": 5}),
        ("a/7", config("text,number", 9, **SLASHED), {"text": "a", "number": 7}),
        (NULL, config("text"), {"text": None}),
        (NULL, config("text", 6), None),
        ("7", config("number"), {"number": 7}),
        ("seven", config("number"), None),
        ("2021-01-02", config("day"), {"day": dt.date(2021, 1, 2)}),
        ("2.50", config("x"), {"x": 2.5}),
        ("2.50", config("x", 6), None),
        ("a/7", config("text,number"), {"text": "a", "number": 7}),
        ("text=a/number=7", config("text,number", 9, **HIVE), {"text": "a", "number": 7}),
        ("a/b/7", config("text,number"), None),
        ("", config(""), {}),
        ("2021010203", config("text:TIMESTAMP"), {}),
        ("x=a/20210102", config("text:SIMPLE,number:TIMESTAMP", 9, **CUSTOM), {"text": "a"}),
        ("20210102/7", config("day:TIMESTAMP,number:SIMPLE", 9, **CUSTOM), {"number": 7}),
        ("x=a/20210102", config("text,number", 6, **CUSTOM), {}),
        ("a/20210102", config("text,number", 6, **CUSTOM, **BY_1X), {}),
        ("a/7", config("text,number", 9, **CUSTOM), {}),
        ("a/7", config("text,number", hoodie__table__ordering__fields="x,number"), {"text": "a", "number": 7}),
    ],
)
def test_paths_tell_values(path: str, table: TableConfig, expected: dict[str, Any] | None) -> None:
    assert values(path, table) == expected


@pytest.mark.parametrize(
    ("table", "snapshot", "read_optimized"),
    [
        (config("text"), ("text",), ("text",)),
        (config("text", 6), (), ("text",)),
        (config("text", 6, **DROPPED), ("text",), ("text",)),
        (config("text:TIMESTAMP"), (), ()),
        (config("text:TIMESTAMP", 9, **DROPPED), ("text",), ("text",)),
        (config("text:SIMPLE,number:TIMESTAMP", 9, **CUSTOM), ("text",), ("text",)),
        (config("text,number", 9, **CUSTOM), (), ()),
        (config("text,number", 6, **CUSTOM, **BY_1X), (), ()),
        (config("text,number", 6, **CUSTOM), (), ("text", "number")),
        (config("text,number", hoodie__table__ordering__fields="x,number"), ("text",), ("text",)),
        (config("text,number", 6, hoodie__table__precombine__field="number", **BY_1X), ("text",), ("text",)),
        (config("text,number", 6, hoodie__table__precombine__field="number"), (), ("text", "number")),
        (
            config("text:TIMESTAMP,number:SIMPLE", 9, hoodie__table__ordering__fields="text,number", **CUSTOM),
            ("number",),
            ("number",),
        ),
        (config("text", 6, hoodie__table__keygenerator__type="TIMESTAMP"), (), ("text",)),
        (config("o.a,text"), ("text",), ("text",)),
        (config("o.a,text", 6), (), ("text",)),
        (config(""), (), ()),
    ],
)
def test_columns_that_are_read_from_the_path(
    table: TableConfig, snapshot: tuple[str, ...], read_optimized: tuple[str, ...]
) -> None:
    assert columns_from_path(table, QueryType.SNAPSHOT, SCHEMA, has_ids=False) == snapshot
    assert columns_from_path(table, QueryType.READ_OPTIMIZED, SCHEMA, has_ids=False) == read_optimized


@pytest.mark.parametrize("stated", [{}, {"hoodie__table__keygenerator__type": "TIMESTAMP"}])
def test_queries_of_0x_that_read_base_files_alone_read_the_path_unless_columns_have_ids(stated: dict[str, str]) -> None:
    table = config("text", 6, hoodie__table__type="COPY_ON_WRITE", **stated)
    for query_type in QueryType:
        expected = ("text",) if query_type in (QueryType.SNAPSHOT, QueryType.READ_OPTIMIZED) else ()
        assert columns_from_path(table, query_type, SCHEMA, has_ids=False) == expected
        assert columns_from_path(table, query_type, SCHEMA, has_ids=True) == ()


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(
    ("version", "stated", "from_path", "formatted"),
    [
        (6, BY_1X, (), pa.int32()),
        (6, {**BY_1X, "hoodie__table__format": "native"}, ("text",), pa.string()),
        (8, BY_1X, ("text",), pa.string()),
        (6, {}, (), pa.int32()),
    ],
)
def test_ranges_have_partition_columns_of_the_files_where_a_release_reads_them_as_0x_does(
    kind: str, version: int, stated: dict[str, str], from_path: tuple[str, ...], formatted: pa.DataType
) -> None:
    # What Hudi 1.0.2 returns of tables of both types and of version 6.
    table = config("text", version, hoodie__table__type=kind, **stated)
    assert columns_from_path(table, QueryType.INCREMENTAL, SCHEMA, has_ids=False) == from_path
    by_time = config(
        "number", version, hoodie__table__type=kind, hoodie__table__keygenerator__type="TIMESTAMP", **stated
    )
    columns = columns_of_query(QuerySchema(arrow=SCHEMA), by_time, QueryType.INCREMENTAL)
    assert columns.schema.field("number").type == formatted
    assert columns.from_path == ()


class Folders:
    """Counts what is listed of folders that hold nothing but partitions."""

    def __init__(self, *partitions: str) -> None:
        self.listed: list[str] = []
        self._children: dict[str, dict[str, None]] = {}
        for path in partitions:
            levels = path.split("/")
            for depth in range(len(levels)):
                self._children.setdefault("/".join(levels[:depth]), {})["/".join(levels[: depth + 1])] = None
            self._children[path] = {}

    def entries(self, path: str) -> tuple[FileInfo, ...]:
        self.listed.append(path)
        folders = tuple(FileInfo(path=child, size_bytes=0, is_dir=True) for child in self._children[path])
        if folders:
            return (*folders, FileInfo(path=".hoodie", size_bytes=0, is_dir=True))
        return (FileInfo(path=f"{path}/.hoodie_partition_metadata", size_bytes=1, is_dir=False),)

    def partitions(
        self, table: TableConfig, row_filter: pc.Expression | None = None, *, promised: bool = True
    ) -> list[str]:
        """The partitions that are left; rows are ``promised`` to have the values of their path."""
        table = replace(table, paths_tell_values=promised)
        state = TableState(storage=Storage.open("/trips"), config=table, timeline=Timeline(instants=()))
        path_columns = columns_from_path(table, QueryType.SNAPSHOT, SCHEMA, has_ids=False)
        return sorted(list_partitions(state, SCHEMA, path_columns, row_filter, self.entries))


def test_all_partitions_are_found_and_each_folder_is_listed_once() -> None:
    folders = Folders("a/1", "a/2", "b/1")
    assert folders.partitions(config("text,number")) == ["a/1", "a/2", "b/1"]
    assert sorted(folders.listed) == ["", "a", "a/1", "a/2", "b", "b/1"]


@pytest.mark.parametrize("has_marker", [True, False])
def test_a_table_without_partition_fields_is_its_folder_alone(tmp_path: Path, has_marker: bool) -> None:
    writer = TableWriter(folder=tmp_path / "t").create()
    base = writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])
    writer.commit(at(1), wrote=[base])
    writer.base_file(at(1), [{"id": "b", "ts": 1, "value": "y"}], partition="below", file_id="f2-0")
    if not has_marker:
        (writer.folder / ".hoodie_partition_metadata").unlink()
    table = HudiTable.open(writer.folder)
    assert table.to_arrow(["id"]).to_pylist() == [{"id": "a"}]
    assert table.read_optimized().to_table(["id"]).to_pylist() == [{"id": "a"}]


@pytest.mark.parametrize("version", [6, 9])
def test_folders_that_a_filter_rules_out_are_not_listed(version: int) -> None:
    folders = Folders("a/1", "a/2", "b/1", "c/1")
    row_filter = (pc.field("text") == "a") & (pc.field("id") == "k")
    assert folders.partitions(config("text,number", version), row_filter) == ["a/1", "a/2"]
    assert not {"b", "b/1", "c", "c/1"}.intersection(folders.listed)


def test_a_path_rules_out_no_rows_of_columns_that_are_read_from_the_files() -> None:
    row_filter = (pc.field("text") == "a") & (pc.field("number") == 1)
    every = ["a/1", "b/1"]
    assert Folders(*every).partitions(config("text,number", 6), row_filter, promised=False) == every
    assert Folders(*every).partitions(config("text,number", 6), row_filter) == ["a/1"]
    assert Folders(*every).partitions(config("text,number"), row_filter, promised=False) == ["a/1"]


@pytest.mark.parametrize("table", [config("number"), config("number", 6), config("day,number")])
def test_numbers_and_dates_are_pruned_before_they_are_listed(table: TableConfig) -> None:
    prefix = "2021-01-02/" if len(table.partition_fields) > 1 else ""
    folders = Folders(f"{prefix}1", f"{prefix}2", f"{prefix}3")
    assert folders.partitions(table, pc.field("number") > 2) == [f"{prefix}3"]
    assert {f"{prefix}1", f"{prefix}2"}.isdisjoint(folders.listed)


def test_encoded_values_are_pruned_before_they_are_listed() -> None:
    folders = Folders("a%2Fb/1", "c/1", "c/2")
    row_filter = (pc.field("text") == "c") & (pc.field("number") == 2)
    assert folders.partitions(config("text,number", 9, **ENCODED), row_filter) == ["c/2"]
    assert {"a%2Fb/1", "c/1"}.isdisjoint(folders.listed)


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("style", [{}, HIVE], ids=["plain", "hive"])
def test_values_with_slashes_are_not_lost(version: int, style: Mapping[str, str]) -> None:
    prefix = "text=" if style else ""
    names = [f"{prefix}{path}" for path in ("2021/01/01", "2021/01/02", "2022/01/01")]
    table = config("text", version, **style)
    assert Folders(*names).partitions(table, pc.field("text") == "2021/01/02") == [names[1]]
    assert Folders(*names).partitions(table, pc.field("text") >= "2021/01/02") == names[1:]
    assert Folders(*names).partitions(table, pc.field("text").isin(["2022/01/01"])) == names[2:]
    folders = Folders(*names)
    folders.partitions(table, pc.field("text") == "2022/01/01")
    assert f"{prefix}2021" not in folders.listed


@pytest.mark.parametrize("style", [{}, ENCODED], ids=["plain", "encoded"])
def test_slash_separated_dates_are_pruned_before_they_are_listed(style: Mapping[str, str]) -> None:
    names = ["2021/01/01", "2021/01/02", "2021/02/01", "2022/01/01", "x"]
    table = config("text", 9, **SLASHED, **style)
    text: Any = pc.field("text")
    for row_filter, expected, ruled_out in (
        (text == "2021-01-02", names[1:2], {"2021/02", "2022"}),
        (text >= "2021-02", names[2:], {"2021/01"}),
        (text.isin(["2022-01-01"]), names[3:4], {"2021"}),
        (text == "2021/01/02", [], {"2021/01"}),
        (text == "x", ["x"], {"2021", "2022"}),
    ):
        folders = Folders(*names)
        assert folders.partitions(table, row_filter) == expected
        assert ruled_out.isdisjoint(folders.listed)
        with in_parts_of(2):
            assert Folders(*names).partitions(table, row_filter) == expected


@pytest.mark.parametrize("style", [{}, ENCODED], ids=["plain", "encoded"])
def test_slashes_and_hyphens_of_one_of_several_columns_are_not_lost(style: Mapping[str, str]) -> None:
    names = ["2021/01/01/7", "a/b/7", "b/7"]
    table = config("text,number", 9, **SLASHED, **style)
    for value, name in (("2021-01-01", names[0]), ("a/b", names[1]), ("b", names[2])):
        row_filter = (pc.field("text") == value) & (pc.field("number") == 7)
        assert name in Folders(*names).partitions(table, row_filter)
    folders = Folders(*names)
    folders.partitions(table, pc.field("text") == "b")
    assert {"2021", "a"}.isdisjoint(folders.listed)


def test_slash_separated_dates_of_their_own_type_are_not_lost() -> None:
    names = ["2021/01/01", "2021/01/02"]
    row_filter = pc.field("day") == dt.date(2021, 1, 2)
    assert Folders(*names).partitions(config("day", 9, **SLASHED), row_filter) == names[1:]
    exponents = ["1e/6", "1e/5"]
    assert Folders(*exponents).partitions(config("x", 9, **SLASHED), pc.field("x") == 1e-5) == exponents[1:]


@pytest.mark.parametrize("version", [6, 9])
def test_values_with_an_equals_sign_and_slashes_are_not_lost(version: int) -> None:
    names = ["k=v/1", "k=v/2", "k=w/1"]
    assert Folders(*names).partitions(config("text", version), pc.field("text") == "k=v/2") == ["k=v/2"]
    several = [f"{name}/7" for name in names]
    row_filter = (pc.field("text") == "k=v/2") & (pc.field("number") == 7)
    assert "k=v/2/7" in Folders(*several).partitions(config("text,number", version), row_filter)


def test_values_with_escapes_and_slashes_are_not_lost() -> None:
    names = ["a%41/x", "a%41/y", "b%C3"]
    assert Folders(*names).partitions(config("text"), pc.field("text") == "a%41/x") == names[:1]
    assert Folders(*names).partitions(config("text"), pc.field("text") == "b\xc3") == names[2:]
    assert Folders(*names).partitions(config("text"), pc.field("text") == "aA/x") == []


def test_a_null_partition_is_kept_where_its_rows_may_pass() -> None:
    for version in (6, 9):
        table = config("text", version)
        assert NULL in Folders("a", NULL).partitions(table, pc.field("text").is_null())
        assert Folders("a", "b").partitions(table, pc.field("text").is_null()) == []
    assert Folders("a", NULL).partitions(config("text"), pc.field("text") == "a") == ["a"]


PIECES = st.sampled_from(["a", "b", "/", "=", "%", " ", "-", ".", "%C3", "%41"])
LEVEL = (
    st.lists(PIECES, min_size=1, max_size=5)
    .map("".join)
    .filter(lambda text: all(part.strip().strip(".") for part in text.split("/")))
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "text": LEVEL,
    "number": st.integers(-3, 3),
    "day": st.dates(dt.date(2021, 1, 1), dt.date(2021, 1, 4)),
}
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.ge)


@st.composite
def pruning_cases(draw: st.DrawFn) -> tuple[tuple[str, ...], dict[str, str], list[tuple[Any, ...]], pc.Expression]:
    fields = tuple(draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=2, unique=True)))
    style = draw(st.sampled_from([{}, HIVE, ENCODED, HIVE | ENCODED, SLASHED, SLASHED | ENCODED]))
    rows = draw(st.lists(st.tuples(*(VALUES[name] for name in fields)), min_size=1, max_size=5, unique=True))
    pieces = []
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(fields))
        value = draw(st.one_of(st.sampled_from([row[fields.index(name)] for row in rows]), VALUES[name]))
        pieces.append(draw(st.sampled_from(COMPARISONS))(pc.field(name), value))
    combined = reduce(draw(st.sampled_from([operator.and_, operator.or_])), pieces)
    return fields, dict(style), rows, ~combined if draw(st.booleans()) else combined


@pytest.mark.parametrize("version", [6, 9])
@settings(max_examples=examples(60), deadline=None)
@given(case=pruning_cases())
def test_pruning_never_loses_a_row(
    version: int, case: tuple[tuple[str, ...], dict[str, str], list[tuple[Any, ...]], pc.Expression]
) -> None:
    fields, style, rows, row_filter = case
    table = config(",".join(fields), version, **style)
    paths: dict[str, tuple[Any, ...]] = {}
    for row in rows:
        paths["/".join(level(table, name, value) for name, value in zip(fields, row, strict=True))] = row
    if any(other.startswith(f"{path}/") for path in paths for other in paths):
        return
    # What version 9 reads from the path is what the path says, even where a value looks like name=value.
    read = {
        path: tuple((values(path, table) or dict(zip(fields, row, strict=True))).values())
        for path, row in paths.items()
    }
    schema = pa.schema([SCHEMA.field(name) for name in fields])
    passing = {
        path
        for path, row in read.items()
        if pa.Table.from_pylist([dict(zip(fields, row, strict=True))], schema).filter(row_filter).num_rows
    }
    actual = Folders(*paths).partitions(table, row_filter)
    assert passing.issubset(actual)
    with in_parts_of(len(rows) % 3 + 1):
        assert Folders(*paths).partitions(table, row_filter) == actual


@contextmanager
def in_parts_of(paths: int) -> Iterator[None]:
    """A context in which a list of paths is long, and its parts are short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitions, "_MOST_SINGLY", 0)
        patch.setattr(partitions, "_PATHS_PER_PART", paths)
        yield


@pytest.mark.parametrize("fields", ["text", "number", "day,text", "x,number"])
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_partitions_of_a_long_list_are_those_that_pass_one_by_one(fields: str, data: st.DataObject) -> None:
    table, storage = config(fields), Storage.open("/trips")
    levels = {
        "text": st.sampled_from(["a", "b", "c", "d", NULL]),
        "number": st.sampled_from(["1", "2", "10", "seven", NULL]),
        "day": st.sampled_from(["2021-01-01", "2021-01-02", NULL]),
        "x": st.sampled_from(["0.5", "-0.0", "nan", NULL]),
    }
    row = st.tuples(*(levels[name] for name in table.partition_fields)).map("/".join)
    paths = sorted(data.draw(st.lists(row, min_size=1, max_size=9, unique=True)))
    certain = {path: certain_values(path, table, SCHEMA, table.partition_fields) for path in paths}
    values: dict[str, list[Any]] = {
        "text": ["b", "c"],
        "number": [1, 2, 7],
        "day": [dt.date(2021, 1, 1)],
        "x": [0.0, 0.5],
        "id": ["k"],
    }
    name = data.draw(st.sampled_from([*table.partition_fields, "id"]))
    value = data.draw(st.sampled_from(values[name]))
    column: Any = pc.field(name)
    conditions = [compare(column, value) for compare in COMPARISONS]
    conditions += [
        column.is_null(),
        column.isin([value]),
        ~(column == value),
        column.is_valid() | (pc.field("id") == "k"),
    ]
    row_filter = data.draw(st.sampled_from(conditions))
    one_by_one = matching_partitions(storage, SCHEMA, row_filter, certain)
    with in_parts_of(data.draw(st.integers(1, 4))):
        assert matching_partitions(storage, SCHEMA, row_filter, certain) == one_by_one


class SchemaOfMany:
    """A schema that counts how often the names of all its columns are listed."""

    def __init__(self) -> None:
        self.listed = 0

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        self.listed += 1
        return SCHEMA.names

    def __getattr__(self, name: str) -> Any:
        return getattr(SCHEMA, name)


@pytest.mark.parametrize("fields", ["text", "number", "text,number"])
def test_columns_and_settings_are_not_gone_through_for_each_partition(
    monkeypatch: pytest.MonkeyPatch, fields: str
) -> None:
    table, schema, made = config(fields), SchemaOfMany(), 0
    build = TableConfig.__init__

    def counted(*arguments: Any, **settings: Any) -> None:
        nonlocal made
        made += 1
        build(*arguments, **settings)

    monkeypatch.setattr(TableConfig, "__init__", counted)
    monkeypatch.setattr(partitions, "paths_that_may_pass", lambda *given: list(given[-1]))
    work = []
    for folders in (1, 50):
        schema.listed = made = 0
        paths = [str(number) for number in range(folders)]
        condition, given = pc.field("text") == "a", cast("pa.Schema", schema)
        actual = folders_that_may_pass(Storage.open("/trips"), condition, given, table, table.partition_fields, paths)
        assert actual == paths
        for path in paths:
            partition_values(f"{path}/1" if "," in fields else path, table, given, table.partition_fields)
        work.append((schema.listed, made))
    assert work[0] == work[1]


def test_a_range_of_folders_ends_after_all_that_continue_them() -> None:
    """A hyphen comes before a slash: ``a-b`` is between ``a`` and ``a/z``."""
    names = ["a-b", "a/z", "b"]
    with in_parts_of(2):
        assert Folders(*names).partitions(config("text"), pc.field("text") == "a/z") == ["a/z"]


def level(table: TableConfig, name: str, value: Any) -> str:
    text = str(value)
    if table.url_encode_partitions:
        text = text.replace("%", "%25").replace("/", "%2F").replace("=", "%3D")
    if table.slash_separated_dates and len(table.partition_fields) == 1:
        text = "/".join(part for part in text.replace("-", "/").split("/") if part.strip(" .")) or "_"
    return f"{name}={text}" if table.hive_style_partitioning else text


def partitioned(folder: Path, fields: str, rows: Mapping[str, Mapping[str, Any]], **changes: Any) -> TableWriter:
    """A table with one row in each partition path."""
    types = {"text": "string", "number": "int", "other": "string"}
    names = tuple(fields.split(","))
    table = TableWriter(
        folder=folder,
        fields=KEY_AND_VALUE + tuple((name, types[name]) for name in names),
        partition_fields=names,
        **changes,
    ).create()
    for number, (path, row) in enumerate(rows.items()):
        complete = {"id": f"k{number}", "ts": 1, "value": path} | dict(row)
        table.base_file(at(1), [complete], partition=path, file_id=f"f{number}-0")
    table.commit(at(1))
    return table


def test_only_the_folders_of_wanted_partitions_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {f"{letter}/{number}": {"text": letter, "number": number} for letter in "ab" for number in (1, 2)}
    table = partitioned(tmp_path, "text,number", rows).open()
    listed: list[str] = []
    list_directory = Storage.list_directory

    def counted(storage: Storage, path: str, *, must_exist: bool = False) -> tuple[FileInfo, ...]:
        listed.append(path)
        return list_directory(storage, path, must_exist=must_exist)

    monkeypatch.setattr(Storage, "list_directory", counted)
    actual = table.snapshot().to_table(columns=["value"], filter=pc.field("text") == "b")
    assert sorted_column(actual, "value") == ["b/1", "b/2"]
    assert not [path for path in listed if path.startswith("a")]


def test_a_slash_in_one_of_several_fields_leaves_the_columns_to_the_files(tmp_path: Path) -> None:
    rows = {
        "us/2021/01/01": {"other": "us", "text": "2021/01/01"},
        "us/2021/01/02": {"other": "us", "text": "2021/01/02"},
    }
    dataset = partitioned(tmp_path, "other,text", rows).open().snapshot()
    assert dataset.to_table(filter=pc.field("text") == "2021/01/02").column("value").to_pylist() == ["us/2021/01/02"]
    assert sorted_column(dataset.to_table(), "text") == ["2021/01/01", "2021/01/02"]


def test_dropped_columns_come_from_the_path(tmp_path: Path) -> None:
    option = {"hoodie.datasource.write.drop.partition.columns": "true"}
    for version in (6, 9):
        folder = tmp_path / str(version)
        table = TableWriter(folder=folder, version=version, partition_fields=("text",), options=option).create()
        table.base_file(at(1), [{"id": "k", "ts": 1, "value": "v"}], partition="x%2Fy")
        table.commit(at(1))
        rows = table.open().snapshot().to_table(columns=["text", "id"])
        assert rows.to_pylist() == [{"text": "x/y", "id": "k"}]


def test_snapshots_of_copy_on_write_of_0x_have_the_values_of_the_path(tmp_path: Path) -> None:
    day, then = "2023/11/14", 1_700_000_000_000
    options = {
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    }
    fields = (*KEY_AND_VALUE, ("part", "long"))
    table = TableWriter(folder=tmp_path, version=6, fields=fields, partition_fields=("part",), options=options).create()
    for number, (path, part) in enumerate({day: then, "2024/03/09": 1_710_000_000_000}.items(), start=1):
        row = {"id": path, "ts": 1, "value": "v", "part": part}
        written = table.base_file(at(number), [row], partition=path, file_id=f"f{number}-0")
        table.commit(at(number), action="commit", wrote=[written])
    opened = table.open()
    for dataset in (opened.snapshot(), opened.snapshot(at(2)), opened.read_optimized()):
        assert dataset.schema.field("part").type == pa.string()
        assert sorted_column(dataset.to_table(), "part") == [day, "2024/03/09"]
        assert sorted_column(dataset.to_table(filter=pc.field("part") == day), "id") == [day]
        frame = scan_dataset(dataset)
        assert frame.filter(pl.col("part") == day).collect()["id"].to_list() == [day]
    with duckdb.connect() as connection:
        view = attach(connection, opened, "rows").name
        assert connection.sql(f"SELECT id, part FROM {view} WHERE part = '{day}'").fetchall() == [(day, day)]
    (looked_up,) = opened.get([day]).to_pylist()
    assert looked_up["part"] == day
    (difference,) = tools.diff(opened, at(1), at(2)).to_table().to_pylist()
    assert difference["after"]["part"] == "2024/03/09"
    # Images and rows of ranges have the values of the files.
    assert sorted_column(opened.incremental(at(1)).to_table(), "part") == [1_710_000_000_000]
    (change,) = opened.changes(at(1)).to_table().to_pylist()
    assert change["after"]["part"] == 1_710_000_000_000


def test_a_path_that_is_no_value_of_a_dropped_column_is_an_error(tmp_path: Path) -> None:
    option = {"hoodie.datasource.write.drop.partition.columns": "true"}
    table = TableWriter(folder=tmp_path, partition_fields=("text", "number"), options=option).create()
    table.base_file(at(1), [{"id": "k", "ts": 1, "value": "v"}], partition="a/b/c")
    table.commit(at(1))
    with pytest.raises(CorruptTableError, match="a/b/c"):
        table.open().splits()


@pytest.mark.parametrize("version", [6, 9])
def test_folders_whose_names_begin_with_a_dot_are_partitions(tmp_path: Path, version: int) -> None:
    paths = (".com", "a/.hoodie", "b/.net/c", ".hoodie_x", "org")
    rows = {path: {"text": path} for path in paths}
    writer = partitioned(tmp_path, "text", rows, version=version)
    # The metadata of another table.
    writer.base_file(at(1), [{"id": "k", "ts": 1, "value": "v", "text": "t"}], partition="b/.hoodie/metadata/files")
    assert sorted_column(writer.open().snapshot().to_table(), "value") == sorted(paths)
    filtered = writer.open().snapshot().to_table(filter=pc.field("text") == ".com")
    assert sorted_column(filtered, "value") == [".com"]


def test_only_the_folder_of_the_table_is_a_partition_with_others_in_it(tmp_path: Path) -> None:
    """As in Hudi's listing, which reads no metadata table."""
    rows = {path: {"text": path} for path in ("a", "a/b", "c", "d/e")}
    writer = partitioned(tmp_path, "text", rows)
    assert sorted_column(writer.open().snapshot().to_table(), "value") == ["a", "c", "d/e"]
    writer.base_file(at(1), [{"id": "k9", "ts": 1, "value": "root", "text": ""}], file_id="f9-0")
    assert sorted_column(writer.open().snapshot().to_table(), "value") == ["a", "c", "d/e", "root"]


def test_folders_in_a_table_without_partitions_are_not_listed(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    writer.base_file(at(1), [{"id": "k", "ts": 1, "value": "v"}])
    writer.commit(at(1))
    (tmp_path / "notes").mkdir()
    listed: list[str] = []

    def entries(path: str) -> tuple[FileInfo, ...]:
        listed.append(path)
        return Storage.open(str(tmp_path)).list_directory(path)

    state = TableState(storage=Storage.open(str(tmp_path)), config=config(""), timeline=Timeline(instants=()))
    assert (list_partitions(state, SCHEMA, (), None, entries), listed) == ([""], [""])


@pytest.mark.parametrize("version", [6, 9])
def test_a_partition_may_have_the_name_of_a_data_file(tmp_path: Path, version: int) -> None:
    paths = ("orders_eu_20240101.csv", "x/.f1-0_20240101.log.1_0-1-1", "x/y")
    writer = partitioned(tmp_path, "text", {path: {"text": path} for path in paths}, version=version)
    assert sorted_column(writer.open().snapshot().to_table(), "value") == sorted(paths)
    # Also where the folder of the table has become a partition.
    writer.partition("")
    assert sorted_column(writer.open().snapshot().to_table(), "value") == sorted(paths)


@pytest.mark.parametrize("version", [6, 9])
def test_a_partition_field_within_a_struct_is_read_from_the_files(tmp_path: Path, version: int) -> None:
    fields = (*KEY_AND_VALUE, ("o", record_type("o", {"a": ["null", "string"]})[1]))
    writer = TableWriter(folder=tmp_path, version=version, fields=fields, partition_fields=("o.a", "value")).create()
    paths = (f"{NULL}/v", "x%41/v", "x/w")

    def row(path: str, ts: int) -> Mapping[str, Any]:
        first, _, second = path.partition("/")
        return {"id": path, "ts": ts, "value": second, "o": {"a": None if first == NULL else first}}

    for number, path in enumerate(paths):
        writer.base_file(at(1), [row(path, 1)], partition=path, file_id=f"f{number}-0")
    writer.commit(at(1))
    block = writer.data_block(at(2), [row("x/w", 2)], partition="x/w", file_id="f2-0")
    writer.log_file(at(2), [block], base_instant=at(1), partition="x/w", file_id="f2-0")
    writer.commit(at(2))
    dataset = writer.open().snapshot()
    assert dataset.schema.names[-4:] == ["id", "ts", "value", "o"]
    assert dataset.to_table(columns=["id", "o"]).sort_by("id").to_pylist() == [
        {"id": path, "o": row(path, 1)["o"]} for path in sorted(paths)
    ]
    field: Any = pc.field("o", "a")
    for row_filter, expected in (
        (field == "x%41", ["x%41/v"]),
        (field.is_null(), [f"{NULL}/v"]),
        (pc.field("value") == "w", ["x/w"]),
        ((field == "x") & (pc.field("value") == "v"), []),
    ):
        assert sorted_column(dataset.to_table(filter=row_filter), "id") == expected


@pytest.mark.parametrize(
    "case",
    one_in(
        3,
        [
            "o_custom_kinds_0150",
            "o_custom_kinds_102",
            "o_custom_kinds_120",
            "o_custom_kinds_v6_by120",
            "o_ordered_partition_120",
        ],
    ),
)
@pytest.mark.parametrize("query_type", [QueryType.SNAPSHOT, QueryType.READ_OPTIMIZED, QueryType.INCREMENTAL])
def test_filters_on_values_that_paths_format_find_the_rows(case: str, query_type: QueryType) -> None:
    table = HudiTable.open(golden_table(case))
    dataset = {
        QueryType.SNAPSHOT: table.snapshot,
        QueryType.READ_OPTIMIZED: table.read_optimized,
        QueryType.INCREMENTAL: lambda: table.incremental("earliest"),
    }[query_type]()
    rows = dataset.to_table()
    for name in table.config.partition_fields:
        for value in rows[name].unique():
            row_filter = pc.field(name) == value
            assert differences(rows.filter(row_filter), dataset.to_table(filter=row_filter)) == []
