"""K, p: extreme values, and types that only Hudi has."""

from typing import TYPE_CHECKING, Any

from tests.golden.generate.options import BLOCK_FORMAT, KEY_GENERATOR, KEY_GENERATORS, METADATA, PARTITION_PATH
from tests.golden.generate.registry import case
from tests.golden.generate.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAP_OF_LISTS = "map<string,array<struct<v:decimal(20,5),t:timestamp>>>"
EXTREMES = {
    "dbl": """element_at(array(cast('NaN' as double), cast('Infinity' as double), cast('-Infinity' as double), -0.0D,
        0.0D, 4.9E-324D, 1.7976931348623157E308D, null), i % 8 + 1)""",
    "flt": """element_at(array(cast('NaN' as float), cast('Infinity' as float), cast('-Infinity' as float),
        cast(-0.0 as float), cast(1.4E-45 as float), cast(3.4028235E38 as float), null), i % 7 + 1)""",
    "dec38": """element_at(array(cast('99999999999999999999.999999999999999999' as decimal(38,18)),
        cast('-99999999999999999999.999999999999999999' as decimal(38,18)),
        cast('0.000000000000000001' as decimal(38,18)), null), i % 4 + 1)""",
    "dec9": "element_at(array(cast(-9999999.99 as decimal(9,2)), cast(0.01 as decimal(9,2)), null), i % 3 + 1)",
    "dec18": """element_at(array(cast('-999999999999999.999' as decimal(18,3)), cast('0.001' as decimal(18,3)), null),
        i % 3 + 1)""",
    "dec0": """element_at(array(cast(99999999999999999999999999999999999999 as decimal(38,0)),
        cast(-1 as decimal(38,0)), null), i % 3 + 1)""",
    "d": """element_at(array(date'0001-01-01', date'1582-10-04', date'1582-10-15', date'1900-01-01', date'1969-12-31',
        date'9999-12-31', null), i % 7 + 1)""",
    "t": """element_at(array(timestamp'0001-01-01 00:00:00.000001', timestamp'1582-10-04 23:59:59.999999',
        timestamp'1900-01-01 00:00:00.123456', timestamp'1969-12-31 23:59:59.999999', timestamp'2262-04-12 00:00:00',
        timestamp'9999-12-31 23:59:59.999999', null), i % 7 + 1)""",
    "str": r"""element_at(array('', ' ', '\u0000', repeat('x', 3000), 'ü😀', '\n\r\t', null), i % 7 + 1)""",
    "bin": "element_at(array(cast('' as binary), x'00', x'FF00FF', null), i % 4 + 1)",
    "l": "element_at(array(cast(-9223372036854775808 as bigint), 9223372036854775807, 0, null), i % 4 + 1)",
    "n": "element_at(array(cast(-2147483648 as int), 2147483647, null), i % 3 + 1)",
    "b": "element_at(array(true, false, null), i % 3 + 1)",
    "deep": """case when i % 5 = 0 then null else named_struct(
        'a', named_struct('b', named_struct('c', named_struct('d', named_struct(
            'e', case when i % 3 = 0 then null else i end, 'f', array(cast(i as string)))))),
        'z', cast(null as string)) end""",
    "arr": """case when i % 5 = 1 then null when i % 5 = 2 then array() else array(
        named_struct('x', cast(i as int),
            'm', map('k', named_struct('q', cast(null as double), 'w', cast(i as string)))),
        named_struct('x', cast(null as int), 'm', cast(null as map<string, struct<q:double,w:string>>))) end""",
    "mp": f"""case when i % 4 = 1 then null when i % 4 = 2 then cast(map() as {MAP_OF_LISTS}) else map(
        'a', array(named_struct('v', cast(1.5 as decimal(20,5)), 't', timestamp'1950-01-01 00:00:00.000001')),
        '', cast(array() as array<struct<v:decimal(20,5),t:timestamp>>)) end""",
}
"""By column, SQL over the number ``i`` of a row."""
FILTERS = (
    ("dbl > 1.0", "pc.field('dbl') > 1.0", "dbl > 1.0"),
    ("dbl = 0.0", "pc.field('dbl') == 0.0", "dbl = 0.0"),
    (
        "dec38 = 0.000000000000000001",
        "pc.field('dec38') == Decimal('0.000000000000000001')",
        "dec38 = 0.000000000000000001",
    ),
    ("d < date'1582-10-10'", "pc.field('d') < dt.date(1582,10,10)", "d < date '1582-10-10'"),
    ("str = ''", "pc.field('str') == ''", "str = ''"),
    (
        "t < timestamp'1901-01-01 00:00:00'",
        "pc.field('t') < pa.scalar(dt.datetime(1901,1,1), pa.timestamp('us','UTC'))",
        "t < timestamptz '1901-01-01 00:00:00+00'",
    ),
    ("bin = x'00'", r"pc.field('bin') == b'\x00'", r"bin = '\x00'::blob"),
    ("deep.a.b.c.d.e = 4", "pc.field('deep','a','b','c','d','e') == 4", "deep.a.b.c.d.e = 4"),
    ("arr is null", "pc.field('arr').is_null()", "arr is null"),
    ("flt is not null and not (flt > 0)", "~(pc.field('flt') > 0)", "not (flt > 0)"),
)


