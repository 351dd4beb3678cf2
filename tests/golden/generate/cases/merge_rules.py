"""B: merge modes, payloads, deletes, and partial updates."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from tests.golden.generate.options import BLOCK_FORMAT, COMPACT, MERGE_MODE, ORDERING, PAYLOAD, PAYLOADS
from tests.golden.generate.registry import case
from tests.golden.generate.writer import Writer

EVENTS = "id string, part string, ts {type}, val string, _hoodie_is_deleted boolean"
MERGER_OPTION = "hoodie.datasource.write.record.merger.impls"
SPARK_MERGER = "org.apache.hudi.HoodieSparkRecordMerger"
ORDERING_VALUES: dict[str, Callable[[int], Any]] = {
    "bigint": int,
    "int": int,
    "string": lambda value: f"{value:04d}",
    "timestamp": lambda value: dt.datetime(2024, 1, 1, 0, 0, value, 123456),
    "decimal(20,4)": lambda value: Decimal(value) / 4,
}
STORED_VALUES: dict[str, Callable[[int], Any]] = {
    "date": lambda value: dt.date(2024, 1, 1) + dt.timedelta(value),
    "decimal(10,2)": Decimal,
    "binary": lambda value: bytearray((value % 256, 16)),
}
UNAVAILABLE = "__debezium_unavailable_value"

Event = tuple[int, int, str] | tuple[int, int, str, bool]


def part_of(key: int) -> str:
    return "pq"[key % 2]


@case(
    "b_commit_time_120", "1.2.0", "COMMIT_TIME_ORDERING; late updates, late deletes, ties", mode="COMMIT_TIME_ORDERING"
)
@case("b_event_time_120", "1.2.0", "EVENT_TIME_ORDERING; late updates, late deletes, ties", mode="EVENT_TIME_ORDERING")
@case("b_event_time_111", "1.1.1", "EVENT_TIME_ORDERING", mode="EVENT_TIME_ORDERING")
@case("b_commit_time_102", "1.0.2", "COMMIT_TIME_ORDERING", mode="COMMIT_TIME_ORDERING")
@case("b_default_mode_120", "1.2.0", "no merge mode given: default with ordering field")
@case("b_default_mode_0150", "0.15.0", "no payload given: 0.15 default payload")
@case("b_event_time_v6_by120", "1.2.0", "EVENT_TIME_ORDERING in table version 6", mode="EVENT_TIME_ORDERING", version=6)
@case(
    "b_commit_time_v6_by120", "1.2.0", "COMMIT_TIME_ORDERING in table version 6", mode="COMMIT_TIME_ORDERING", version=6
)
@case("b_overwrite_latest_0150", "0.15.0", "OverwriteWithLatestAvroPayload", payload="OverwriteWithLatestAvroPayload")
@case("b_default_payload_0150", "0.15.0", "DefaultHoodieRecordPayload", payload="DefaultHoodieRecordPayload")
@case(
    "b_overwrite_latest_120",
    "1.2.0",
    "OverwriteWithLatestAvroPayload via payload class",
    payload="OverwriteWithLatestAvroPayload",
)
@case("b_event_time_payload_120", "1.2.0", "EventTimeAvroPayload", payload="EventTimeAvroPayload")
@case(
    "b_event_time_string_120",
    "1.2.0",
    "EVENT_TIME_ORDERING, ordering field is a string",
    mode="EVENT_TIME_ORDERING",
    ordering="string",
)
@case(
    "b_event_time_int_120",
    "1.2.0",
    "EVENT_TIME_ORDERING, ordering field is an int (delete default 0)",
    mode="EVENT_TIME_ORDERING",
    ordering="int",
)
@case(
    "b_event_time_timestamp_120",
    "1.2.0",
    "EVENT_TIME_ORDERING, ordering field is a timestamp",
    mode="EVENT_TIME_ORDERING",
    ordering="timestamp",
)
@case(
    "b_event_time_decimal_120",
    "1.2.0",
    "EVENT_TIME_ORDERING, ordering field is decimal(20,4)",
    mode="EVENT_TIME_ORDERING",
    ordering="decimal(20,4)",
)
@case(
    "b_default_payload_string_0150",
    "0.15.0",
    "DefaultHoodieRecordPayload, string ordering field",
    payload="DefaultHoodieRecordPayload",
    ordering="string",
)
@case("b_no_ordering_120", "1.2.0", "no ordering field at all", ordering=None)
@case(
    "b_no_isdeleted_col_0150",
    "0.15.0",
    "delete operation only, no _hoodie_is_deleted column",
    payload="DefaultHoodieRecordPayload",
    flagged=False,
)
@case("b_spark_merger_0150", "0.15.0", "HoodieSparkRecordMerger + parquet log blocks", merger=SPARK_MERGER)
def b_merge(
    w: Writer,
    *,
    mode: str | None = None,
    payload: str | None = None,
    version: int | None = None,
    ordering: str | None = "bigint",
    merger: str | None = None,
    flagged: bool = True,
) -> None:
    """The story of the events (see tests/golden/README.md); ``flagged`` with the column that flags deletes."""
    w.use_table_version(version)
    if mode is not None:
        w.options[MERGE_MODE] = mode
        if mode == "COMMIT_TIME_ORDERING":
            # The mode alone is overruled when the table is created.
            payload = "OverwriteWithLatestAvroPayload"
    if payload is not None:
        w.options[PAYLOAD] = PAYLOADS + payload
        w.options["hoodie.payload.ordering.field"] = "ts"
        w.options["hoodie.payload.event.time.field"] = "ts"
    if merger is not None:
        w.options[MERGER_OPTION] = merger
        w.options[BLOCK_FORMAT] = "parquet"
        w.reader_options[MERGER_OPTION] = merger
    if ordering is None:
        w.options[ORDERING] = None
    type_ = w.ordering_type if ordering is None or ordering == "bigint" else ordering
    value = ORDERING_VALUES[type_]
    schema = EVENTS.format(type=type_) if flagged else EVENTS.format(type=type_).rpartition(",")[0]

    def write(operation: str, *events: Event) -> None:
        rows = [
            (f"k{key:02d}", "p" if key % 2 else "q", value(ts), text, *([any(deleted)] if flagged else []))
            for key, ts, text, *deleted in events
        ]
        w.write(w.frame(rows, schema), operation)

    write("bulk_insert", *((key, 10, "base") for key in range(24)))
    write("upsert", (0, 5, "late"), (1, 10, "tie"), (2, 20, "new"), (18, 20, "new"), (17, 5, "late"))
    if flagged:
        write(
            "upsert",
            (4, 5, "d-late", True),
            (5, 10, "d-tie", True),
            (6, 20, "d-new", True),
            (10, 20, "d", True),
            (11, 20, "d", True),
            (12, 20, "d", True),
            (30, 20, "d-absent", True),
        )
    write("delete", (7, 5, "x"), (8, 10, "x"), (9, 20, "x"), (13, 10, "x"), (14, 20, "x"))
    write(
        "upsert",
        (10, 15, "late-after-del"),
        (11, 20, "tie-after-del"),
        (12, 25, "new-after-del"),
        (13, 5, "late-after-delop"),
        (14, 15, "late-after-delop20"),
        (17, 12, "mid"),
        (18, 15, "between"),
        (30, 15, "late-insert"),
        (15, 12, "first"),
        (15, 11, "second"),
        (16, 12, "dup1"),
        (16, 13, "dup2"),
        (40, 10, "ins"),
    )


@case(
    "b_null_ordering_120",
    "1.2.0",
    "EVENT_TIME_ORDERING with null ordering values in base and log",
    mode="EVENT_TIME_ORDERING",
)
@case(
    "b_null_ordering_int_120",
    "1.2.0",
    "EVENT_TIME_ORDERING with null values of an int ordering field in base and log",
    mode="EVENT_TIME_ORDERING",
    ordering="int",
)
def b_null_ordering(w: Writer, *, mode: str, ordering: str = "bigint") -> None:
    w.options[MERGE_MODE] = mode

    def write(operation: str, *rows: tuple[Any, ...]) -> None:
        frame = [(f"k{key}", "p", ts, text, any(deleted)) for key, ts, text, *deleted in rows]
        w.write(w.frame(frame, EVENTS.format(type=ordering)), operation)

    base = {0: None, 1: None, 2: 10, 3: 10, 4: None, 5: -5, 6: 0, 7: 10, 8: None}
    write("bulk_insert", *((key, ts, "b") for key, ts in base.items()))
    write(
        "upsert",
        (0, None, "u1"),
        (1, 5, "u1"),
        (2, None, "u1"),
        (4, -5, "u1"),
        (5, None, "u1"),
        (6, None, "u1"),
        (7, None, "d1", True),
        (8, None, "d1", True),
    )
    write("upsert", (1, None, "u2"), (2, 10, "u2"), (3, None, "u2"), (4, None, "u2"), (8, None, "u2"))


@case(
    "b_null_ordering_0150",
    "0.15.0",
    "DefaultHoodieRecordPayload with null ordering values",
    payload="DefaultHoodieRecordPayload",
)
@case("b_null_ordering_base_120", "1.2.0", "null ordering values only in base files", mode="EVENT_TIME_ORDERING")
def b_null_ordering_base(w: Writer, *, mode: str | None = None, payload: str | None = None) -> None:
    """0.15 refuses null ordering values in upserts, not in a bulk insert."""
    if mode is not None:
        w.options[MERGE_MODE] = mode
    if payload is not None:
        w.options[PAYLOAD] = PAYLOADS + payload
        w.options["hoodie.payload.ordering.field"] = "ts"

    def write(operation: str, *rows: tuple[Any, ...]) -> None:
        frame = [(f"k{key}", "p", ts, text, any(deleted)) for key, ts, text, *deleted in rows]
        w.write(w.frame(frame, EVENTS.format(type="bigint")), operation)

    write("bulk_insert", *((key, None, "b") for key in range(8)))
    write("upsert", (0, 5, "u1"), (1, -5, "u1"), (2, 0, "u1"), (3, 5, "d1", True), (4, -5, "d1", True))
    write("upsert", (0, 4, "u2"), (1, -6, "u2"), (5, -1, "u2"), (9, 1, "ins"))


@case("b_stored_date_0150", "0.15.0", "date ordering field: deletes among log records", ordering="date")
@case(
    "b_stored_decimal_0150",
    "0.15.0",
    "decimal ordering field: deletes and negative values among log records",
    ordering="decimal(10,2)",
)
@case(
    "b_stored_binary_0150",
    "0.15.0",
    "binary ordering field: deletes among log records, signed bytes",
    ordering="binary",
)
@case(
    "b_stored_decimal_partial_0150",
    "0.15.0",
    "PartialUpdateAvroPayload, decimal ordering field: late records",
    ordering="decimal(10,2)",
    payload="PartialUpdateAvroPayload",
)
def b_stored_ordering(w: Writer, *, ordering: str, payload: str = "DefaultHoodieRecordPayload") -> None:
    """Ordering values that 0.x compares as Avro stores them: late and newer deletes, and values below 0."""
    w.options |= {PAYLOAD: PAYLOADS + payload, "hoodie.payload.ordering.field": "ts"}
    value = STORED_VALUES[ordering]

    def write(operation: str, *rows: tuple[Any, ...]) -> None:
        frame = [(f"k{key}", "p", value(ts), text, any(deleted)) for key, ts, text, *deleted in rows]
        w.write(w.frame(frame, EVENTS.format(type=ordering)), operation)

    write("bulk_insert", *((key, 1, "b") for key in range(9)))
    write(
        "upsert",
        *((key, 5, "u1") for key in range(4)),
        (4, -5, "u1"),
        (5, 5, "u1"),
        (6, -1, "u1"),
        (7, 0, "u1"),
        (8, -2, None),
    )
    write("upsert", (4, 3, "u2"), (5, -7, "u2"), (6, -9, "u2"), (9, 1, "ins"))
    write("upsert", (0, 3, "d-late", True), (1, 7, "d-new", True), (2, 3, "d-late", True), (9, 0, "d-late", True))
    write("upsert", (1, 6, "re-late"), (2, 4, "re-new"), (3, 4, "late"))


@case(
    "b_row_groups_0150",
    "0.15.0",
    "incremental: late log records of base rows, in and beside files with rows of the range",
)
@case("b_late_rows_102", "1.0.2", "incremental: late log records of base rows from before the range", inserts=False)
@case("b_late_rows_v6_by102", "1.0.2", "the same in table version 6", inserts=False, version=6)
@case("b_late_rows_120", "1.2.0", "incremental: late log records of base rows from before the range", inserts=False)
def b_row_groups(w: Writer, *, inserts: bool = True, version: int | None = None) -> None:
    """A compacted base file with rows of several commits, and one of which all are from before most ranges."""
    w.options |= {PAYLOAD: PAYLOADS + "DefaultHoodieRecordPayload", "hoodie.payload.ordering.field": "ts"}
    w.use_table_version(version)
    w.questions.begins_later = w.release[:2] == (1, 0)

    def write(*rows: tuple[int, str, int, str], compacts: bool = False) -> None:
        frame = [(f"k{key}", part, ts, text) for key, part, ts, text in rows]
        w.write(
            w.frame(frame, "id string, part string, ts bigint, val string"), "upsert", COMPACT if compacts else None
        )

    write((0, "p", 1, "b"), (1, "p", 1, "b"), (2, "q", 5, "b"), (3, "q", 5, "b"))
    write((0, "p", 2, "u"), (2, "q", 0, "late"), compacts=True)
    # An insert goes into a small base file, which is then written anew, with the updates.
    late = ((1, "p", 0, "late"), (3, "q", 1, "late"))
    write(*late, *(((4, "p", 1, "ins"),) if inserts else ()))


@case(
    "b_delete_marker_120",
    "1.2.0",
    "custom delete key/marker (op = D), DefaultHoodieRecordPayload",
    payload="DefaultHoodieRecordPayload",
)
@case(
    "b_delete_marker_0150",
    "0.15.0",
    "custom delete key/marker (op = D), DefaultHoodieRecordPayload",
    payload="DefaultHoodieRecordPayload",
)
@case(
    "b_delete_marker_mode_120",
    "1.2.0",
    "custom delete key/marker with merge mode EVENT_TIME_ORDERING",
    mode="EVENT_TIME_ORDERING",
)
def b_delete_marker(w: Writer, *, payload: str | None = None, mode: str | None = None) -> None:
    marker = {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"}
    w.options |= {**marker, "hoodie.payload.ordering.field": "ts"}
    if payload is not None:
        w.options[PAYLOAD] = PAYLOADS + payload
    if mode is not None:
        w.options[MERGE_MODE] = mode
    if w.release < (1, 0):
        w.reader_options |= marker

    def write(operation: str, *rows: tuple[int, int, str, str | None]) -> None:
        frame = [(f"k{key}", part_of(key), ts, text, op) for key, ts, text, op in rows]
        w.write(w.frame(frame, "id string, part string, ts bigint, val string, op string"), operation)

    write("bulk_insert", *((key, 10, "b", "I") for key in range(10)))
    write(
        "upsert",
        (0, 20, "d", "D"),
        (1, 10, "d", "D"),
        (2, 5, "d", "D"),
        (3, 20, "u", "U"),
        (4, 5, "u", "U"),
        (5, 20, "d", "D"),
        (6, 20, "d", "D"),
        (20, 20, "d", "D"),
    )
    write(
        "upsert",
        (5, 15, "re-late", "I"),
        (6, 25, "re-new", "I"),
        (3, 20, "d", "D"),
        (21, 1, "ins", None),
        (20, 30, "ins", "I"),
    )


@case("b_empty_payload_0150", "0.15.0", "EmptyHoodieRecordPayload used to delete")
@case("b_empty_payload_v6_by120", "1.2.0", "EmptyHoodieRecordPayload used to delete, table version 6", version=6)
def b_empty_payload(w: Writer, *, version: int | None = None) -> None:
    w.use_table_version(version)
    w.upsert(range(30), 1, "base", "bulk_insert")
    w.upsert(range(0, 30, 4), 2, "u")
    w.upsert(range(0, 30, 6), 3, "d", options={PAYLOAD: PAYLOADS + "EmptyHoodieRecordPayload"})
    w.upsert(range(0, 30, 5), 4, "u")


@case(
    "b_partial_update_payload_0150",
    "0.15.0",
    "PartialUpdateAvroPayload: nulls keep the stored value",
    payload="PartialUpdateAvroPayload",
)
@case(
    "b_partial_update_payload_120",
    "1.2.0",
    "PartialUpdateAvroPayload: nulls keep the stored value",
    payload="PartialUpdateAvroPayload",
)
@case(
    "b_nondefaults_payload_120",
    "1.2.0",
    "OverwriteNonDefaultsWithLatestAvroPayload",
    payload="OverwriteNonDefaultsWithLatestAvroPayload",
)
@case(
    "b_nondefaults_payload_v8_by120",
    "1.2.0",
    "OverwriteNonDefaultsWithLatestAvroPayload in table version 8",
    payload="OverwriteNonDefaultsWithLatestAvroPayload",
    version=8,
)
def b_partial_payload(w: Writer, *, payload: str, version: int | None = None) -> None:
    w.options |= {PAYLOAD: PAYLOADS + payload, "hoodie.payload.ordering.field": "ts"}
    w.use_table_version(version)

    def write(operation: str, *rows: tuple[Any, ...]) -> None:
        frame = [(f"k{key}", part_of(key), *values) for key, *values in rows]
        w.write(w.frame(frame, "id string, part string, ts bigint, a string, b int, c double, d string"), operation)

    write("bulk_insert", *((key, 10, f"a{key}", key, key / 4, "d") for key in range(12)))
    write(
        "upsert",
        (0, 11, "A0", None, None, None),
        (1, 11, None, 101, None, None),
        (2, 5, "late", None, 0.5, None),
        (3, 10, None, None, None, "tie"),
        (4, 11, None, None, None, None),
        (5, 11, "A5", None, None, None),
        (20, 11, None, 1, None, None),
    )
    write(
        "upsert",
        (0, 12, None, 100, None, None),
        (1, 9, "late", None, 9.5, None),
        (5, 12, None, None, 5.5, None),
        (2, 12, None, None, None, "D2"),
        (20, 10, "late", None, 2.0, "x"),
        (21, 1, "n", None, None, None),
    )
    write("delete", (6, 20, None, None, None, None))
    write("upsert", (6, 21, "re", None, None, None), (7, 21, "", 0, 0.0, ""))


@case("b_awsdms_0150", "0.15.0", "AWSDmsAvroPayload: Op = D deletes")
@case("b_awsdms_120", "1.2.0", "AWSDmsAvroPayload: Op = D deletes")
def b_awsdms(w: Writer) -> None:
    w.options[PAYLOAD] = PAYLOADS + "AWSDmsAvroPayload"

    def write(operation: str, *rows: tuple[int, int, str, str | None]) -> None:
        frame = [(f"k{key}", part_of(key), ts, text, op) for key, ts, text, op in rows]
        w.write(w.frame(frame, "id string, part string, ts bigint, val string, Op string"), operation)

    write("bulk_insert", *((key, 10, "b", "I") for key in range(10)))
    write(
        "upsert",
        (0, 20, "u", "U"),
        (1, 5, "u", "U"),
        (2, 20, "d", "D"),
        (3, 5, "d", "D"),
        (4, 20, "d", "D"),
        (20, 9, "d", "D"),
    )
    write("upsert", (4, 15, "re", "I"), (0, 15, "u2", "U"), (5, 11, "null op", None), (20, 10, "i", "I"))


@case("b_mysql_debezium_120", "1.2.0", "MySqlDebeziumAvroPayload (ordering by binlog file and position)")
@case("b_mysql_debezium_0150", "0.15.0", "MySqlDebeziumAvroPayload (ordering by _event_seq)")
def b_mysql(w: Writer) -> None:
    w.options[PAYLOAD] = PAYLOADS + "debezium.MySqlDebeziumAvroPayload"
    if w.release >= (1, 1):
        w.options[ORDERING] = w.options["hoodie.table.ordering.fields"] = "_event_bin_file,_event_pos"
    else:
        w.options[ORDERING] = "_event_seq"
    schema = (
        "id string, part string, val string, _change_operation_type string, _event_bin_file string, _event_pos bigint, "
        "_event_seq string"
    )

    def write(operation: str, *rows: tuple[int, int, int, str, str]) -> None:
        frame = [
            (f"k{key}", part_of(key), text, op, f"mysql-bin.{file:06d}", place, f"{file:06d}.{place}")
            for key, file, place, text, op in rows
        ]
        w.write(w.frame(frame, schema), operation)

    write("bulk_insert", *((key, 5, 100, "b", "c") for key in range(10)))
    write(
        "upsert",
        (0, 5, 101, "u", "u"),
        (1, 5, 99, "late", "u"),
        (2, 6, 1, "newfile", "u"),
        (3, 4, 999, "oldfile", "u"),
        (4, 5, 200, "d", "d"),
        (5, 5, 50, "d-late", "d"),
        (6, 5, 1000, "num", "u"),
    )
    write(
        "upsert",
        (4, 5, 150, "re-late", "c"),
        (2, 5, 9999, "late2", "u"),
        (6, 5, 999, "num-late", "u"),
        (20, 7, 1, "ins", "c"),
    )


@case("b_postgres_debezium_120", "1.2.0", "PostgresDebeziumAvroPayload (ordering by LSN, toasted values)")
def b_postgres(w: Writer) -> None:
    w.options |= {
        PAYLOAD: PAYLOADS + "debezium.PostgresDebeziumAvroPayload",
        ORDERING: "_event_lsn",
        "hoodie.table.ordering.fields": "_event_lsn",
    }
    schema = "id string, part string, val string, big string, _change_operation_type string, _event_lsn bigint"

    def write(operation: str, *rows: tuple[int, int, str, str, str]) -> None:
        frame = [(f"k{key}", part_of(key), text, big, op, place) for key, place, text, big, op in rows]
        w.write(w.frame(frame, schema), operation)

    write("bulk_insert", *((key, 100, "b", f"big{key}", "c") for key in range(10)))
    write(
        "upsert",
        (0, 101, "u", UNAVAILABLE, "u"),
        (1, 99, "late", UNAVAILABLE, "u"),
        (2, 100, "tie", "new", "u"),
        (4, 200, "d", UNAVAILABLE, "d"),
        (5, 50, "d-late", UNAVAILABLE, "d"),
        (6, 110, "u", "set", "u"),
        (7, 120, UNAVAILABLE, UNAVAILABLE, "u"),
    )
    write("upsert", (4, 150, "re-late", "B", "c"), (6, 120, "u2", UNAVAILABLE, "u"), (20, 5, "ins", UNAVAILABLE, "c"))


@case("b_multi_ordering_120", "1.2.0", "two ordering fields (comma separated), EVENT_TIME_ORDERING")
def b_multi_ordering(w: Writer) -> None:
    w.options |= {ORDERING: None, "hoodie.table.ordering.fields": "ts,seq", MERGE_MODE: "EVENT_TIME_ORDERING"}
    schema = "id string, part string, ts bigint, seq int, val string, _hoodie_is_deleted boolean"

    def write(operation: str, *rows: tuple[Any, ...]) -> None:
        frame = [(f"k{key}", part_of(key), ts, seq, text, any(deleted)) for key, ts, seq, text, *deleted in rows]
        w.write(w.frame(frame, schema), operation)

    write("bulk_insert", *((key, 10, 10, "b") for key in range(14)))
    write(
        "upsert",
        (0, 10, 11, "u"),
        (1, 10, 9, "u"),
        (2, 11, 1, "u"),
        (3, 9, 99, "u"),
        (4, 10, 10, "tie"),
        (5, 10, 11, "d", True),
        (6, 9, 50, "d", True),
        (7, 11, 0, "d", True),
        (10, 11, 11, "d", True),
    )
    write("delete", (8, 0, 0, "x"), (9, 11, 11, "x"))
    write(
        "upsert",
        (7, 10, 99, "re"),
        (8, 1, 1, "re"),
        (10, 12, 0, "re"),
        (10, 11, 99, "re2"),
        (20, 1, 1, "i"),
    )


@case("b_mixed_commit_0150", "0.15.0", "_hoodie_is_deleted inside one commit together with inserts and updates")
def b_mixed_commit(w: Writer) -> None:
    def write(operation: str, *rows: tuple[int, int, str, bool | None]) -> None:
        frame = [(f"k{key}", part_of(key), ts, text, deleted) for key, ts, text, deleted in rows]
        w.write(w.frame(frame, EVENTS.format(type="bigint")), operation)

    write("bulk_insert", *((key, 1, "b", None if key % 3 == 0 else False) for key in range(10)))
    write(
        "upsert",
        (0, 2, "d", True),
        (1, 2, "u", None),
        (2, 2, "d", True),
        (3, 2, "u", False),
        (11, 2, "i", False),
        (12, 2, "d", True),
    )


CREATE = """create table {name} (id string, ts bigint, a string, b int, c double, d array<int>,
    e struct<x:int,y:string>, part string)
  using hudi partitioned by (part) location '{path}'
  tblproperties (type='mor', primaryKey='id', preCombineField='ts')"""
INSERT = """insert into {name} select concat('k', lpad(id, 3, '0')), 10, concat('a', id), cast(id as int), id / 8,
    array(cast(id as int), 7), named_struct('x', cast(id as int), 'y', 'y'), if(id % 2 = 0, 'p', 'q')
  from range(0, 20, 1, 1)"""
MERGE_ONE_COLUMN = """merge into {name} t using (
    select 'k002' id, 12L ts, 200 b, 'p' part union all select 'k004', 12L, 400, 'p'
    union all select 'k005', 5L, 500, 'q' union all select 'k006', 10L, 600, 'p') s on t.id = s.id
  when matched then update set b = s.b, ts = s.ts"""
MERGE_EVERY_WAY = """merge into {name} t using (
    select 'k002' id, 13L ts, 2.5D c, 'p' part union all select 'k030', 1L, 30.5D, 'p'
    union all select 'k007', 13L, 7.5D, 'q') s on t.id = s.id
  when matched and s.id = 'k007' then delete
  when matched then update set c = s.c, ts = s.ts
  when not matched then insert (id, ts, a, b, c, d, e, part) values (s.id, s.ts, 'ins', 1, s.c, null, null, s.part)"""


@case("b_sql_partial_120", "1.2.0", "partial updates from MERGE INTO and UPDATE (IS_PARTIAL blocks)")
@case("b_sql_partial_102", "1.0.2", "partial updates from MERGE INTO and UPDATE (IS_PARTIAL blocks)")
@case("b_sql_partial_parquet_120", "1.2.0", "partial updates in Parquet log blocks", block_format="parquet")
@case("b_sql_update_0150", "0.15.0", "UPDATE / DELETE by SQL in 0.15 (full records)")
def b_sql_partial(w: Writer, *, block_format: str | None = None) -> None:
    if block_format is not None:
        w.set(BLOCK_FORMAT, block_format)
    w.sql(CREATE.format(name=w.name, path=w.path))
    w.sql(INSERT.format(name=w.name))
    w.sql(f"update {w.name} set a = concat(a, '!'), ts = 11 where id in ('k001','k002','k003')")
    if w.release < (1, 0):
        # 0.15 refuses to merge a source that lacks columns.
        w.sql(f"update {w.name} set b = 200, ts = 12 where id in ('k002', 'k004')")
        w.sql(f"update {w.name} set b = 500, ts = 5 where id = 'k005'")
    else:
        w.sql(MERGE_ONE_COLUMN.format(name=w.name))
        w.sql(MERGE_EVERY_WAY.format(name=w.name))
    w.sql(f"delete from {w.name} where id = 'k008'")
    w.sql(f"update {w.name} set e = named_struct('x', -1, 'y', 'upd'), ts = 20 where id in ('k002', 'k009', 'k030')")
