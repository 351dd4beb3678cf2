"""Conditions that DuckDB passes on to Arrow mean what they mean on a copy of the rows, in each tested release."""

import math
import random
import warnings
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from hudi_bridge.connectors.duckdb.dialect import TESTED, refusing_wrong_conditions, require_tested, without_offsets
from hudi_bridge.connectors.duckdb.file_system import Source
from tests.connectors.predicates import Term, random_condition, terms_of
from tests.support.strength import examples, one_in

ROWS, ROWS_PER_BATCH = 300, 40
CONDITIONS_PER_TERM, MIXED_CONDITIONS = 12, 80
FLOATS = (-math.inf, -1.5, -0.0, 0.0, 0.1, 2.0, 16777217.0, math.inf, math.nan, math.nan)
ZONED = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
    datetime(9999, 12, 31, tzinfo=UTC),
]
TIMES = [at.replace(tzinfo=None) for at in ZONED]
INNER = pa.struct([("x", pa.float64()), ("n", pa.int32())])
STRUCT = pa.struct(
    [("f", pa.float64()), ("g", pa.float32()), ("t", pa.string()), ("d", pa.decimal128(10, 2)), ("inner", INNER)]
)
VALUES: dict[str, tuple[Any, Sequence[Any]]] = {
    "double": (pa.float64(), FLOATS),
    "float": (pa.float32(), FLOATS),
    "int": (pa.int32(), (-(2**31), 0, 1, 2**31 - 1)),
    "long": (pa.int64(), (-(2**63), 0, 1, 2**63 - 1)),
    "unsigned": (pa.uint64(), (0, 1, 2**64 - 1)),
    "flag": (pa.bool_(), (True, False)),
    "text": (pa.string(), ("", "a", "ab", "b", "\u00e9", "a%")),
    "bytes": (pa.binary(), (b"", b"\x00", b"a", b"\xff")),
    "day": (pa.date32(), (date(1, 1, 1), date(2026, 1, 1), date(9999, 12, 31))),
    "at_micros": (pa.timestamp("us"), TIMES),
    "at_millis": (pa.timestamp("ms"), TIMES),
    "zoned_micros": (pa.timestamp("us", "UTC"), ZONED),
    "zoned_millis": (pa.timestamp("ms", "UTC"), ZONED),
    "clock": (pa.time64("us"), (time(1), time(23, 59, 59, 999999))),
    "short_decimal": (pa.decimal128(4, 2), (Decimal("1.10"), Decimal("-2.00"))),
    "long_decimal": (pa.decimal128(38, 2), (Decimal("1.10"), Decimal("9" * 36 + ".99"))),
    "list": (pa.list_(pa.float64()), ([], [1.0], [math.nan, 2.0])),
    "struct": (STRUCT, ()),
    "lists_in_struct": (pa.struct([("list", pa.list_(INNER)), ("map", pa.map_(pa.string(), INNER))]), ()),
}


def some_struct(choice: random.Random) -> dict[str, Any]:
    return {
        "f": choice.choice((None, *FLOATS)),
        "g": choice.choice((None, 1.5, math.nan)),
        "t": choice.choice((None, "a", "")),
        "d": choice.choice((None, Decimal("1.10"))),
        "inner": some_inner(choice),
    }


def some_inner(choice: random.Random) -> dict[str, Any] | None:
    return choice.choice((None, {"x": math.nan, "n": 1}, {"x": None, "n": None}, {"x": 3.0, "n": choice.randrange(9)}))


def some_lists(choice: random.Random) -> dict[str, Any]:
    inner = [some_inner(choice) for _ in range(choice.randrange(3))]
    return {"list": inner, "map": [(str(number), value) for number, value in enumerate(inner)]}


def random_rows(choice: random.Random) -> pa.Table:
    made = {"struct": some_struct, "lists_in_struct": some_lists}
    columns = {
        name: pa.array(
            [
                None if choice.random() < 0.12 else made[name](choice) if name in made else choice.choice(values)
                for _ in range(ROWS)
            ],
            kind,
        )
        for name, (kind, values) in VALUES.items()
    }
    return pa.table({"number": pa.array(range(ROWS)), **columns})


