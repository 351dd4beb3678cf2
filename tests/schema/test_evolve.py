import pickle
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge.errors import SchemaEvolutionError
from hudi_bridge.schema.avro_types import VARIANT_FIELD
from hudi_bridge.schema.evolve import Evolution, FloatsByText, StoredAs, plan_evolution
from hudi_bridge.schema.internal import (
    ArrayType,
    Field,
    FieldType,
    InternalSchema,
    MapType,
    RecordType,
    internal_from_arrow,
    to_arrow,
)

PATH = "part=p/f1-0_0-1-2_20240101000000000.parquet"


def plan(
    file: pa.Schema,
    query: pa.Schema,
    file_ids: InternalSchema | None = None,
    query_ids: InternalSchema | None = None,
    stored_as: StoredAs = StoredAs.AVRO,
) -> Evolution:
    return plan_evolution(
        file,
        query,
        file_ids=file_ids,
        query_ids=query_ids,
        path=PATH,
        stored_as=stored_as,
        floats_by_text=FloatsByText.EVERYWHERE,
    )


def evolved(
    rows: Sequence[dict[str, Any]], file: pa.Schema, query: pa.Schema, stored_as: StoredAs = StoredAs.AVRO
) -> list[dict[str, Any]]:
    evolution = pickle.loads(pickle.dumps(plan(file, query, stored_as=stored_as)))
    batch = pa.RecordBatch.from_pylist(list(rows), file).select(evolution.file_columns)
    result = evolution.apply(batch)
    result.validate(full=True)
    assert result.schema.equals(query, check_metadata=True)
    assert labels(result.schema) == labels(query)
    return list(result.to_pylist())


def with_defaults(file: pa.Schema, query: pa.Schema, *, has_ids: bool, **defaults: str) -> Evolution:
    planned = plan_evolution(
        file,
        query,
        file_ids=internal_from_arrow(file) if has_ids else None,
        query_ids=internal_from_arrow(query) if has_ids else None,
        path=PATH,
        stored_as=StoredAs.AVRO,
        floats_by_text=FloatsByText.EVERYWHERE,
        defaults=tuple((name.replace("__", "."), text) for name, text in defaults.items()),
    )
    return pickle.loads(pickle.dumps(planned))  # type: ignore[no-any-return]


MOMENTS = ["2024-02-03 04:05:06.789120", "2024-02-03 00:00:00", "1500-03-01 01:02:03.000001", None]


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC")])
def test_timestamps_are_read_as_text_if_asked(kind: pa.DataType) -> None:
    moments = pa.array(MOMENTS).cast(pa.timestamp("us")).view(pa.int64())
    far = pa.array([253402300800000000], pa.int64())
    times = pa.chunked_array([moments, far]).combine_chunks().view(kind)
    file, query = pa.schema({"t": kind}), pa.schema({"t": pa.string()})
    expected = {
        StoredAs.PARQUET: ["2024-02-03 04:05:06.78912", *MOMENTS[1:], "+10000-01-01 00:00:00"],
        StoredAs.AVRO: ["1706933106789120", "1706918400000000", "-14826668276999999", None, "253402300800000000"],
    }
    for stored_as, texts in expected.items():
        planned = plan_evolution(
            file,
            query,
            file_ids=None,
            query_ids=None,
            path=PATH,
            stored_as=stored_as,
            floats_by_text=FloatsByText.EVERYWHERE,
            reads_times_as_text=True,
        )
        assert planned.apply(pa.record_batch([times], schema=file)).column("t").to_pylist() == texts
        with pytest.raises(SchemaEvolutionError, match="t: timestamp"):
            plan(file, query, stored_as=stored_as)


