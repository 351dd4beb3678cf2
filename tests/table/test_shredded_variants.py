"""VARIANT columns in files that Spark and DuckDB have shredded: as Arrow, beside what both read, and in engines."""

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

import hudi_bridge.connectors.duckdb
from hudi_bridge import CorruptTableError, HudiTable, SchemaEvolutionError
from hudi_bridge.connectors.iceberg.columns import columns_of
from hudi_bridge.connectors.iceberg.compatibility import reason_to_rewrite
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.polars import scan
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.connectors.trino.compatibility import LogColumns, why_unreadable
from hudi_bridge.connectors.trino.sql_types import Engine
from hudi_bridge.engines import slice_delta
from hudi_bridge.logformat.layout import BlockType, HeaderKey
from hudi_bridge.schema.avro_types import VARIANT_FIELD, is_variant
from hudi_bridge.schema.evolve import FloatsByText, StoredAs, plan_evolution
from hudi_bridge.schema.file_columns import Outcome
from hudi_bridge.schema.internal import Field, InternalSchema, RecordType
from hudi_bridge.storage.storage import Storage
from hudi_bridge.tools.checks.examination import examine_storage
from hudi_bridge.tools.checks.findings import Severity
from tests.logformat.log_writer import log_block
from tests.support.shredded_tables import (
    FIELDS,
    FILES,
    FORMS,
    KNOWS_VARIANT,
    NAMES,
    PLAIN,
    VARIANT,
    created,
    opened,
    seen,
    with_base,
)
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at, sorted_column
from tests.support.variants import Primitive, decoded, in_json

PARTS = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])


def decoded_rows(rows: pa.Table) -> dict[str, Any]:
    """The decoded value of each id; none for rows without one."""
    return {row["id"]: decoded(**row["v"]) for row in rows.to_pylist() if row["v"] is not None}


def in_duckdb(table: HudiTable, query: str) -> list[Any]:
    """The rows of a query of the view ``t``; none if DuckDB knows no VARIANT, but has the parts."""
    with duckdb.connect() as connection:
        connection.sql("SET TimeZone = 'UTC'")
        view = hudi_bridge.connectors.duckdb.attach(connection, table, name="t").connection
        if KNOWS_VARIANT:
            return view.sql(query).fetchall()
        parts = view.sql("SELECT id, v FROM t").fetchall()
        assert dict(parts) == {row["id"]: row["v"] for row in table.snapshot().to_table().to_pylist()}
        return []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", one_in(4, NAMES))
def test_values_are_those_that_spark_and_duckdb_read(tmp_path: Path, name: str, form: str) -> None:
    table = opened(FORMS[form](tmp_path / "table", name))
    rows = table.snapshot().to_table()
    rows.validate(full=True)
    assert is_variant(rows.schema.field("v"))
    assert rows.schema.field("v").type == PARTS
    values = decoded_rows(rows)
    for key, (text, _) in seen(name, "spark").items():
        if "types" not in key and not key.startswith("plain"):
            assert (in_json(values[key]) if key in values else None) == (text and json.loads(text)), key
    expected = seen(name, "duckdb")
    assert sorted_column(rows, "id") == sorted(expected)
    for key, text, kind in in_duckdb(table, "SELECT id, v::JSON::VARCHAR, variant_typeof(v) FROM t"):
        wanted_text, wanted_kind = expected[key]
        assert text == wanted_text or (text, wanted_text, kind) == ("null", None, "VARIANT_NULL"), key
        # A VARIANT has no digits of a decimal beside those of its value.
        assert kind == wanted_kind or {kind[:8], wanted_kind[:8]} == {"DECIMAL("}, key


def test_types_are_those_of_the_columns(tmp_path: Path) -> None:
    values = decoded_rows(opened(with_base(tmp_path / "d", "duckdb_object")).snapshot().to_table())["r0"]
    kinds = {name: value.kind for name, value in values.items() if isinstance(value, Primitive)}
    names = ("a", "s", "d", "dt", "ts", "tn", "tm", "u", "bin", "f", "x", "b", "l", "i1", "i2", "tns")
    assert [kinds[name] for name in names] == [
        *("int32", "string", "decimal4", "date", "timestamp", "timestamp_ntz", "time", "uuid"),
        *("binary", "float", "double", "boolean", "int64", "int8", "int16", "timestamp_ntz_ns"),
    ]
    values = decoded_rows(opened(with_base(tmp_path / "s", "spark_object")).snapshot().to_table())["types"]
    assert (values["big"].kind, values["ts"].kind, values["tn"].kind) == ("decimal16", "timestamp", "timestamp_ntz")


