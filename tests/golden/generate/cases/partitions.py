"""K, o: key generators, odd partition values and keys, types of partition columns."""

from tests.golden.generate.options import (
    HIVE_STYLE,
    KEY_GENERATOR,
    KEY_GENERATORS,
    ORDERING,
    PARTITION_PATH,
    URL_ENCODED,
)
from tests.golden.generate.registry import case
from tests.golden.generate.writer import Writer, key_number, with_columns

ODD_PARTITIONS = (
    *("a b", "ü中文", "100%", "x=y", "p+q", "it's", 'dq"dq', "a/b", "a:b", "#h?&", "v" * 120, "~.", "{}[]", "tab\tx"),
    *(" lead", "trail ", "%2F", "__x__", "null", "2020-01-01"),
)
ODD_KEYS = (
    *("k", "k 1", "ключ", "a:b,c:d", "100%", "x=y", "'q'", '"', "\\", "long" * 60, "tab\t", "nl\n", " ", "__null__x"),
    *("😀", "k,2", '{"j":1}', "a/b", "+", "%41"),
)


@case("o_custom_text_hive_120", "1.2.0", "CustomKeyGenerator, time as text, hive style")
def o_custom(w: Writer) -> None:
    w.without_metadata_table()
    w.options |= {
        KEY_GENERATOR: KEY_GENERATORS + "CustomKeyGenerator",
        PARTITION_PATH: "part:SIMPLE,ets:TIMESTAMP",
        "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
        "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd'T'HH:mm:ss",
        "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
        "hoodie.keygen.timebased.timezone": "UTC",
        HIVE_STYLE: "true",
    }
    moment = {"ets": "concat('2020-09-', lpad(13 + cast(substr(id, 2) as bigint) % 3, 2, '0'), 'T05:06:07')"}
    w.write(with_columns(w.rows(range(30), 1, "base"), moment), "bulk_insert")
    w.write(with_columns(w.rows(range(0, 36, 2), 2, "u"), moment))
    w.write(with_columns(w.rows(range(0, 30, 5), 3, "d"), moment), "delete")
    w.questions.ask_filtered("part = 'a'", "pc.field('part') == 'a'", "part = 'a'")


@case("o_custom_kinds_0150", "0.15.0", "CustomKeyGenerator, time as a number; a value that the path spells otherwise")
@case("o_custom_kinds_102", "1.0.2", "the same: a column of the path, and one of the files that stays a number")
@case("o_custom_kinds_120", "1.2.0", "the same: a column of the path, and one of the files that stays a number")
@case(
    "o_custom_kinds_v6_by120",
    "1.2.0",
    "the same in table version 6, which does not tell the kinds of fields",
    version=6,
)
def o_custom_kinds(w: Writer, *, version: int | None = None) -> None:
    w.without_metadata_table()
    w.use_table_version(version)
    w.options |= {
        KEY_GENERATOR: KEY_GENERATORS + "CustomKeyGenerator",
        PARTITION_PATH: "part:SIMPLE,at:TIMESTAMP",
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyyMMdd",
        "hoodie.keygen.timebased.timezone": "UTC",
    }
    w.questions.time_travels = w.questions.ranges = 1
    w.questions.begins_later = w.release[:2] == (1, 0)
    # Of a level of a path, Hudi 1.x takes what follows the equals sign.
    columns = {"part": "concat('x=', part)", "at": f"1707004800002L + 86400000L * ({key_number()} % 2)"}
    w.write(with_columns(w.rows(range(12), 1, "base"), columns), "bulk_insert")
    w.write(with_columns(w.rows(range(0, 14, 3), 2, "u"), columns))


@case("o_ordered_partition_120", "1.2.0", "a partition column that orders records, too")
def o_ordered(w: Writer) -> None:
    w.without_metadata_table()
    w.options |= {PARTITION_PATH: "part,qty", ORDERING: "part"}
    w.questions.time_travels = w.questions.ranges = 1
    columns = {"part": "concat('x=', part)", "qty": f"{key_number()} % 2"}
    w.write(with_columns(w.rows(range(12), 1, "base"), columns), "bulk_insert")
    w.write(with_columns(w.rows(range(0, 14, 3), 2, "u"), columns))


@case("o_odd_enc_hive_120", "1.2.0", "odd partition values and keys, url-encoded, hive style")
def o_odd(w: Writer) -> None:
    w.without_metadata_table()
    w.options |= {URL_ENCODED: "true", HIVE_STYLE: "true"}
    schema = "id string, part string, ts bigint, name string, price double, qty int"

    def key(number: int) -> str:
        again = str(number // len(ODD_KEYS)) if number >= len(ODD_KEYS) else ""
        return ODD_KEYS[number % len(ODD_KEYS)] + again

    def write(keys: range, ts: int, tag: str, operation: str) -> None:
        rows = w.rows(keys, ts, tag, part_of=lambda number: ODD_PARTITIONS[number % len(ODD_PARTITIONS)]).collect()
        w.write(w.frame(((key(int(row[0][1:])), *row[1:]) for row in rows), schema), operation)

    write(range(40), 1, "base", "insert")
    write(range(0, 44, 2), 2, "u", "upsert")
    write(range(0, 40, 5), 3, "d", "delete")
    for value in ("x=y", "it's", "ü中文"):
        of_spark, of_duckdb = value.replace("'", "\\'"), value.replace("'", "''")
        w.questions.ask_filtered(f"part = '{of_spark}'", f"pc.field('part') == {value!r}", f"part = '{of_duckdb}'")


@case("o_ptype_ts_120", "1.2.0", "partition column of type ts, with nulls")
def o_timestamp(w: Writer) -> None:
    w.without_metadata_table()
    w.options |= {PARTITION_PATH: "p", URL_ENCODED: "true"}
    w.questions.time_travels = w.questions.ranges = 1
    hours = "cast(substr(id, 6) as int)"
    moment = {
        "p": "case when id like '%7' then null "
        f"else timestamp'2020-01-01 00:00:00' + make_interval(0,0,0,0,{hours}) end"
    }
    w.write(with_columns(w.rows(range(20), 1, "base"), moment), "insert")
    w.write(with_columns(w.rows(range(0, 20, 2), 2, "u"), moment))
    w.questions.ask_filtered(
        "p = timestamp'2020-01-01 03:00:00'",
        "pc.field('p') == pa.scalar(dt.datetime(2020,1,1,3), pa.timestamp('us','UTC'))",
    )
    w.questions.ask_filtered("p is null", "pc.field('p').is_null()")