def test_missing_fields_have_defaults() -> None:
    inner = pa.struct([("x", pa.int32())])
    wider = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    file, query = columns(s=inner, l=pa.list_(inner)), columns(s=wider, l=pa.list_(wider), n=pa.int64())
    evolution = with_defaults(file, query, has_ids=False, s__y="1", l__element__y="2", n="3")
    rows: list[dict[str, Any]] = [{"s": {"x": 0}, "l": []}, {"s": {"x": 7}, "l": [{"x": 8}]}, {"s": None, "l": []}]
    result = evolution.apply(pa.RecordBatch.from_pylist(rows, file).slice(1))
    result.validate(full=True)
    assert result.to_pylist() == [
        {"s": {"x": 7, "y": 1}, "l": [{"x": 8, "y": 2}], "n": 3},
        {"s": None, "l": [], "n": 3},
    ]


def test_columns_with_ids_have_no_defaults() -> None:
    file, query = columns(a=pa.int32()), columns(a=pa.int32(), n=pa.int64())
    batch = pa.RecordBatch.from_pylist([{"a": 1}], file)
    for has_ids, n in ((False, 3), (True, None)):
        assert with_defaults(file, query, has_ids=has_ids, n="3").apply(batch).to_pylist() == [{"a": 1, "n": n}]


def labels(schema: pa.Schema) -> list[str]:
    """What Arrow leaves out when it compares types: the names within lists and maps."""
    return [str(pa.struct([field])) + str(field.type.field(0) if field.type.num_fields else "") for field in schema]


def columns(**types: Any) -> pa.Schema:
    return pa.schema(list(types.items()))


def any_map(*fields: Any) -> Any:
    map_: Any = pa.map_
    return map_(*fields)


def ids(*fields: tuple[int, str, FieldType]) -> InternalSchema:
    made = tuple(Field(id=id_, name=name, optional=True, type=type_) for id_, name, type_ in fields)
    return InternalSchema(version_id=0, max_column_id=99, fields=made)


def record(*fields: tuple[int, str, FieldType]) -> RecordType:
    return RecordType(fields=ids(*fields).fields)


