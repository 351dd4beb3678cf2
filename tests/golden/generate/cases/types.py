"""F: types and their extreme values."""

import datetime as dt
import random
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tests.golden.generate.cases.stories import tell_story
from tests.golden.generate.options import BLOCK_FORMAT, ORDERING, PARTITION_PATH, RECORD_KEY, SMALL_FILES, TABLE_TYPE
from tests.golden.generate.registry import case
from tests.golden.generate.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TYPES = (
    "id string, part string, ts bigint, bo boolean, i int, l bigint, f float, d double, dec102 decimal(10,2), "
    "dec3818 decimal(38,18), dec50 decimal(5,0), dec184 decimal(18,4), dec3838 decimal(38,38), s string, b binary, "
    "da date, tm timestamp, ai array<int>, as_ array<string>, m map<string,int>, "
    "st struct<x:int,y:string,z:struct<q:double,w:array<string>>>, ast array<struct<k:string,v:bigint>>, "
    "mst map<string,struct<a:int,b:decimal(12,3)>>, mm map<string,array<int>>, aa array<array<int>>"
)
STRINGS = (
    *("", "plain", "ünïcødé ✓", "\U0001f600 emoji", 'line\nbreak\t"q"', "nul\x00byte", " pad ", "日本語テキスト"),
    *("e\u0301 combining", "\\back"),
)
FLOATS = (0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 1e-45, 3.4028235e38)
DOUBLES = (0.0, -0.0, float("nan"), float("inf"), float("-inf"), 5e-324, 1.7976931348623157e308, 0.1)
DATES = (dt.date(1, 1, 1), dt.date(1582, 10, 15), dt.date(1970, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29))
TIMES = (
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1970, 1, 1),
    dt.datetime(2024, 2, 29, 12, 34, 56, 789012),
    dt.datetime(1900, 1, 1, 0, 0, 0, 1),
    dt.datetime(2262, 4, 11, 23, 47, 16, 854775),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
)
DECIMALS = {
    "dec102": [Decimal("99999999.99"), Decimal("-99999999.99"), Decimal("0.01"), Decimal("-1.10")],
    "dec3818": [
        Decimal("12345678901234567890.123456789012345678"),
        Decimal("-0.000000000000000001"),
        Decimal("99999999999999999999.999999999999999999"),
        Decimal(0),
    ],
    "dec50": [Decimal(99999), Decimal(-99999), Decimal(7)],
    "dec184": [Decimal("12345678901234.5678"), Decimal("-0.0001")],
    "dec3838": [Decimal("0." + "9" * 38), Decimal("-0." + "1" * 38)],
}
OLD_LISTS = "parquet.avro.write-old-list-structure"


def row_of_every_type(seed: int, key: int, ts: int, *, zoneless: bool, null_elements: bool) -> tuple[Any, ...]:
    """A row of ``TYPES``, with a ``timestamp_ntz`` at its end where asked for."""
    chance = random.Random(f"{seed}/{key}/{ts}")

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.18 else value

    def element(value: Any) -> Any:
        return maybe(value) if null_elements else value

    def text() -> str:
        return chance.choice(STRINGS)

    def some() -> range:
        return range(chance.randrange(3))

    row = [
        f"k{key:04d}",
        "pq"[key % 2],
        ts,
        maybe(chance.random() < 0.5),
        maybe(chance.choice([-(2**31), 2**31 - 1, 0, key])),
        maybe(chance.choice([-(2**63), 2**63 - 1, 2**53 + 1, key])),
        maybe(chance.choice(FLOATS)),
        maybe(chance.choice(DOUBLES)),
        *(maybe(chance.choice(values)) for values in DECIMALS.values()),
        maybe(text()),
        maybe(bytearray(chance.randbytes(chance.choice([0, 1, 7])))),
        maybe(chance.choice(DATES)),
        maybe(chance.choice(TIMES)),
        maybe([element(chance.randrange(99)) for _ in some()]),
        maybe([element(text()) for _ in some()]),
        maybe({f"key{number}": element(number) for number in some()}),
        maybe((maybe(key), maybe(text()), maybe((maybe(chance.choice(DOUBLES)), maybe([element(text())]))))),
        maybe([element((maybe(text()), maybe(chance.randrange(2**40)))) for _ in some()]),
        maybe({text() or "e": element((maybe(1), maybe(Decimal("123456789.123")))) for _ in some()}),
        maybe({"a": element([1, 2]), "b": []}),
        maybe([element([1, 2]), [], [3]]),
    ]
    return tuple([*row, maybe(chance.choice(TIMES[1:]))] if zoneless else row)