@pytest.fixture
def merged(tmp_path: Path) -> TableWriter:
    """Updates in blocks of Avro, of Parquet, and deletes over a shredded base file."""
    table = with_base(tmp_path / "table", "spark_object")
    rows = pq.read_table(FILES / "duckdb_object.parquet")
    renamed = pa.array(["all" if key == "r0" else key for key in rows["id"].to_pylist()])
    newer = rows.set_column(0, "id", renamed).set_column(1, "ts", pa.array([2] * len(rows), pa.int64()))
    sink = pa.BufferOutputStream()
    pq.write_table(newer, sink)
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: at(2), HeaderKey.SCHEMA: json.dumps(table.avro_schema)}
    blocks = [
        log_block(BlockType.PARQUET_DATA, sink.getvalue().to_pybytes(), header),
        table.data_block(at(2), [{"id": "rest", "ts": 2, "v": PLAIN}, {"id": "nulls", "ts": 2, "v": None}]),
        table.delete_block(at(2), [("empty", 2), ("many", 0)]),
    ]
    table.commit(at(2), wrote=[table.log_file(at(2), blocks)])
    return table


def expected_of_merged() -> dict[str, str | None]:
    of_base = {key: text for key, (text, _) in seen("spark_object", "duckdb").items() if key != "empty"}
    of_log = {key if key != "r0" else "all": text for key, (text, _) in seen("duckdb_object", "duckdb").items()}
    return {**of_base, **of_log, "rest": "7", "nulls": None}


def test_updates_and_deletes(merged: TableWriter, tmp_path: Path) -> None:
    table = opened(merged)
    expected = expected_of_merged()
    answers = dict(in_duckdb(table, "SELECT id, v::JSON::VARCHAR FROM t"))
    if answers:
        assert {key: None if text == "null" else text for key, text in answers.items()} == expected
        query = "SELECT v.nest.p::INT, typeof(v) FROM t WHERE id = 'all' AND v.a::INT = 1"
        assert in_duckdb(table, query) == [(1, "VARIANT")]
    rows = table.snapshot().to_table()
    assert sorted_column(rows, "id") == sorted(expected)
    selected = table.snapshot().to_table(["v"], filter=pc.field("id") == "rest")
    assert [decoded(**row["v"]) for row in selected.to_pylist()] == [Primitive("int8", 7)]
    frame = scan(table).collect()
    assert frame.schema["v"] == pl.Struct({"metadata": pl.Binary, "value": pl.Binary})
    by_key = {row["id"]: row["v"] for row in rows.to_pylist()}
    assert {row["id"]: row["v"] for row in frame.to_dicts()} == by_key
    published = publish_table(
        Storage.open(str(merged.folder)), Scratch.open(str(tmp_path / "scratch")), locations=Locations(), builds=1
    )
    as_iceberg = StaticTable.from_metadata(published.metadata_location).scan().to_arrow()
    assert {row["id"]: row["v"] for row in as_iceberg.to_pylist()} == by_key
    diagnosis = examine_storage(Storage.open(str(merged.folder)), deep=True)
    assert [finding for finding in diagnosis.findings if finding.severity >= Severity.WARNING] == []


def test_partial_updates_keep_shredded_values(tmp_path: Path) -> None:
    fields = (*FIELDS, ("note", "string"))
    table = with_base(tmp_path / "table", "spark_object", fields=fields)
    block = table.data_block(at(2), [{"id": "all", "ts": 2, "note": "new"}], only=["id", "ts", "note"])
    table.commit(at(2), wrote=[table.log_file(at(2), [block])])
    rows = opened(table).snapshot().to_table(filter=pc.field("id").isin(["all", "rest"])).to_pylist()
    actual = {row["id"]: (row["note"], in_json(decoded(**row["v"]))) for row in rows}
    texts = {key: json.loads(text) for key, (text, _) in seen("spark_object", "spark").items() if text}
    assert actual == {"all": ("new", texts["all"]), "rest": (None, texts["rest"])}


