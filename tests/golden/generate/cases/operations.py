"""W: rows that carry the operation of a changelog, as Flink writes them."""

from collections.abc import Iterable

from tests.golden.generate.options import (
    BLOCK_FORMAT,
    COMPACT,
    MERGE_MODE,
    PAYLOAD,
    PAYLOADS,
    SMALL_FILES,
)
from tests.golden.generate.registry import case
from tests.golden.generate.writer import Writer

OPERATION_FIELD = "hoodie.allow.operation.metadata.field"
_SCHEMA = (
    '{"type":"record","name":"changes","fields":[{"name":"id","type":"string"},{"name":"part","type":"string"},'
    '{"name":"ts","type":"int"},{"name":"name","type":["null","string"],"default":null}]}'
)
Change = tuple[int, int, str, str]
"""The number of a key, the ordering value, the operation, and a name."""


# Without options, Hudi 0.15 lets the last write win. Event time fails there as soon as a D meets a base row.
@case("w_operation_0150", "0.15.0", "rows with the operations I, U, -U and D of a changelog in Avro logs")
@case("w_operation_102", "1.0.2", "the same")
@case("w_operation_120", "1.2.0", "the same")
@case("w_operation_v6_by120", "1.2.0", "the same, table version 6", version=6)
@case("w_operation_parquet_120", "1.2.0", "the same, Parquet logs", block_format="parquet")
@case("w_operation_latest_120", "1.2.0", "the same, the last write wins", latest=True)
@case("w_operation_compacted_0150", "0.15.0", "the same, compacted, and changes after that", compacted=True)
@case("w_operation_compacted_120", "1.2.0", "the same, compacted, and changes after that", compacted=True)
def w_operation(
    w: Writer,
    *,
    version: int | None = None,
    block_format: str | None = None,
    latest: bool = False,
    compacted: bool = False,
) -> None:
    w.use_table_version(version)
    w.options |= {OPERATION_FIELD: "true", SMALL_FILES: "0"}
    if block_format is not None:
        w.options[BLOCK_FORMAT] = block_format
    if latest:
        w.options |= {PAYLOAD: PAYLOADS + "OverwriteWithLatestAvroPayload", MERGE_MODE: "COMMIT_TIME_ORDERING"}
    # An empty commit creates the table.
    w.write(w.frame([], "id string, part string, ts int, name string"), "insert")
    change(w, [(key, 10, "I", "first") for key in range(12)] + [(12, 10, "D", "first"), (13, 10, "-U", "first")])
    change(
        w,
        [
            (0, 20, "U", "second"),
            (1, 20, "-U", "second"),
            (2, 20, "D", "second"),
            (3, 5, "U", "late"),
            (4, 5, "D", "late"),
            (5, 5, "-U", "late"),
            (6, 20, "I", "second"),
            (7, 20, "D", "second"),
            (14, 20, "I", "second"),
            (15, 20, "D", "second"),
        ],
    )
    change(w, [(2, 30, "I", "back"), (7, 5, "U", "late"), (1, 20, "U", "tie"), (8, 30, "D", "third")])
    if compacted:
        w.options |= COMPACT
        change(w, [(9, 40, "U", "fourth"), (10, 40, "D", "fourth"), (11, 40, "-U", "fourth")])
        w.options |= {"hoodie.compact.inline": "false"}
        change(w, [(0, 50, "D", "fifth"), (9, 50, "-U", "fifth"), (6, 50, "U", "fifth"), (10, 50, "I", "fifth")])
    # Hudi opens a data file to find the column. This package looks in the properties, to which no writer adds it.
    with (w.path / ".hoodie" / "hoodie.properties").open("a") as properties:
        properties.write(f"{OPERATION_FIELD}=true\n")


def change(w: Writer, changes: Iterable[Change]) -> None:
    """One commit of changes through the write client, as Spark's data source takes no operations."""
    rows = [(f"k{key:02d}", "ab"[key % 2], ts, name, operation) for key, ts, operation, name in changes]
    w.write_records(_SCHEMA, rows)