@case("f_types_120", "1.2.0", "every type; Avro logs")
@case("f_types_0150", "0.15.0", "every type; Avro logs")
@case("f_types_parquet_120", "1.2.0", "every type; Parquet logs", block_format="parquet")
@case("f_types_null_elements_120", "1.2.0", "null elements in arrays (three-level Parquet lists)", null_elements=True)
@case("f_types_null_elements_0150", "0.15.0", "null elements in arrays (three-level Parquet lists)", null_elements=True)
@case("f_types_ntz_120", "1.2.0", "timestamp_ntz", zoneless=True)
@case(
    "f_types_upsert_base_120",
    "1.2.0",
    "every type; base files written through Avro (upsert, two-level lists)",
    first="upsert",
    seed=8,
)
@case(
    "f_types_upsert_base_0150",
    "0.15.0",
    "every type; base files written through Avro (upsert, two-level lists)",
    first="upsert",
    seed=8,
)
def f_types(
    w: Writer,
    *,
    first: str = "bulk_insert",
    block_format: str | None = None,
    null_elements: bool = False,
    zoneless: bool = False,
    seed: int = 0,
) -> None:
    if block_format is not None:
        w.options[BLOCK_FORMAT] = block_format
    schema = TYPES + (", ntz timestamp_ntz" if zoneless else "")
    context: Any = w.spark.sparkContext._jsc
    hadoop = context.hadoopConfiguration()
    if null_elements:
        hadoop.set(OLD_LISTS, "false")
        w.set(OLD_LISTS, "false")

    def rows(keys: Iterable[int], ts: int) -> "DataFrame":
        return w.frame(
            (row_of_every_type(seed, key, ts, zoneless=zoneless, null_elements=null_elements) for key in keys), schema
        )

    try:
        w.write(rows(range(60), 1), first)
        w.write(rows(range(0, 60, 2), 2))
        w.write(rows(range(0, 60, 9), 3), "delete")
        w.write(rows([*range(0, 60, 3), 61, 62], 4))
    finally:
        if null_elements:
            hadoop.unset(OLD_LISTS)


@case("f_millis_120", "1.2.0", "timestamps stored in millis (hoodie.parquet.outputtimestamptype=TIMESTAMP_MILLIS)")
@case("f_millis_0150", "0.15.0", "timestamps stored in millis")
def f_millis(w: Writer) -> None:
    w.options["hoodie.parquet.outputtimestamptype"] = "TIMESTAMP_MILLIS"
    schema = "id string, part string, ts timestamp, a timestamp, st struct<t:timestamp>, arr array<timestamp>, d date"

    def rows(keys: Iterable[int], micros: int) -> "DataFrame":
        def moment(key: int) -> dt.datetime:
            return dt.datetime(2024, 1, 1 + key % 28, 1, 2, 3, 456000 + micros)

        return w.frame(
            (
                (
                    f"k{key}",
                    "pq"[key % 2],
                    moment(key),
                    None if key % 5 == 0 else moment(key + 1),
                    (moment(key + 2),),
                    [moment(key)],
                    dt.date(2020, 1, 1 + key % 28),
                )
                for key in keys
            ),
            schema,
        )

    w.write(rows(range(20), 0), "bulk_insert")
    w.write(rows(range(0, 20, 3), 123))
    w.write(rows(range(0, 20, 4), 999))


@case("f_long_strings_120", "1.2.0", "very long strings and binaries, empty strings, all-null columns")
def f_long(w: Writer) -> None:
    schema = "id string, part string, ts bigint, s string, b binary, allnull string, alln array<string>, e string"

    def rows(keys: Iterable[int], ts: int) -> "DataFrame":
        return w.frame(
            (
                (
                    f"k{key}",
                    "pq"[key % 2],
                    ts,
                    "x✓" * (key * 4000 + ts),
                    bytearray(b"\x00\xff" * (key * 3000)),
                    None,
                    None,
                    "",
                )
                for key in keys
            ),
            schema,
        )

    w.write(rows(range(12), 1), "bulk_insert")
    w.write(rows(range(0, 12, 2), 2))
    w.write(rows(range(0, 12, 3), 3))


@case("f_long_texts_row_groups_120", "1.2.0", "column stats of a file of two row groups, of which one has long texts")
def f_long_texts_row_groups(w: Writer) -> None:
    w.options |= {TABLE_TYPE: "COPY_ON_WRITE", "hoodie.parquet.block.size": 1 << 16}
    rows = ((f"k{key:03}", "p", 1, "w" * (3000 + key) if key < 100 else f"b{key}") for key in range(150))
    w.write(w.frame(rows, "id string, part string, ts bigint, s string"), "bulk_insert")
    _ask_of_texts(w)


@case("f_long_texts_partitions_120", "1.2.0", "stats of partitions with a file of long texts and a file of short ones")
def f_long_texts_partitions(w: Writer) -> None:
    w.options |= {TABLE_TYPE: "COPY_ON_WRITE", SMALL_FILES: 0}
    for ts, text in ((1, "long" * 700), (2, "a")):
        rows = ((f"k{key}{ts}", f"p{key}", ts, f"{text}{key}") for key in range(9))
        w.write(w.frame(rows, "id string, part string, ts bigint, s string"), "insert")
    _ask_of_texts(w)


def _ask_of_texts(w: Writer) -> None:
    """Asks for texts of a range, and for all, so that Hudi reads all files: it trusts such stats, and loses rows."""
    w.questions.time_travels = 0
    w.questions.incremental = False
    w.questions.ask_filtered("concat(s, '') > 'c'", "pc.field('s') > 'c'", "s > 'c'")
    w.questions.ask_filtered("concat(s, '') is not null", "pc.field('s').is_valid()", "s is not null")


@case("f_case_names_120", "1.2.0", "column names with upper case, digits, underscores, keywords")
def f_names(w: Writer) -> None:
    w.options |= {RECORD_KEY: "Id", PARTITION_PATH: "Part", ORDERING: "TS"}
    schema = "Id string, Part string, TS bigint, _x int, select string, a1B2 double, nameSpace_9 string"

    def rows(keys: Iterable[int], ts: int, tag: str) -> "DataFrame":
        return w.frame(((f"k{key}", "pq"[key % 2], ts, key, tag, key / 3, tag) for key in keys), schema)

    tell_story(w, rows)