def test_a_shredded_value_within_a_struct_and_a_list(tmp_path: Path) -> None:
    stored = pq.read_table(FILES / "spark_object.parquet").combine_chunks()
    values: Any = stored["v"].chunk(0) if isinstance(stored["v"], pa.ChunkedArray) else stored["v"]
    offsets = pa.array(range(len(values) + 1), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, values, type=pa.list_(pa.field("element", values.type)))
    structs = pa.StructArray.from_arrays([values], fields=[pa.field("v", values.type)])
    variant = {"type": ["null", {**VARIANT, "name": "inner"}], "name": "v", "default": None}
    struct = {"type": "record", "name": "s", "fields": [variant]}
    of_list = {"type": "array", "items": ["null", {**VARIANT, "name": "item"}]}
    table = created(tmp_path / "table", fields=(("id", "string"), ("ts", "long"), ("s", struct), ("l", of_list)))
    path = table.partition("") / f"f1-0_0-1-1_{at(1)}.parquet"
    pq.write_table(pa.table({"id": stored["id"], "ts": stored["ts"], "s": structs, "l": lists}), path)
    table.commit(at(1), wrote=[path])
    plain = {
        row["id"]: row["v"]
        for row in opened(with_base(tmp_path / "p", "spark_object")).snapshot().to_table().to_pylist()
    }
    rows = opened(table).snapshot().to_table().to_pylist()
    assert {row["id"]: row["s"]["v"] for row in rows} == plain
    assert {row["id"]: row["l"] for row in rows} == {key: [value] for key, value in plain.items()}


def test_what_becomes_of_the_columns_is_said(tmp_path: Path) -> None:
    table = with_base(tmp_path / "table", "spark_object")
    (columns,) = opened(table).file_columns(f"f1-0_0-1-1_{at(1)}.parquet")
    outcomes = {column.column: (column.file_column, column.outcome) for column in columns.columns}
    assert outcomes == {
        "id": ("id", Outcome.READ),
        "ts": ("ts", Outcome.READ),
        "v": ("v", Outcome.REBUILT),
        "v.metadata": ("v.metadata", Outcome.READ),
        "v.value": ("v.value", Outcome.REBUILT),
    }


def test_other_columns_do_not_read_it(tmp_path: Path) -> None:
    table = with_base(tmp_path / "table", "spark_object")
    damage(table, lambda values: [{**value, "metadata": b"\x09"} if value else value for value in values])
    assert len(opened(table).snapshot().to_table(["id"])) == len(seen("spark_object", "duckdb"))


def damage(table: TableWriter, change: Any) -> None:
    (path,) = table.folder.glob("*.parquet")
    rows = pq.read_table(path)
    values = pa.array(change(rows["v"].to_pylist()), rows.schema.field("v").type)
    pq.write_table(rows.set_column(rows.schema.get_field_index("v"), "v", values), path)


def test_a_value_that_is_no_variant_names_the_file(tmp_path: Path) -> None:
    table = with_base(tmp_path / "table", "spark_number")
    damage(table, lambda values: [value and {**value, "value": b"\x00", "typed_value": 1} for value in values])
    with pytest.raises(CorruptTableError, match=rf"f1-0_0-1-1_{at(1)}.parquet: found a value beside") as caught:
        opened(table).snapshot().to_table()
    assert (caught.value.path, caught.value.expected) == (f"f1-0_0-1-1_{at(1)}.parquet", "one of the two")


def test_a_plain_struct_of_the_same_names_is_no_variant(tmp_path: Path) -> None:
    plain = {name: kind for name, kind in VARIANT.items() if name != "logicalType"}
    table = with_base(tmp_path / "table", "spark_number", fields=(*FIELDS[:2], ("v", plain)))
    for number in range(2):
        with pytest.raises(SchemaEvolutionError, match="plain struct"):
            opened(table).snapshot().to_table()
        # The plan of the one is not that of the other, although their types are equal to Arrow.
        assert opened(with_base(tmp_path / f"variant{number}", "spark_number")).snapshot().to_table().num_rows