class TestByName:
    def test_missing_columns_are_typed_nulls_and_others_are_left_out(self) -> None:
        file = columns(a=pa.int32(), b=pa.string())
        query = pa.schema([("n", pa.list_(pa.int32())), ("a", pa.int64())])
        assert plan(file, query).file_columns == ("a",)
        assert evolved([{"a": 1, "b": "x"}], file, query) == [{"n": None, "a": 1}]

    def test_vectors_are_read_from_the_bytes_that_parquet_files_hold(self) -> None:
        vectors = pa.list_(pa.float32(), 2)
        kinds: list[Any] = [pa.binary(8), pa.struct([("v", pa.binary(8))]), pa.list_(pa.field("element", pa.binary(8)))]
        file = columns(v=kinds[0], s=kinds[1], l=kinds[2])
        query = columns(v=vectors, s=pa.struct([("v", vectors)]), l=pa.list_(pa.field("element", vectors)))
        one, two = b"\x00\x00\x00\x3f\x00\x00\x00\xc0", bytes(8)
        rows: list[dict[str, Any]] = [
            {"v": one, "s": {"v": None}, "l": []},
            {"v": None, "s": None, "l": [two, None, one]},
        ]
        rows += [{"v": two, "s": {"v": one}, "l": None}]
        expected: list[dict[str, Any]] = [
            {"v": [0.5, -2.0], "s": {"v": None}, "l": []},
            {"v": None, "s": None, "l": [[0.0, 0.0], None, [0.5, -2.0]]},
            {"v": [0.0, 0.0], "s": {"v": [0.5, -2.0]}, "l": None},
        ]
        assert evolved(rows, file, query) == expected
        sliced = plan(file, query).apply(pa.RecordBatch.from_pylist(rows, file).slice(1))
        sliced.validate(full=True)
        assert sliced.to_pylist() == expected[1:]
        assert plan(file, query).apply(pa.RecordBatch.from_pylist([], file)).num_rows == 0
        assert evolved([{"w": 1}], columns(w=pa.int32()), columns(v=vectors)) == [{"v": None}]

    @pytest.mark.parametrize(
        "stored", [pa.binary(), pa.binary(4), pa.list_(pa.float32()), pa.list_(pa.float32(), 3), pa.list_(pa.int8(), 2)]
    )
    def test_a_vector_of_another_shape_is_refused(self, stored: pa.DataType) -> None:
        with pytest.raises(SchemaEvolutionError):
            plan(columns(v=stored), columns(v=pa.list_(pa.float32(), 2)))

    def test_a_shredded_variant_is_rebuilt_if_the_schema_has_one(self) -> None:
        parts: list[tuple[str, pa.DataType]] = [("metadata", pa.binary()), ("value", pa.binary())]
        file = columns(v=pa.struct([*parts, ("typed_value", pa.int32())]))
        plain, variant = columns(v=pa.struct(parts)), pa.field("v", pa.struct(parts), metadata=VARIANT_FIELD)
        rows: list[dict[str, Any]] = [
            {"v": {"metadata": b"\x01\x00\x00", "value": None, "typed_value": 7}},
            {"v": None},
        ]
        expected = [{"v": {"metadata": b"\x01\x00\x00", "value": b"\x14\x07\x00\x00\x00"}}, {"v": None}]
        for query in (plain, pa.schema([variant]), plain):
            if query is plain:
                with pytest.raises(SchemaEvolutionError, match="typed_value"):
                    plan(file, query)
            else:
                assert evolved(rows, file, query) == expected

    def test_no_common_column_keeps_the_number_of_rows(self) -> None:
        file, query = pa.schema([("a", pa.int32())]), pa.schema([("b", pa.int32())])
        assert plan(file, query).file_columns == ()
        assert evolved([{"a": 1}, {"a": 2}], file, query) == [{"b": None}, {"b": None}]

    def test_no_column_wanted_keeps_the_number_of_rows(self) -> None:
        batch = pa.RecordBatch.from_pydict({"a": [1, 2, 3]})
        result = plan(batch.schema, pa.schema([])).apply(batch)
        assert (result.num_rows, result.num_columns) == (3, 0)

    def test_the_same_columns_are_handed_through(self) -> None:
        batch = pa.RecordBatch.from_pydict({"a": [1, 2], "s": [{"x": 1}, None], "l": [[1], []]})
        result = plan(batch.schema, batch.schema).apply(batch)
        assert result.equals(batch, check_metadata=True)
        assert [addresses(column) for column in result.columns] == [addresses(column) for column in batch.columns]

    def test_a_choice_of_columns_copies_nothing(self) -> None:
        batch = pa.RecordBatch.from_pydict({"a": [1, 2], "b": ["x", "y"], "c": [1.0, 2.0]})
        query = columns(c=pa.float64(), b=pa.string())
        result = plan(batch.schema, query).apply(batch)
        assert result.schema.names == ["c", "b"]
        assert addresses(result.column("b")) == addresses(batch.column("b"))

    def test_metadata_and_top_level_nullability_are_the_querys(self) -> None:
        file = pa.schema([pa.field("a", pa.int32(), nullable=False)], metadata={"k": "file"})
        query = pa.schema([pa.field("a", pa.int32())], metadata={"k": "query"})
        assert evolved([{"a": 1}], file, query) == [{"a": 1}]

    def test_names_that_differ_in_case_match_if_nothing_else_does(self) -> None:
        file = columns(ID=pa.int32(), Name=pa.string(), name=pa.string())
        query = columns(id=pa.int32(), name=pa.string(), NAME=pa.string())
        rows = [{"ID": 1, "Name": "upper", "name": "lower"}]
        assert evolved(rows, file, query) == [{"id": 1, "name": "lower", "NAME": None}]

    def test_two_columns_of_one_name_are_refused(self) -> None:
        file = pa.schema([("a", pa.int32()), ("a", pa.int32())])
        with pytest.raises(SchemaEvolutionError, match="2 columns named a"):
            plan(file, pa.schema([("a", pa.int32())]))

    def test_fields_of_records_come_by_name_at_every_depth(self) -> None:
        file = pa.schema(
            [
                (
                    "s",
                    pa.struct([("a", pa.int32()), ("gone", pa.int32()), ("n", pa.struct([("x", pa.int32())]))]),
                ),
                ("l", pa.list_(pa.struct([("k", pa.int32())]))),
                ("m", pa.map_(pa.string(), pa.struct([("v", pa.int32()), ("w", pa.string())]))),
            ]
        )
        query = pa.schema(
            [
                ("m", pa.map_(pa.string(), pa.struct([("w", pa.string()), ("v", pa.int64())]))),
                ("l", pa.list_(pa.field("element", pa.struct([("added", pa.string()), ("k", pa.string())])))),
                (
                    "s",
                    pa.struct([("n", pa.struct([("y", pa.int32()), ("x", pa.int64())])), ("a", pa.int32())]),
                ),
            ]
        )
        rows: list[dict[str, Any]] = [
            {
                "s": {"a": 1, "gone": 2, "n": {"x": 3}},
                "l": [{"k": 4}, None],
                "m": [("p", {"v": 5, "w": "w"}), ("q", None)],
            },
            {"s": None, "l": None, "m": None},
            {"s": {"a": None, "gone": None, "n": None}, "l": [], "m": []},
        ]
        assert evolved(rows, file, query) == [
            {
                "m": [("p", {"w": "w", "v": 5}), ("q", None)],
                "l": [{"added": None, "k": "4"}, None],
                "s": {"n": {"y": None, "x": 3}, "a": 1},
            },
            {"m": None, "l": None, "s": None},
            {"m": [], "l": [], "s": {"n": None, "a": None}},
        ]

    @pytest.mark.parametrize(
        ("file_type", "query_type", "value"),
        [
            (pa.list_(pa.field("array", pa.int32())), pa.list_(pa.field("element", pa.int32())), [1, None]),
            (pa.list_(pa.field("element", pa.int32(), nullable=False)), pa.list_(pa.int32()), [1]),
            (pa.large_list(pa.large_string()), pa.list_(pa.string()), ["a", None]),
            (
                pa.struct([pa.field("x", pa.int32(), nullable=False)]),
                pa.struct([("x", pa.int32())]),
                {"x": 1},
            ),
            (
                any_map(pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int32())),
                pa.map_(pa.string(), pa.int32()),
                [("a", 1), ("b", None)],
            ),
            (pa.dictionary(pa.int32(), pa.string()), pa.string(), "a"),
            (pa.large_binary(), pa.binary(), b"a"),
            (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), datetime(2020, 1, 1, tzinfo=UTC)),
        ],
        ids=str,
    )
    def test_spellings_of_one_type_lose_nothing(self, file_type: Any, query_type: Any, value: Any) -> None:
        rows = [{"c": value}, {"c": None}, {"c": value}]
        file, query = pa.schema([("c", file_type)]), pa.schema([("c", query_type)])
        assert evolved(rows, file, query) == rows

    def test_another_name_within_a_list_copies_nothing(self) -> None:
        batch = pa.RecordBatch.from_pydict(
            {"l": pa.array([[1], None, [2, 3]], pa.list_(pa.field("array", pa.int32())))}
        )
        query = pa.schema([("l", pa.list_(pa.field("element", pa.int32())))])
        result = plan(batch.schema, query).apply(batch)
        assert addresses(result.column("l")) == addresses(batch.column("l"))

    def test_what_a_slice_leaves_out_is_not_converted(self) -> None:
        times = pa.timestamp("ms"), pa.timestamp("us")
        file, query = (pa.schema([("l", pa.list_(time))]) for time in times)
        overflowing = pa.array([[2**60], [1], None, [2, 3]], pa.list_(pa.int64())).cast(file.field("l").type)
        batch = pa.RecordBatch.from_arrays([overflowing], schema=file)
        evolution = plan(file, query)
        result = evolution.apply(batch.slice(1))
        result.validate(full=True)
        numbers: Any = result.column("l").cast(pa.list_(pa.int64()))
        assert numbers.to_pylist() == [[1000], None, [2000, 3000]]
        with pytest.raises(SchemaEvolutionError, match="overflow") as caught:
            evolution.apply(batch)
        assert (caught.value.column, caught.value.path) == ("l", PATH)

    def test_what_lies_below_a_null_record_is_not_converted(self) -> None:
        below = pa.array([2**60, 1], pa.int64()).view(pa.timestamp("ms"))
        structs = pa.StructArray.from_arrays([below], names=["t"], mask=pa.array([True, False]))
        batch = pa.RecordBatch.from_arrays([structs], names=["s"])
        query = pa.schema([("s", pa.struct([("t", pa.timestamp("us"))]))])
        result = plan(batch.schema, query).apply(batch)
        times = pc.struct_field(result.column("s"), [0])
        assert times.view(pa.int64()).to_pylist() == [None, 1000]

    def test_bytes_that_are_no_text_are_an_error(self) -> None:
        batch = pa.RecordBatch.from_pydict({"b": [b"\xff"]})
        with pytest.raises(SchemaEvolutionError, match="column b: binary"):
            plan(batch.schema, pa.schema([("b", pa.string())])).apply(batch)

    @pytest.mark.parametrize(
        ("file_type", "query_type", "column"),
        [
            (pa.int64(), pa.int32(), "c"),
            (pa.struct([("x", pa.int64())]), pa.struct([("x", pa.int32())]), "c.x"),
            (pa.list_(pa.int64()), pa.list_(pa.int32()), "c.element"),
            (
                pa.list_(pa.struct([("k", pa.bool_())])),
                pa.list_(pa.struct([("k", pa.date32())])),
                "c.element.k",
            ),
            (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int32()), "c.value"),
            (pa.map_(pa.int64(), pa.int32()), pa.map_(pa.bool_(), pa.int32()), "c.key"),
            (pa.struct([("x", pa.int64())]), pa.string(), "c"),
            (pa.string(), pa.list_(pa.string()), "c"),
            (pa.map_(pa.string(), pa.int32()), pa.list_(pa.int32()), "c"),
        ],
        ids=str,
    )
    def test_a_change_that_hudi_forbids_is_refused_before_reading(
        self, file_type: Any, query_type: Any, column: str
    ) -> None:
        with pytest.raises(SchemaEvolutionError) as caught:
            plan(pa.schema([("c", file_type)]), pa.schema([("c", query_type)]))
        assert (caught.value.column, caught.value.path) == (column, PATH)