class Asked:
    """Rows as ``live``, through Arrow, and as ``copy``, a table of DuckDB; ``filters`` are those passed on."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> None:
        self.filters: list[pc.Expression] = []
        self._connection = connection
        self._rows = rows
        Source(rows.schema, self._read, deque()).rows_in(connection).create_view("live")
        connection.register("registered", rows)
        connection.execute("CREATE TABLE copy AS FROM registered")

    def _read(self, columns: Sequence[str], row_filter: pc.Expression | None) -> Iterable[pa.RecordBatch]:
        if row_filter is not None:
            self.filters.append(row_filter)
        return ds.dataset(self._rows).to_batches(columns=list(columns), filter=row_filter, batch_size=ROWS_PER_BATCH)

    def check(self, query: str) -> None:
        live, copy = (str(self._connection.execute(query.format(name)).fetchall()) for name in ("live", "copy"))
        assert live == copy, query

    def check_where(self, condition: str) -> None:
        self.check(f"SELECT number FROM {{}} WHERE {condition} ORDER BY number")


@pytest.fixture
def asked() -> Iterator[Asked]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield Asked(connection, random_rows(random.Random(5)))


def terms_by_name(asked: Asked) -> dict[str, Term]:
    return {term.sql: term for term in terms_of(asked._rows) if term.sql != "number"}


def test_conditions_mean_what_they_mean_on_a_copy(asked: Asked) -> None:
    choice, terms = random.Random(7), terms_by_name(asked)
    for term in terms.values():
        for _ in range(CONDITIONS_PER_TERM):
            asked.check_where(random_condition([term], choice, depth=1))
    for _ in range(MIXED_CONDITIONS):
        asked.check_where(random_condition(list(terms.values()), choice))
    assert len(asked.filters) > MIXED_CONDITIONS


@pytest.mark.long
def test_conditions_on_a_registered_dataset_mean_what_they_mean_on_a_copy_or_are_refused(asked: Asked) -> None:
    """DuckDB passes on all conditions there, also those on columns that ``rows_in`` keeps from it."""
    schema, passes_all = asked._rows.schema, duckdb.__version__.startswith("2.")
    asked._connection.execute("DROP VIEW live")
    asked._connection.register("live", Source(schema, refusing_wrong_conditions(schema, asked._read), deque()))
    choice, terms, refused = random.Random(11), terms_by_name(asked), Counter[str]()
    for term in terms.values():
        for _ in range(examples(CONDITIONS_PER_TERM)):
            condition = random_condition([term], choice, depth=1)
            try:
                asked.check_where(condition)
            except duckdb.Error as error:
                if "DuckDB 2.0 or newer, or coalesce(" not in str(error):
                    raise
                refused[term.sql] += 1
    assert "long" not in refused
    assert passes_all == (not refused)
    for name in ("double", "unsigned", "long"):
        asked.check_where(f"{name} IS NULL")
        asked.check_where(f"coalesce({name}, NULL) > 0")


@pytest.mark.parametrize("name", ["double", "float", "struct.f", "struct.g", "struct.inner.x"])
@pytest.mark.parametrize(
    "condition",
    one_in(
        4,
        [
            "{} > 1",
            "{} >= 2 AND {} < 'inf'",
            "{} <> 2",
            "{} = 'nan'::DOUBLE",
            "{} < 'nan'::DOUBLE",
            "{} IN (0.0, 'nan')",
            "{} NOT IN (2.0)",
            "{} IS NULL OR {} > 1",
            "isnan({})",
            "{} <= 0.1",
        ],
    ),
)
def test_nan_is_the_greatest_number_and_both_zeros_are_equal(asked: Asked, name: str, condition: str) -> None:
    asked.check_where(condition.replace("{}", name))


def test_filters_that_arise_while_a_query_runs(asked: Asked) -> None:
    for name in terms_by_name(asked):
        for order in ("ASC", "DESC", "ASC NULLS FIRST", "DESC NULLS LAST"):
            asked.check(f"SELECT {name} FROM {{}} ORDER BY {name} {order}, number LIMIT 3")
        few = f"(SELECT {name} AS value FROM copy WHERE number < 20)"
        asked.check(f"SELECT count(*) FROM {{}} AS rows JOIN {few} AS few ON rows.{name} = few.value")
        asked.check(
            f"SELECT count(*) FROM {{}} AS rows JOIN {few} AS few ON rows.{name} IS NOT DISTINCT FROM few.value"
        )
        if name != '"bytes"':  # DuckDB 1.4 finds too many of its own table
            asked.check(f"SELECT count(*) FROM {{}} AS rows JOIN {few} AS few ON rows.{name} >= few.value")
        asked.check(f"SELECT count(*) FROM {{}} AS rows WHERE rows.{name} IN {few}")
        asked.check(f"SELECT min({name}), max({name}) FROM {{}}")


def test_nested_columns_have_the_values_of_their_rows(asked: Asked) -> None:
    for name in ("list", "struct", "lists_in_struct"):
        asked.check(f"SELECT number, {name} FROM {{}} ORDER BY number")
        asked.check_where(f"{name} IS NULL")
        asked.check_where(f"{name} = (SELECT {name} FROM copy WHERE {name} IS NOT NULL ORDER BY number LIMIT 1)")
    asked.check_where("list > [1.5]")
    asked.check_where("lists_in_struct.list[1].x > 1")


def test_slices_of_nested_columns_are_copied_and_others_are_not() -> None:
    rows = random_rows(random.Random(1)).combine_chunks().to_batches()[0]
    assert without_offsets(rows) is rows
    flat = rows.slice(7, 5).select(["double", "text"])
    assert without_offsets(flat) is flat
    plain = without_offsets(rows.slice(7, 5))
    assert str(plain.to_pylist()) == str(rows.slice(7, 5).to_pylist())
    struct: Any = plain.column("struct")
    assert struct.field(4).field(0).offset == 0


@pytest.mark.parametrize("version", ["0.10.3", "1.3.2"])
def test_an_older_duckdb_is_refused(version: str) -> None:
    with pytest.raises(ImportError, match=f"needs DuckDB 1.4 or newer, and this is {version}"):
        require_tested(version)


@pytest.mark.parametrize("version", ["1.6.0", "2.1.0.dev12", "3.0.0"])
def test_a_duckdb_that_was_not_tested_is_warned_of(version: str) -> None:
    with pytest.warns(UserWarning, match=f"DuckDB {version} was not tested .*1.4, 1.5 and 2.0"):
        require_tested(version)


@pytest.mark.parametrize("release", TESTED)
def test_a_duckdb_that_was_tested_passes(release: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_tested(f"{release}.3")