def test_types_that_are_not_specified_are_refused_and_reported(tmp_path: Path) -> None:
    table = created(tmp_path / "table")
    path = table.partition("") / f"f1-0_0-1-1_{at(1)}.parquet"
    rows = pq.read_table(FILES / "spark_number.parquet")
    stored: Any = rows["v"].combine_chunks()
    parts = [stored.field("metadata"), stored.field("value"), stored.field("typed_value").cast(pa.uint64(), safe=False)]
    unsigned = pa.StructArray.from_arrays(parts, ["metadata", "value", "typed_value"])
    pq.write_table(rows.set_column(rows.schema.get_field_index("v"), "v", unsigned), path)
    table.commit(at(1), wrote=[path])
    with pytest.raises(SchemaEvolutionError, match="values of type uint64 cannot be read as a VARIANT"):
        opened(table).snapshot().to_table()
    (columns,) = opened(table).file_columns(path.name)
    assert [column.outcome for column in columns.columns if column.column == "v.typed_value"] == [Outcome.REFUSED]
    diagnosis = examine_storage(Storage.open(str(table.folder)))
    errors = [finding.found for finding in diagnosis.findings if finding.severity is Severity.ERROR]
    assert any("uint64" in text for text in errors), errors


def test_a_table_without_a_schema_in_its_commits(tmp_path: Path) -> None:
    table = created(tmp_path / "table")
    path = table.partition("") / f"f1-0_0-1-1_{at(1)}.parquet"
    shutil.copyfile(FILES / "duckdb_object.parquet", path)
    table.commit(at(1), wrote=[path], extra={"schema": ""})
    rows = opened(table).snapshot().to_table()
    assert is_variant(rows.schema.field("v"))
    expected = opened(with_base(tmp_path / "other", "duckdb_object")).snapshot().to_table()
    assert rows["v"].to_pylist() == expected["v"].to_pylist()


def test_a_column_that_was_renamed_by_its_id(tmp_path: Path) -> None:
    def ids(name: str) -> InternalSchema:
        parts = enumerate(("metadata", "value"), 1)
        fields = tuple(Field(id=number, name=part, optional=True, type=pa.binary()) for number, part in parts)
        column = Field(id=0, name=name, optional=True, type=RecordType(fields=fields))
        return InternalSchema(version_id=1, max_column_id=2, fields=(column,))

    plan = plan_evolution(
        pq.read_schema(FILES / "spark_object.parquet"),
        pa.schema([pa.field("renamed", PARTS, metadata=VARIANT_FIELD)]),
        file_ids=ids("v"),
        query_ids=ids("renamed"),
        path="f",
        stored_as=StoredAs.PARQUET,
        floats_by_text=FloatsByText.NOWHERE,
    )
    rows = plan.apply(pq.read_table(FILES / "spark_object.parquet").combine_chunks().to_batches()[0])
    expected = opened(with_base(tmp_path / "table", "spark_object")).snapshot().to_table()
    assert rows["renamed"].to_pylist() == expected["v"].to_pylist()


@pytest.mark.parametrize("name", ["spark_object", "duckdb_by_itself"])
def test_no_engine_reads_such_a_base_file_itself(tmp_path: Path, name: str) -> None:
    table = with_base(tmp_path / "table", name)
    (split,) = opened(table).splits()
    with slice_delta(split) as delta:
        base = delta.base_file
    assert base is not None
    reasons = [
        base.reason_incompatible(),
        why_unreadable(base, LogColumns.of(split.context, Engine.TRINO)),
        reason_to_rewrite(split, base, columns_of(split.context.schema, (), {})),
    ]
    assert all("rebuilt from typed_value" in (reason or "") for reason in reasons)
    storage = Storage.open(str(table.folder))
    published = publish_table(storage, Scratch.open(str(tmp_path / "scratch")), locations=Locations(), builds=1)
    actual = StaticTable.from_metadata(published.metadata_location).scan().to_arrow()
    expected = opened(table).snapshot().to_table()
    assert {row["id"]: row["v"] for row in actual.to_pylist()} == {row["id"]: row["v"] for row in expected.to_pylist()}


def test_times_of_96_bits_are_no_part_of_a_variant(tmp_path: Path) -> None:
    table = with_base(tmp_path / "table", "spark_object")
    (path,) = table.folder.glob("*.parquet")
    pq.write_table(pq.read_table(path), path, use_deprecated_int96_timestamps=True)
    with pytest.raises(CorruptTableError, match=r"times of 96 bits in v.typed_value.ts.typed_value"):
        opened(table).snapshot().to_table()