MICROS, MILLIS = pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")
LOCAL_MICROS, LOCAL_MILLIS = pa.timestamp("us"), pa.timestamp("ms")


def two_levels(kind: Any) -> Any:
    return pa.list_(pa.field("array", kind, nullable=False))


def within(kind: Any, list_of: Any = two_levels) -> dict[str, Any]:
    """A type by itself, and within others."""
    struct = pa.struct([("t", kind)])
    return {
        "c": kind,
        "s": struct,
        "l": list_of(kind),
        "ls": list_of(struct),
        "ll": list_of(list_of(kind)),
        "m": pa.map_(pa.string(), kind),
        "ms": pa.map_(pa.string(), struct),
    }


class TestMillisecondsLabelledAsMicroseconds:
    """The answers are those of Hudi 1.2."""

    @pytest.mark.parametrize("stored_as", [StoredAs.PARQUET, StoredAs.AVRO])
    def test_the_numbers_are_milliseconds(self, stored_as: StoredAs) -> None:
        time = datetime(2024, 7, 10, 17, 7, 4, 939000, UTC)
        number = pa.scalar(1_720_631_224_939, pa.int64()).cast(MICROS)
        file, query = columns(**within(MICROS)), columns(**within(MILLIS, pa.list_))
        row = {"c": number, "s": {"t": number}, "l": [number], "ls": [{"t": number}], "ll": [[number]]}
        row |= {"m": [("k", number)], "ms": [("k", {"t": number})]}
        expected = {"c": time, "s": {"t": time}, "l": [time], "ls": [{"t": time}], "ll": [[time]]}
        expected |= {"m": [("k", time)], "ms": [("k", {"t": time})]}
        null = dict.fromkeys(row)
        assert evolved([row, null, row], file, query, stored_as) == [expected, null, expected]

    def test_no_number_is_copied(self) -> None:
        batch = pa.RecordBatch.from_pydict({"c": pa.array([1, None, -1], pa.int64()).cast(MICROS)})
        result = plan(batch.schema, columns(c=MILLIS), stored_as=StoredAs.PARQUET).apply(batch)
        assert addresses(result.column("c")) == addresses(batch.column("c"))

    @pytest.mark.parametrize("source", [MICROS, LOCAL_MICROS])
    @pytest.mark.parametrize("target", [MILLIS, LOCAL_MILLIS])
    def test_in_log_blocks_whatever_their_zone(self, source: Any, target: Any) -> None:
        batch = pa.RecordBatch.from_pydict({"c": pa.array([7, -7], pa.int64()).cast(source)})
        result = plan(batch.schema, columns(c=target)).apply(batch)
        assert result.column("c").view(pa.int64()).to_pylist() == [7, -7]

    @pytest.mark.parametrize(
        ("source", "target"), [(MICROS, LOCAL_MILLIS), (LOCAL_MICROS, MILLIS), (LOCAL_MICROS, LOCAL_MILLIS)]
    )
    def test_in_parquet_microseconds_without_a_zone_have_no_room(self, source: Any, target: Any) -> None:
        with pytest.raises(SchemaEvolutionError, match="column c"):
            plan(columns(c=source), columns(c=target), stored_as=StoredAs.PARQUET)

    @pytest.mark.parametrize("element", [("element", True), ("element", False), ("array", True)])
    def test_in_parquet_lists_of_three_levels_are_not_those_of_the_table(self, element: tuple[str, bool]) -> None:
        name, nullable = element

        def three_levels(kind: Any) -> Any:
            return pa.list_(pa.field(name, kind, nullable=nullable))

        file, query = within(MICROS, three_levels), within(MILLIS, pa.list_)
        # The plan of lists of two levels is another one.
        plan(columns(**within(MICROS)), columns(**query), stored_as=StoredAs.PARQUET)
        for column in ("l", "ls", "ll"):
            with pytest.raises(SchemaEvolutionError, match=f"column {column}.element"):
                plan(columns(**{column: file[column]}), columns(**{column: query[column]}), stored_as=StoredAs.PARQUET)

    def test_in_parquet_names_have_to_be_those_of_the_table(self) -> None:
        file = columns(C=MICROS, S=pa.struct([("t", MICROS)]), s=pa.struct([("T", MICROS)]))
        for column, kind in (("c", MILLIS), ("s", pa.struct([("t", MILLIS)]))):
            with pytest.raises(SchemaEvolutionError, match=f"column {column}"):
                plan(file, columns(**{column: kind}), stored_as=StoredAs.PARQUET)

    def test_in_log_blocks_of_a_table_with_ids_they_have_no_room(self) -> None:
        known = ids((0, "c", MICROS))
        for file_ids in (known, None):
            with pytest.raises(SchemaEvolutionError, match="column c"):
                plan(columns(c=MICROS), columns(c=MILLIS), file_ids, known)
            plan(columns(c=MICROS), columns(c=MILLIS), file_ids, known, StoredAs.PARQUET)

    @pytest.mark.parametrize("stored_as", [StoredAs.ORC, StoredAs.LANCE])
    def test_in_other_formats_they_are_what_they_say(self, stored_as: StoredAs) -> None:
        times = [datetime(2020, 1, 1, tzinfo=UTC)]
        assert evolved([{"c": times[0]}], columns(c=MICROS), columns(c=MILLIS), stored_as) == [{"c": times[0]}]


