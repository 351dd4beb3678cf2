"""Answers worked out by hand, for tables that Hudi can write but not read: the rows, or where to find them."""

from typing import Any

_NULL_ORDERING = (
    "Event-time ordering treats a null ordering value like 0, the default of the type; the same data with an int "
    "ordering column, b_null_ordering_int_120, shows it. With a bigint column 1.2.0 compares that default, an Integer, "
    "with Long values: ClassCastException. Log records of a key are merged first, in commit order, the later one "
    "winning ties; what is left is merged with the base record, the log winning ties; a delete without an ordering "
    "value always deletes what precedes it."
)

BY_HAND: dict[str, dict[str, Any]] = {
    "a_story_v8_102": {
        "query": "snapshot",
        "reasoning": "1.0.2 gives the records of a delete block the Integer 0 as ordering value, and compares it with "
        "the Long of a later record of the key: ClassCastException. The table is sound: see alt_expected, the answer "
        "of 1.2.0, and the same story with an int ordering column, a_story_v8_102_intts.",
    },
    "b_null_ordering_120": {
        "query": "snapshot",
        "columns": ["id", "ts", "val"],
        "reasoning": _NULL_ORDERING,
        "rows": [
            ["k0", None, "u1"],
            ["k1", 5, "u1"],
            ["k2", 10, "u2"],
            ["k3", 10, "b"],
            ["k4", None, "u2"],
            ["k5", None, "u1"],
            ["k6", None, "u1"],
            ["k8", None, "u2"],
        ],
    },
    "b_null_ordering_base_120": {
        "query": "snapshot",
        "columns": ["id", "ts", "val"],
        "reasoning": _NULL_ORDERING,
        "rows": [
            ["k0", 5, "u1"],
            ["k1", None, "b"],
            ["k2", 0, "u1"],
            ["k4", None, "b"],
            ["k5", None, "b"],
            ["k6", None, "b"],
            ["k7", None, "b"],
            ["k9", 1, "ins"],
        ],
    },
    "c_hfile_blocks_120": {
        "query": "snapshot",
        "same_as": "c_avro_blocks_120",
        "except_columns": ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name"],
        "reasoning": "1.2.0 writes HFile data blocks, but its file group reader cannot read them: it casts an Avro "
        "record to InternalRow. Rows and operations are those of c_avro_blocks_120, so the data columns must be equal. "
        "0.15.0 reads such blocks (c_hfile_blocks_0150).",
    },
    "g_required_column_120": {
        "query": "read_optimized",
        "columns": ["id", "must", "num"],
        "reasoning": "The base file of k00000 to k00005 lacks the columns, which Spark's vectorized reader reports as "
        "a required column that is missing. The rows are there, and a column that a file lacks is null. The other base "
        "file has them.",
        "rows": [
            *([f"k{number:05d}", None, None] for number in range(6)),
            ["k00008", 1.5, 7],
        ],
    },
}