@case("p_ext_avro_120", "1.2.0", "extreme values, Avro logs, base files by upsert")
def p_extremes(w: Writer) -> None:
    w.without_metadata_table()
    w.options[BLOCK_FORMAT] = "avro"
    w.questions.time_travels = w.questions.ranges = 1
    columns = ", ".join(f"{text} as {name}" for name, text in EXTREMES.items())

    def write(first: int, last: int, step: int, ts: int, operation: str = "upsert") -> None:
        rows = w.sql(
            f"select concat('k', lpad(i, 5, '0')) id, concat('p', i % 2) part, cast({ts} as bigint) ts, {columns} "
            f"from (select explode(sequence({first}, {last}, {step})) i)"
        )
        w.write(rows.coalesce(1), operation)

    write(0, 55, 1, 1)
    write(0, 70, 3, 2)
    write(1, 55, 9, 3, "delete")
    for condition in FILTERS:
        w.questions.ask_filtered(*condition)


@case("p_vector_120", "1.2.0", "VECTOR(4) column")
def p_vector(w: Writer) -> None:
    from pyspark.sql import types as t  # noqa: PLC0415 - the registry is read without Spark

    w.without_metadata_table()
    w.questions.time_travels = w.questions.ranges = 1
    schema = t.StructType(
        [
            t.StructField("id", t.StringType()),
            t.StructField("part", t.StringType()),
            t.StructField("ts", t.LongType()),
            t.StructField("emb", t.ArrayType(t.FloatType(), False), True, {"hudi_type": "VECTOR(4)"}),
        ]
    )

    def rows(keys: range, ts: int, factor: float) -> "DataFrame":
        return w.frame(((f"k{key}", "a", ts, None if key == 7 else [key * factor] * 4) for key in keys), schema)

    w.write(rows(range(10), 1, 0.5), "bulk_insert")
    w.write(rows(range(0, 12, 3), 2, -1.0))
    w.write(rows(range(20, 24), 2, -1.0), "insert")


@case("p_blob_120", "1.2.0", "BLOB column by SQL")
def p_blob(w: Writer) -> None:
    from pyspark.sql import types as t  # noqa: PLC0415 - the registry is read without Spark

    w.set(METADATA, "false")
    w.options |= {PARTITION_PATH: "", KEY_GENERATOR: KEY_GENERATORS + "NonpartitionedKeyGenerator"}
    w.questions.time_travels = w.questions.ranges = 1
    w.sql(
        f"create table {w.name} (id int, ts bigint, b blob) using hudi location '{w.path}' "
        "tblproperties (type='mor', primaryKey='id', preCombineField='ts', 'hoodie.metadata.enable'='false')"
    )
    schema = t.StructType(
        [
            t.StructField("id", t.IntegerType()),
            t.StructField("ts", t.LongType()),
            t.StructField("b", w.spark.table(w.name).schema["b"].dataType, True, {"hudi_type": "BLOB"}),
        ]
    )

    def rows(keys: range, ts: int) -> "DataFrame":
        def blob(key: int) -> dict[str, Any] | None:
            return None if key == 3 else {"type": "INLINE", "data": bytearray(b"x%d" % key), "reference": None}

        return w.frame(((key, ts, blob(key)) for key in keys), schema)

    w.write(rows(range(6), 1), "insert")
    w.write(rows(range(0, 8, 2), 2))