class TestRecordsWithoutAField:
    """The answers are those of Hudi 0.15 and 1.2, by name and by id."""

    A, B = pa.struct([("a", pa.int32())]), pa.struct([("b", pa.int32())])

    @staticmethod
    def around(record_type: Any) -> dict[str, Any]:
        return {
            "s": record_type,
            "l": pa.list_(record_type),
            "ll": two_levels(two_levels(record_type)),
            "sn": pa.struct([("n", record_type)]),
            "sl": pa.struct([("l", pa.list_(record_type))]),
            "ls": pa.list_(pa.struct([("n", record_type)])),
            "zn": pa.struct([("z", pa.int32()), ("n", record_type)]),
            "lzn": pa.list_(pa.struct([("z", pa.int32()), ("n", record_type)])),
            "m": pa.map_(pa.string(), record_type),
        }

    @staticmethod
    def filled(one: Any) -> dict[str, Any]:
        return {
            "s": one,
            "l": [one],
            "ll": [[one]],
            "sn": {"n": one},
            "sl": {"l": [one]},
            "ls": [{"n": one}],
            "zn": {"z": 9, "n": one},
            "lzn": [{"z": 9, "n": one}],
            "m": [("k", one)],
        }

    def test_are_null_in_parquet(self) -> None:
        file, query = columns(**self.around(self.A)), columns(**self.around(self.B))
        row, null = self.filled({"a": 1}), dict.fromkeys(self.around(self.A))
        expected = null | {"zn": {"z": 9, "n": None}, "lzn": [{"z": 9, "n": None}], "m": [("k", None)]}
        assert evolved([row, null, row], file, query, StoredAs.PARQUET) == [expected, null, expected]
        by_id = ids((0, "s", record((1, "a", pa.int32())))), ids((0, "s", record((2, "a", pa.int32()))))
        batch = pa.RecordBatch.from_pylist([{"s": {"a": 1}}], columns(s=self.A))
        evolution = plan(batch.schema, columns(s=self.A), *by_id, StoredAs.PARQUET)
        assert evolution.apply(batch).to_pylist() == [{"s": None}]

    @pytest.mark.parametrize("stored_as", [StoredAs.AVRO, StoredAs.ORC, StoredAs.LANCE])
    def test_have_nulls_in_other_formats(self, stored_as: StoredAs) -> None:
        file, query = columns(**self.around(self.A)), columns(**self.around(self.B))
        row = self.filled({"a": 1})
        assert evolved([row], file, query, stored_as) == [self.filled({"b": None})]

    def test_are_whole_with_one_field(self) -> None:
        file, query = columns(s=self.A), columns(s=pa.struct([("b", pa.int32()), ("A", pa.int64())]))
        assert evolved([{"s": {"a": 1}}], file, query, StoredAs.PARQUET) == [{"s": {"b": None, "A": 1}}]


