"""Tables written for Presto, read the way Presto reads them; and what is said of clients that misread a table."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import StaticTable

from hudi_bridge.config import QueryType
from hudi_bridge.connectors.iceberg.compatibility import IcebergClient, Rewriting, schema_for_presto
from hudi_bridge.connectors.iceberg.publish import PublishedTable
from hudi_bridge.engines import identity
from hudi_bridge.errors import QueryError, UnsupportedTableError
from tests.connectors.iceberg.publishing import FOR_PRESTO, publish
from tests.service.iceberg_service import built_snapshots
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.golden_queries import QUERIES, answer_of
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at

MOMENT = datetime(2020, 7, 1, 12, 30, 15, 123456, tzinfo=UTC)
MICROS = 1593606615123456
AT: Mapping[str, Any] = {"type": "long", "logicalType": "timestamp-micros"}
LOCAL: Mapping[str, Any] = {"type": "long", "logicalType": "local-timestamp-micros"}
TIME: Mapping[str, Any] = {"type": "long", "logicalType": "time-micros"}
DECIMAL: Mapping[str, Any] = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}
STRUCT: Mapping[str, Any] = {
    "type": "record",
    "name": "st",
    "fields": [{"name": "x", "type": ["null", "long"]}, {"name": "y", "type": ["null", "string"]}],
}


def one_column(folder: Path, kind: Any, value: Any, change: Callable[[Any], Any] | None = None) -> TableWriter:
    """A table with a column ``c`` of one value, as ``change`` makes it in the base file."""
    table = TableWriter(folder=folder, fields=(("id", "string"), ("ts", "long"), ("c", kind))).create()
    path = table.base_file(at(1), [{"id": "a", "ts": 1, "c": value}])
    table.commit(at(1))
    if change is not None:
        stored = pq.read_table(path)
        pq.write_table(stored.set_column(7, "c", change(stored["c"])), path)
    return table


def as_presto_reads(published: PublishedTable) -> pa.Table:
    """The rows of all data files by the names of the newest columns, for a table with no deletes of positions."""
    table = StaticTable.from_metadata(published.metadata_location)
    (snapshot,) = [item for item in table.snapshots() if item.snapshot_id == table.metadata.current_snapshot_id]
    assert snapshot.summary is not None
    schema = table.schema().as_arrow()
    parts = []
    for task in table.scan().plan_files():
        assert not task.delete_files
        assert task.file.content is DataFileContent.DATA
        stored = pq.ParquetFile(task.file.file_path.removeprefix("file://")).read()
        columns = [
            stored[name] if name in stored.column_names else pa.nulls(len(stored), schema.field(name).type)
            for name in schema.names
        ]
        parts.append(pa.table(columns, names=schema.names))
    return pa.concat_tables(parts, promote_options="permissive")


@pytest.mark.parametrize("case", ["g_logs_rename_0150", "g_sor_mixed_120"])
def test_renamed_columns_of_base_files_are_found_by_their_newest_names(tmp_path: Path, case: str) -> None:
    query = next(query for query in QUERIES.values() if (query.case, query.kind) == (case, "read_optimized"))
    expected = answer_of(query)
    for rewriting, is_right in ((FOR_PRESTO, True), (Rewriting(), False)):
        folder = tmp_path / str(rewriting.client)
        published = publish(query.table, folder, rewriting, query_type=QueryType.READ_OPTIMIZED)
        assert (differences(expected, as_presto_reads(published)) == []) is is_right
        assert any(note.startswith("Presto 0.287: ") for note in published.notes) is not is_right


def short_decimal(_: Any) -> Any:
    return pa.array([Decimal("1.50")], pa.decimal128(7, 2))


def one_field_less(_: Any) -> Any:
    return pa.array([{"x": 1}], pa.struct([("x", pa.int64())]))


def names_in_both_cases(_: Any) -> Any:
    return pa.array([{"x": 1, "X": 2, "y": "a"}], pa.struct([("x", pa.int64()), ("X", pa.int64()), ("y", pa.string())]))


FILES: Mapping[str, tuple[Any, Any, Any, bool]] = {
    "as it is": ("long", 1, None, False),
    "a wider number": ("long", 1, lambda stored: stored.cast(pa.int32()), False),
    "times of day": (TIME, time(12, 30), None, False),
    "timestamps": (AT, MOMENT, None, True),
    "local timestamps": (LOCAL, MOMENT.replace(tzinfo=None), None, True),
    "timestamps in a list": ({"type": "array", "items": ["null", AT]}, [MOMENT], None, True),
    "a decimal that has grown": (DECIMAL, Decimal("1.50"), short_decimal, True),
    "a decimal of the same length": (DECIMAL, Decimal("1.50"), None, False),
    "a struct with a field less": (STRUCT, {"x": 1, "y": "a"}, one_field_less, False),
    "two cases of one name": (STRUCT, {"x": 1, "y": "a"}, names_in_both_cases, True),
}


@pytest.mark.parametrize("name", one_in(3, FILES))
def test_a_base_file_is_rewritten_where_presto_would_misread_it(tmp_path: Path, name: str) -> None:
    kind, value, change, expected = FILES[name]
    table = one_column(tmp_path / "table", kind, value, change)
    (path,) = table.folder.glob("*.parquet")
    # Trino, too, refuses a file with fields whose names differ in nothing but case.
    for rewriting, is_rewritten in ((FOR_PRESTO, expected), (Rewriting(), name == "two cases of one name")):
        published = publish(table.folder, tmp_path / f"published-{is_rewritten}-{rewriting.client}", rewriting)
        (task,) = StaticTable.from_metadata(published.metadata_location).scan().plan_files()
        assert (task.file.file_path != f"file://{path}") == is_rewritten


TYPES: Mapping[str, tuple[Any, Any, str, Any]] = {
    "timestamp": (AT, MOMENT, "long", MICROS),
    "local timestamp": (LOCAL, MOMENT.replace(tzinfo=None), "long", MICROS),
    "timestamp of milliseconds": (
        {"type": "long", "logicalType": "timestamp-millis"},
        MOMENT.replace(microsecond=123000),
        "timestamp",
        MOMENT.replace(microsecond=123000, tzinfo=None),
    ),
    "time of day": (TIME, time(0, 0, 1, 5), "long", 1_000_005),
    "time of day in milliseconds": ({"type": "int", "logicalType": "time-millis"}, time(0, 0, 1), "long", 1_000_000),
    "in a map": ({"type": "map", "values": ["null", AT]}, [("k", MOMENT)], "map<string, long>", [("k", MICROS)]),
}


@pytest.mark.parametrize("name", TYPES)
def test_times_are_exact(tmp_path: Path, name: str) -> None:
    kind, value, expected_type, expected = TYPES[name]
    table = one_column(tmp_path / "table", kind, value)
    published = publish(table.folder, tmp_path / "published", FOR_PRESTO)
    actual = StaticTable.from_metadata(published.metadata_location)
    assert str(actual.schema().find_type("c")) == expected_type
    assert as_presto_reads(published)["c"].cast(actual.schema().as_arrow().field("c").type).to_pylist() == [expected]


def test_files_for_presto_have_no_dictionaries(tmp_path: Path) -> None:
    """Presto fails on conditions on a column with an empty dictionary, which a column of nulls has."""
    table = one_column(tmp_path / "table", AT, None)
    for rewriting, has_dictionary in ((FOR_PRESTO, False), (Rewriting(above=0.0), True)):
        table.log_file(at(2), [table.data_block(at(2), [{"id": "a", "ts": 2, "c": None}])])
        table.commit(at(2))
        published = publish(table.folder, tmp_path / str(rewriting.client), rewriting)
        (task,) = StaticTable.from_metadata(published.metadata_location).scan().plan_files()
        footer = pq.read_metadata(task.file.file_path.removeprefix("file://"))
        columns = [footer.row_group(0).column(position) for position in range(footer.num_columns)]
        assert any(column.has_dictionary_page for column in columns) is has_dictionary


def test_cut_timestamps_have_no_bounds(tmp_path: Path) -> None:
    table = one_column(tmp_path / "table", AT, MOMENT)
    (path,) = table.folder.glob("*.parquet")
    published = publish(table.folder, tmp_path / "published", replace(FOR_PRESTO, cut_times=True))
    assert published.notes == ("Presto cuts these timestamps to milliseconds: c",)
    actual = StaticTable.from_metadata(published.metadata_location)
    column = actual.schema().find_field("c")
    assert str(column.field_type) == "timestamp"
    (task,) = actual.scan().plan_files()
    assert task.file.file_path == f"file://{path}"
    assert actual.schema().find_field("ts").field_id in task.file.lower_bounds
    assert column.field_id not in task.file.lower_bounds.keys() | task.file.upper_bounds.keys()


def test_names_that_presto_does_not_tell_apart_are_refused() -> None:
    inner = pa.struct([("x", pa.int64()), ("X", pa.int64())])
    for schema in (pa.schema([("a", pa.int64()), ("A", pa.int64())]), pa.schema([("st", inner)])):
        with pytest.raises(UnsupportedTableError, match="names that differ in more than case"):
            schema_for_presto(schema, cut_times=False)


def test_columns_of_other_types_stay_as_they_are() -> None:
    kinds: tuple[Any, ...] = (
        pa.date32(),
        pa.decimal128(30, 2),
        pa.list_(pa.float32(), 3),
        pa.map_(pa.string(), pa.binary()),
    )
    schema = pa.schema([pa.field(str(position), kind) for position, kind in enumerate(kinds)])
    assert schema_for_presto(schema, cut_times=False) == schema


def test_options_are_checked() -> None:
    assert Rewriting.of(lists_as_stored=False, above_percent=None, client="presto") == FOR_PRESTO
    with pytest.raises(QueryError, match="--for"):
        Rewriting.of(lists_as_stored=False, above_percent=None, client="hive")
    with pytest.raises(QueryError, match="--cut-times"):
        Rewriting.of(lists_as_stored=False, above_percent=None, cut_times=True)


def test_slices_for_one_client_are_not_those_for_another() -> None:
    others: Mapping[str, Any] = {
        "lists_as_stored": True,
        "above": 0.5,
        "client": IcebergClient.PRESTO,
        "cut_times": True,
    }
    assert others.keys() == {field.name for field in fields(Rewriting)}
    settings = [Rewriting(), *(Rewriting(**{name: value}) for name, value in others.items())]
    assert len({identity(setting) for setting in settings}) == len(settings)


NOTES: Mapping[str, tuple[Any, Any, Any, tuple[str, ...]]] = {
    "nothing": ("long", 1, None, ()),
    "a timestamp": (
        AT,
        MOMENT,
        None,
        ("Presto 0.287: reads no table with a timestamp with time zone (c); --for presto mends this",),
    ),
    "a local timestamp": (
        LOCAL,
        MOMENT.replace(tzinfo=None),
        None,
        ("Presto 0.287: cuts timestamps to milliseconds (c); --for presto mends this",),
    ),
    "a time of day": (
        TIME,
        time(1),
        None,
        ("Presto 0.287: misreads times of day (c); --for presto mends this",),
    ),
    "a decimal that has grown": (
        DECIMAL,
        Decimal("1.50"),
        short_decimal,
        ("Presto 0.287: misreads 1 base file (column c has 7 digits in the file); --for presto mends this",),
    ),
}


@pytest.mark.parametrize("name", NOTES)
def test_publishing_says_which_clients_misread_the_table(tmp_path: Path, name: str) -> None:
    kind, value, change, expected = NOTES[name]
    table = one_column(tmp_path / "table", kind, value, change)
    assert publish(table.folder, tmp_path / "published", Rewriting()).notes == expected


def test_what_is_known_of_slices_is_known_when_they_are_reused(tmp_path: Path) -> None:
    table = one_column(tmp_path / "table", DECIMAL, Decimal("1.50"), short_decimal)
    first = publish(table.folder, tmp_path / "published", Rewriting())
    assert publish(table.folder, tmp_path / "published", Rewriting()).notes == first.notes
    table.base_file(at(2), [{"id": "b", "ts": 1, "c": Decimal(2)}], file_id="f2-0")
    table.commit(at(2))
    later = publish(table.folder, tmp_path / "published", Rewriting())
    assert (later.slices_built, later.slices_reused) == (1, 1)
    assert later.notes == first.notes


def test_notes_name_what_lists_are_misread_by(tmp_path: Path) -> None:
    table = golden_table("b_sql_update_0150")
    written = (
        "2 base files written anew, as DuckDB 1.5 or Spark would misread lists or maps; "
        "--lists-as-stored leaves those that Trino and PyIceberg read"
    )
    assert publish(table, tmp_path / "published", Rewriting()).notes == (written,)
    # The same where slices are reused, and for Presto.
    assert publish(table, tmp_path / "published", Rewriting()).notes == (written,)
    assert publish(table, tmp_path / "presto", FOR_PRESTO).notes == (written,)
    assert publish(table, tmp_path / "published", Rewriting(lists_as_stored=True)).notes == (
        "DuckDB 1.5 or Spark: misreads 2 base files (lists of two levels); leaving out --lists-as-stored mends this",
    )
    assert publish(table, tmp_path / "presto", Rewriting(lists_as_stored=True, client=IcebergClient.PRESTO)).notes == ()


def snapshot_ids(published: PublishedTable) -> list[int]:
    return built_snapshots(StaticTable.from_metadata(published.metadata_location))


def test_presto_finds_snapshots_with_the_newest_columns_alone(tmp_path: Path) -> None:
    table = golden_table("g_logs_rename_0150")
    instants = ("20261121150233388", "20261121150235764")
    for folder, rewriting, listed in (("presto", FOR_PRESTO, instants[1:]), ("others", Rewriting(), instants)):
        for instant in instants:
            publish(table, tmp_path / folder, rewriting, instant)
        newest = publish(table, tmp_path / folder, rewriting)
        assert snapshot_ids(newest) == [*map(int, listed), int(newest.instant)]


def test_snapshots_for_one_client_are_not_shown_to_another(tmp_path: Path) -> None:
    table = one_column(tmp_path / "table", TIME, time(1))
    publish(table.folder, tmp_path / "published", FOR_PRESTO)
    table.log_file(at(2), [table.data_block(at(2), [{"id": "b", "ts": 2, "c": 1}])])
    table.commit(at(2))
    published = publish(table.folder, tmp_path / "published", Rewriting())
    assert snapshot_ids(published) == [int(at(2))]
    assert str(StaticTable.from_metadata(published.metadata_location).schema().find_type("c")) == "time"


def partitioned_table(folder: Path) -> TableWriter:
    """A table of version 6 with a base file whose rows do not all have the value of their path."""
    table = TableWriter(
        folder=folder,
        version=6,
        fields=(("id", "string"), ("ts", "long"), ("part", "string")),
        partition_fields=("part",),
    ).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "part": "x"}], partition="x")
    table.base_file(at(1), [{"id": "b", "ts": 1, "part": "y"}], partition="z", file_id="f2-0")
    table.commit(at(1))
    return table


def test_files_have_partitions_for_all_clients_but_presto(tmp_path: Path) -> None:
    """Presto reads a partition column as null from a file without a partition."""
    table = partitioned_table(tmp_path / "table").folder
    for rewriting, lengths in ((Rewriting(), [0, 1]), (FOR_PRESTO, [0, 0])):
        published = publish(table, tmp_path / str(rewriting.client), rewriting)
        actual = StaticTable.from_metadata(published.metadata_location)
        assert sorted(len(task.file.partition) for task in actual.scan().plan_files()) == lengths
        (task,) = actual.scan(row_filter="part = 'y'").plan_files()
        assert "/f2-0_" in task.file.file_path
        warned = "Presto 0.287: reads part as null in 1 data file; --for presto mends this"
        assert (warned in published.notes) is (rewriting == Rewriting())
