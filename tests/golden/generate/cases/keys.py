"""E: record keys and partition paths."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tests.golden.generate.cases.stories import tell_story
from tests.golden.generate.options import (
    BLOCK_FORMAT,
    HIVE_STYLE,
    INDEX,
    KEY_GENERATOR,
    KEY_GENERATORS,
    MERGE_MODE,
    METADATA,
    ORDERING,
    PARTITION_PATH,
    PAYLOAD,
    PAYLOADS,
    RECORD_KEY,
    URL_ENCODED,
)
from tests.golden.generate.registry import case
from tests.golden.generate.writer import PARTITIONS, Writer, key_number, with_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ODD_PARTITIONS = ("a b", "x=y", "50%", "sl/ash", "ünï✓", "q?&#", "colon:tab\t", "plus+", "quote'\"")
ODD_FOLDERS = ("a b", "x=y", "sl/ash", "ünï✓", "plus+")
ODD_KEYS = (
    *("", " ", "a,b", "a:b", "x/y", "ü", "日本", "\U0001f600", "new\nline", "tab\t", 'q"uote', "'", "\\", "%20"),
    *("null", "__null__", "A" * 300, "0", "-1", "k=v&z"),
)
COMPLEX = KEY_GENERATORS + "ComplexKeyGenerator"


def flag(*, value: bool) -> str:
    return str(value).lower()


def tell(w: Writer, columns: dict[str, str] | None = None, parts: Sequence[str | None] = PARTITIONS) -> None:
    """The story with rows of the usual table, some columns changed or added."""
    tell_story(w, lambda numbers, ts, tag: with_columns(w.rows(numbers, ts, tag, parts=parts), columns or {}))


@case("e_nonpart_120", "1.2.0", "non-partitioned table")
@case("e_nonpart_0150", "0.15.0", "non-partitioned table")
def e_nonpart(w: Writer) -> None:
    w.options |= {KEY_GENERATOR: KEY_GENERATORS + "NonpartitionedKeyGenerator", PARTITION_PATH: ""}
    tell(w)


@case("e_multilevel_0150", "0.15.0", "three partition levels (string, int, date)")
@case("e_multilevel_120", "1.2.0", "three partition levels (string, int, date)")
@case("e_multilevel_hive_120", "1.2.0", "three partition levels, hive style", hive=True)
def e_multilevel(w: Writer, *, hive: bool = False) -> None:
    w.options |= {PARTITION_PATH: "region,year,day", KEY_GENERATOR: COMPLEX, HIVE_STYLE: flag(value=hive)}
    levels = {"year": f"2020 + {key_number()} % 3", "day": f"date_add(date '2024-02-28', {key_number()} % 2)"}

    def rows(numbers: Iterable[int], ts: int, tag: str) -> "DataFrame":
        frame = w.rows(numbers, ts, tag, parts=("eu", "us")).withColumnRenamed("part", "region")
        return with_columns(frame, levels)

    tell_story(w, rows, keys=24)


@case("e_hive_style_0150", "0.15.0", "hive-style partition folders")
@case("e_hive_style_120", "1.2.0", "hive-style partition folders")
def e_hive(w: Writer) -> None:
    w.options[HIVE_STYLE] = "true"
    tell(w)


@case("e_urlencode_0150", "0.15.0", "url-encoded partition values with special characters", encoded=True)
@case("e_urlencode_120", "1.2.0", "url-encoded partition values with special characters", encoded=True)
@case("e_special_noencode_0150", "0.15.0", "special characters in partition values, no url encoding", encoded=False)
def e_urlencode(w: Writer, *, encoded: bool) -> None:
    w.options |= {URL_ENCODED: flag(value=encoded), HIVE_STYLE: "false"}
    tell(w, parts=ODD_PARTITIONS if encoded else ODD_FOLDERS)


@case("e_ts_keygen_0150", "0.15.0", "TimestampBasedKeyGenerator, epoch millis -> yyyy/MM/dd")
@case("e_ts_keygen_120", "1.2.0", "TimestampBasedKeyGenerator, epoch millis -> yyyy/MM/dd")
@case(
    "e_ts_keygen_partial_102",
    "1.0.2",
    "the same with `PartialUpdateAvroPayload`: null partition columns of the records that it merges",
    payload=PAYLOADS + "PartialUpdateAvroPayload",
)
def e_ts_keygen(w: Writer, *, payload: str | None = None) -> None:
    w.questions.begins_later = w.release[:2] == (1, 0)
    w.options |= {
        PAYLOAD: payload,
        KEY_GENERATOR: KEY_GENERATORS + "TimestampBasedKeyGenerator",
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
        "hoodie.keygen.timebased.timezone": "UTC",
    }
    moment = {"part": "1704067200000 + cast(substr(id, 2) as bigint) * 20000000"}
    tell_story(w, lambda numbers, ts, tag: with_columns(w.rows(numbers, ts, tag), moment), keys=16)


@case("e_drop_part_cols_0150", "0.15.0", "partition columns dropped from the data files")
@case("e_drop_part_cols_120", "1.2.0", "partition columns dropped from the data files")
def e_drop(w: Writer) -> None:
    w.options |= {"hoodie.datasource.write.drop.partition.columns": "true", HIVE_STYLE: "false"}
    # The row writer of 1.2.0 mixes columns up when it drops one that is not the last.
    last = ("id", "ts", "name", "price", "qty", "part")
    tell_story(w, lambda numbers, ts, tag: w.rows(numbers, ts, tag).select(*last))


@case("e_null_part_0150", "0.15.0", "null and empty partition values (__HIVE_DEFAULT_PARTITION__)")
@case("e_null_part_120", "1.2.0", "null and empty partition values (__HIVE_DEFAULT_PARTITION__)")
def e_null_part(w: Writer) -> None:
    w.options[HIVE_STYLE] = "false"
    tell(w, parts=("a", None, ""))


@case("e_virtual_keys_0150", "0.15.0", "virtual keys (hoodie.populate.meta.fields=false)")
@case("e_virtual_keys_120", "1.2.0", "virtual keys (hoodie.populate.meta.fields=false)")
def e_virtual(w: Writer) -> None:
    w.options |= {
        "hoodie.populate.meta.fields": "false",
        INDEX: "SIMPLE",
        KEY_GENERATOR: KEY_GENERATORS + "SimpleKeyGenerator",
    }
    tell(w)


@case("e_composite_keys_0150", "0.15.0", "composite record key a:1,b:2 (incl. null and empty parts)", fields="id,k2,k3")
@case("e_composite_keys_120", "1.2.0", "composite record key a:1,b:2 (incl. null and empty parts)", fields="id,k2,k3")
@case("e_composite_single_120", "1.2.0", "ComplexKeyGenerator with a single key field", fields="id")
def e_composite(w: Writer, *, fields: str) -> None:
    w.options |= {
        RECORD_KEY: fields,
        KEY_GENERATOR: COMPLEX,
        "hoodie.write.complex.keygen.validation.enable": "false",
    }
    tell(
        w,
        {
            "k2": f"if({key_number()} % 5 = 0, null, {key_number()} % 4)",
            "k3": "case when id like '%3' then '' when id like '%7' then 'a,b:c' else 'z' end",
        },
    )


@case("e_composite_filtered_111", "1.1.1", "composite record key, Parquet logs, and filters on its fields by record")
def e_composite_filtered(w: Writer) -> None:
    w.options |= {
        RECORD_KEY: "id,qty",
        KEY_GENERATOR: COMPLEX,
        BLOCK_FORMAT: "parquet",
        "hoodie.write.complex.keygen.validation.enable": "false",
    }
    w.set("spark.sql.parquet.recordLevelFilter.enabled", "true")
    w.questions.time_travels = w.questions.ranges = 1
    w.questions.filters = [[["id", "=", "k00004"]], [["id", ">", "k00005"]], [["qty", "=", 0]]]

    def rows(numbers: Iterable[int], ts: int, tag: str) -> "DataFrame":
        return with_columns(w.rows(numbers, ts, tag, parts=("a",)), {"qty": f"{key_number()} % 3"})

    w.write(rows(range(12), 1, "base"), "insert")
    w.write(rows([0, 2, 4, 6, 1, 3], 2, "u1"))
    w.write(rows([2, 4, 8, 6], 3, "u2"))
    w.write(rows([1, 3], 4, "d"), "delete")


@case("e_odd_keys_0150", "0.15.0", "record keys with odd characters")
@case("e_odd_keys_120", "1.2.0", "record keys with odd characters")
def e_odd(w: Writer) -> None:
    def key(number: int) -> str:
        again = str(number) if number >= len(ODD_KEYS) else ""
        return ODD_KEYS[number % len(ODD_KEYS)] + again or "e"

    def rows(numbers: Iterable[int], ts: int, tag: str) -> "DataFrame":
        return w.frame(
            [(key(number), "ab"[number % 2], ts, f"{tag}-{number}", number / 3, number) for number in numbers],
            "id string, part string, ts bigint, name string, price double, qty int",
        )

    tell_story(w, rows)


@case("e_auto_keys_120", "1.2.0", "no record key given (generated keys), insert only + deltas by insert")
def e_auto_keys(w: Writer) -> None:
    w.options |= {RECORD_KEY: None, ORDERING: None}
    w.upsert(range(20), 1, "base", "bulk_insert")
    w.upsert(range(15, 30), 2, "more", "insert")


@case("e_int_keys_120", "1.2.0", "int record key")
def e_int_keys(w: Writer) -> None:
    tell(w, {"id": key_number()})


@case("e_duplicate_keys_120", "1.2.0", "record keys that a base file has several times; positions in the logs")
@case(
    "e_duplicate_keys_commit_time_120",
    "1.2.0",
    "record keys that a base file has several times, COMMIT_TIME_ORDERING",
    mode="COMMIT_TIME_ORDERING",
)
@case(
    "e_duplicate_keys_fill_120",
    "1.2.0",
    "record keys that a base file has several times, PartialUpdateAvroPayload",
    payload="PartialUpdateAvroPayload",
)
def e_duplicate_keys(w: Writer, *, mode: str | None = None, payload: str | None = None) -> None:
    """Writes of a DataFrame change all rows of a key, by their positions, up to a statement that writes none."""
    w.options |= {KEY_GENERATOR: KEY_GENERATORS + "NonpartitionedKeyGenerator", PARTITION_PATH: "", MERGE_MODE: mode}
    w.options |= {PAYLOAD: payload and PAYLOADS + payload, METADATA: "false"}
    if mode == "COMMIT_TIME_ORDERING":
        w.options[ORDERING] = None
    w.questions.time_travels, w.questions.ranges = 6, 4
    w.questions.ask_filtered("id = 'k1'", "pc.field('id') == 'k1'", "id = 'k1'")
    w.questions.ask_filtered("a = 'newest'", "pc.field('a') == 'newest'", "a = 'newest'")

    def write(operation: str, *rows: tuple[str, int, str | None, str | None]) -> None:
        w.write(w.frame(rows, "id string, ts bigint, a string, b string"), operation)

    write(
        "bulk_insert",
        ("k1", 3, "one", "one"),
        ("k2", 1, "x", "x"),
        ("k1", 1, "two", "two"),
        ("k3", 1, "y", "y"),
        ("k1", 1, "three", "three"),
        ("k4", 1, "a", "a"),
        ("k4", 2, "b", "b"),
    )
    write("upsert", ("k1", 2, "new", None))
    write("delete", ("k4", 9, None, None))
    write("upsert", ("k1", 5, None, "newer"), ("k2", 5, "newer", None))
    w.register()
    w.sql(f"update {w.name} set a = 'sql', ts = 6 where id = 'k3'")
    write("upsert", ("k1", 7, "newest", None))