class TestById:
    def test_the_four_cases(self) -> None:
        file_ids = ids((0, "same", pa.int32()), (1, "old", pa.string()), (2, "dropped", pa.int32()))
        query_ids = ids(
            (0, "same", pa.int64()),
            (1, "new", pa.string()),
            (3, "dropped", pa.int32()),
            (4, "added", pa.int32()),
        )
        rows = [{"same": 1, "old": "a", "dropped": 2}]
        batch = pa.RecordBatch.from_pylist(rows, to_arrow(file_ids))
        evolution = plan(batch.schema, to_arrow(query_ids), file_ids, query_ids)
        assert evolution.file_columns == ("same", "old")
        assert evolution.apply(batch).to_pylist() == [{"same": 1, "new": "a", "dropped": None, "added": None}]

    def test_swapped_names_are_swapped_columns(self) -> None:
        file_ids = ids((0, "a", pa.int32()), (1, "b", pa.int32()))
        query_ids = ids((0, "b", pa.int32()), (1, "a", pa.int32()))
        batch = pa.RecordBatch.from_pylist([{"a": 1, "b": 2}], to_arrow(file_ids))
        evolution = plan(batch.schema, pa.schema([("a", pa.int32()), ("b", pa.int32())]), file_ids, query_ids)
        assert evolution.apply(batch).to_pylist() == [{"a": 2, "b": 1}]

    def test_nested_fields_follow_their_ids(self) -> None:
        file_ids = ids(
            (0, "s", record((5, "a", pa.int32()), (6, "b", pa.string()))),
            (1, "l", ArrayType(element_id=7, element=record((8, "k", pa.int32())), element_optional=True)),
            (
                2,
                "m",
                MapType(
                    key_id=9,
                    key=pa.string(),
                    value_id=10,
                    value=record((11, "v", pa.string())),
                    value_optional=True,
                ),
            ),
        )
        query_ids = ids(
            (
                2,
                "mm",
                MapType(
                    key_id=9,
                    key=pa.string(),
                    value_id=10,
                    value=record((14, "v", pa.string()), (11, "vv", pa.string())),
                    value_optional=True,
                ),
            ),
            (0, "ss", record((6, "bb", pa.string()), (5, "a", pa.int64()), (12, "b", pa.string()))),
            (
                1,
                "l",
                ArrayType(
                    element_id=7,
                    element=record((13, "k", pa.int32()), (8, "kk", pa.int64())),
                    element_optional=True,
                ),
            ),
        )
        rows: list[dict[str, Any]] = [
            {"s": {"a": 1, "b": "x"}, "l": [{"k": 2}], "m": [("p", {"v": "w"})]},
            {"s": None, "l": None, "m": None},
        ]
        batch = pa.RecordBatch.from_pylist(rows, to_arrow(file_ids))
        result = plan(batch.schema, to_arrow(query_ids), file_ids, query_ids).apply(batch)
        result.validate(full=True)
        assert result.to_pylist() == [
            {
                "mm": [("p", {"v": None, "vv": "w"})],
                "ss": {"bb": "x", "a": 1, "b": None},
                "l": [{"k": None, "kk": 2}],
            },
            {"mm": None, "ss": None, "l": None},
        ]

    def test_the_type_is_the_files_own(self) -> None:
        file_ids, query_ids = ids((0, "a", pa.int64())), ids((0, "b", pa.string()))
        batch = pa.RecordBatch.from_pylist([{"a": 1}], pa.schema([("a", pa.int32())]))
        evolution = plan(batch.schema, to_arrow(query_ids), file_ids, query_ids)
        assert evolution.apply(batch).to_pylist() == [{"b": "1"}]

    def test_a_column_that_the_file_lacks_is_null(self) -> None:
        both = ids((0, "a", pa.int32()), (1, "part", pa.string()))
        file = pa.schema([("a", pa.int32())])
        batch = pa.RecordBatch.from_pylist([{"a": 1}], file)
        assert plan(file, to_arrow(both), both, both).apply(batch).to_pylist() == [{"a": 1, "part": None}]

    def test_a_column_without_an_id_goes_by_name(self) -> None:
        known = ids((0, "a", pa.int32()))
        file = columns(a=pa.int32(), _hoodie_operation=pa.string())
        batch = pa.RecordBatch.from_pylist([{"a": 1, "_hoodie_operation": "I"}], file)
        assert plan(file, file, known, known).apply(batch).equals(batch, check_metadata=True)

    def test_one_side_without_ids_goes_by_name(self) -> None:
        file = pa.schema([("a", pa.int32())])
        other = ids((7, "a", pa.int32()))
        assert plan(file, file, None, other).file_columns == ("a",)
        assert plan(file, file, other, None).file_columns == ("a",)

    def test_ids_by_position_serve_a_file_without_ids_of_its_own(self) -> None:
        file = pa.schema([("a", pa.int32()), ("s", pa.struct([("x", pa.int32())]))])
        query_ids = ids((1, "t", record((2, "y", pa.int64()))), (0, "a", pa.int32()))
        batch = pa.RecordBatch.from_pylist([{"a": 1, "s": {"x": 2}}], file)
        evolution = plan(file, to_arrow(query_ids), internal_from_arrow(file), query_ids)
        assert evolution.apply(batch).to_pylist() == [{"t": {"y": 2}, "a": 1}]

    @pytest.mark.parametrize(
        "arrow",
        [pa.struct([("x", pa.int32())]), pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32())],
        ids=str,
    )
    def test_ids_that_contradict_the_file_are_an_error(self, arrow: Any) -> None:
        schema = pa.schema([("c", arrow)])
        right, wrong = internal_from_arrow(schema), ids((0, "c", pa.int32()))
        with pytest.raises(SchemaEvolutionError, match="column c"):
            plan(schema, schema, wrong, right)
        with pytest.raises(SchemaEvolutionError, match="column c"):
            plan(schema, schema, right, wrong)


def addresses(array: Any) -> list[int | None]:
    return [buffer and buffer.address for buffer in array.buffers()]
