"""Golden tables that the ``hudi`` package (hudi-rs) is compared with, and where it is known to differ."""

from tests.support.golden_cases import golden_queries

GROUPS = "abcdei"
"""All but types and schemas, which are no matter of merging, and indexes."""

PEER_REFUSES = {
    "a_story_v5_0122": "table version 6, 8, and 9",
    "b_awsdms_0150": "merger of its own",
    "b_multi_ordering_120": "Multiple ordering fields",
    "b_mysql_debezium_0150": "merger of its own",
    "b_mysql_debezium_120": "Multiple ordering fields",
    "b_nondefaults_payload_v8_by120": "CUSTOM record merge mode",
    "b_partial_update_payload_0150": "merger of its own",
    "b_stored_binary_0150": "unsupported type Binary",
    "b_stored_decimal_partial_0150": "merger of its own",
    "c_data_and_delete_block_0122": "table version 6, 8, and 9",
    "e_drop_part_cols_0150": "drop.partition.columns",
    "e_drop_part_cols_120": "drop.partition.columns",
    "e_ts_keygen_partial_102": "CUSTOM record merge mode",
}
"""Tables that the peer does not read, with what it says."""

MERGED_BY_ORDERING = "a table of Hudi 0.x: log records are folded by their ordering value, whatever the payload"
DELETES_UNORDERED = "a table of Hudi 0.x: deletes, and rows after deletes, win whatever their ordering value"
LOG_ONLY = "log files of a file slice without a base file are not read"
PENDING_COMPACTION = "log files written after a compaction was planned are not read"
PEER_DIFFERS = {
    "b_default_mode_0150": MERGED_BY_ORDERING,
    "b_default_payload_0150": DELETES_UNORDERED,
    "b_default_payload_string_0150": DELETES_UNORDERED,
    "b_delete_marker_0150": DELETES_UNORDERED,
    "b_null_ordering_0150": "a null ordering value counts as 0 in tables of Hudi 0.x",
    "b_overwrite_latest_0150": MERGED_BY_ORDERING,
    "b_postgres_debezium_120": "the marker of an unavailable value stands for the value of the base row",
    "b_spark_merger_0150": MERGED_BY_ORDERING,
    "b_stored_date_0150": DELETES_UNORDERED,
    "b_stored_decimal_0150": DELETES_UNORDERED,
    "d_log_only_120": LOG_ONLY,
    "d_log_only_pending_0150": PENDING_COMPACTION,
    "d_log_only_pending_120": LOG_ONLY,
    "d_pending_compaction_0150": PENDING_COMPACTION,
    "d_pending_compaction_v6_by120": PENDING_COMPACTION,
    "e_null_part_120": "the null partition has the partition value null",
    "e_slash_dates_120": "hyphens stand for the slashes of a partition path, whatever the files have",
    "e_ts_keygen_120": "the partition column of a timestamp key generator is the text of the path",
}
"""Tables of which the peer gives other rows, with what Hudi does and the peer does not."""

TABLES = {
    query.case: query.table
    for query in golden_queries(("snapshot",))
    if query.case[0] in GROUPS and query.answer is not None and not query.case.startswith("i_only_inflight")
}
