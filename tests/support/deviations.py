"""Which queries to golden tables are answered as Hudi does, which are not, and why."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.support.golden_queries import QUERIES, Key
from tests.support.hudi_failures import failures_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """Queries to a case for which other rows than Hudi's are returned, deliberately."""

    case: str
    indices: tuple[int, ...]
    reason: str


TAKEN_OVER = "m_v6_plain_120"
"""A table of Hudi 0.15 to which 1.2 writes without a trace in its properties."""

NULL_PARTITIONS = "e_ts_keygen_partial_102"
"""A table with a timestamp key generator and a payload, whose partition column Hudi 1.0 loses in slices with logs."""

FILTERED_LOGS = "e_composite_filtered_111"
"""A table with Parquet logs that Spark filtered by record."""

REQUIRED_COLUMNS = "g_required_column_120"
"""A table with columns of numbers that must not be null, and that a base file lacks."""

BEGIN_INCLUDED: Mapping[str, tuple[int, ...]] = {
    "a_story_v8_102": (9,),
    "a_story_v8_102_intts": (8, 9),
    "b_commit_time_102": (8, 9),
    "b_sql_partial_102": (9, 10),
    "d_compacted_only_102": (7, 8),
    "h_expression_index_102": (5, 6),
    "h_sql_indexes_updated_102": (7, 8),
    "i_cdc_102": (9, 11),
}
"""Incremental queries whose answers contain the rows of the begin."""

WRITTEN_BESIDE_A_PENDING_COMPACTION: Mapping[str, tuple[int, ...]] = {
    "k_min_nbcc_pending_120": (4, 5, 7),
    "k_nbcc_pending_120": (3,),
}
"""Queries that concern a commit that completed after a compaction was planned, and was requested before."""

OTHER_JSON: Mapping[str, tuple[int, ...]] = {"i_cdc_0150": (8, 10, 12), "q_cdc_key_0150": (10,)}
"""Queries for changes whose answers have the same images in other JSON."""

DEVIATIONS = (
    Deviation(
        case="b_spark_merger_0150",
        indices=(0, 3, 4, 5, 6, 7),
        reason="the merger was an option of the session that wrote; what the table stores calls for another rule",
    ),
    *(
        Deviation(
            case=case,
            indices=indices,
            reason="Hudi 1.0 includes the begin of a range, all other releases leave it out, so that ranges join",
        )
        for case, indices in BEGIN_INCLUDED.items()
    ),
    *(
        Deviation(case=case, indices=indices, reason="the JSON of images is that of Hudi 1.1 and later in all tables")
        for case, indices in OTHER_JSON.items()
    ),
    Deviation(case="i_cdc_102", indices=(8, 10), reason="Hudi 1.0 returns every second change only"),
    *(
        Deviation(
            case=case, indices=indices, reason="Hudi leaves the rows of a slow writer out until a compaction has run"
        )
        for case, indices in WRITTEN_BESIDE_A_PENDING_COMPACTION.items()
    ),
    Deviation(
        case="w_operation_102",
        indices=(0, 4, 5, 6, 7, 8, 9),
        reason="Hudi 1.0 on Spark returns the deletes of a changelog as rows",
    ),
    Deviation(
        case="q_cdc_key_0150",
        indices=(6, 8),
        reason="Hudi 0.15 repeats one row for all of a replaced group, and tells late records that no snapshot has",
    ),
    Deviation(
        case=TAKEN_OVER,
        indices=(0, 3, 4, 5, 6),
        reason="the properties do not tell that 1.x has written to the table; an option does",
    ),
    Deviation(
        case="o_ptype_ts_120",
        indices=(0, 1, 2, 3, 4, 5),
        reason="Hudi 1.2 gives null for a partition column of type timestamp; the files have its values",
    ),
    Deviation(
        case="h_stats_of_nan_120",
        indices=(3,),
        reason="Hudi passes over a file whose numbers have a NaN, as its column stats have 0.0 for their range",
    ),
    Deviation(
        case=NULL_PARTITIONS,
        indices=(0, 2, 3, 4, 5),
        reason="Hudi 1.0 gives null for the partition column of a timestamp key generator where a payload merges",
    ),
    Deviation(
        case=FILTERED_LOGS,
        indices=(2, 3, 4),
        reason="Hudi 1.1 filters the records of a Parquet log block before it pairs them with their positions",
    ),
    Deviation(
        case=REQUIRED_COLUMNS,
        indices=(0, 2, 5, 6),
        reason="Hudi 1.2 gives zeros for numbers that must not be null, and that a base file lacks",
    ),
)
"""Mirrored for users in docs/hudi-differences.md."""

TWINS = {
    ("b_null_ordering_120", 0): ("b_null_ordering_int_120", 0),
    ("b_null_ordering_120", 3): ("b_null_ordering_int_120", 3),
    ("b_null_ordering_120", 4): ("b_null_ordering_int_120", 4),
    ("b_null_ordering_120", 5): ("b_null_ordering_int_120", 5),
    ("b_null_ordering_120", 6): ("b_null_ordering_int_120", 6),
    **{("c_hfile_blocks_120", index): ("c_avro_blocks_120", index) for index in (0, 3, 4, 5, 6, 7, 8, 9)},
    **{("v_vector_hfile_120", index): ("v_vector_avro_120", index) for index in (0, 3, 4, 5)},
}
"""Queries that Hudi failed to answer, with the same query to a table that the same operations wrote in another form."""

BY_HAND: Mapping[Key, tuple[str, ...]] = {
    ("b_null_ordering_120", 0): (),
    ("b_null_ordering_base_120", 0): (),
    ("b_null_ordering_base_120", 3): ("k9",),
    ("b_null_ordering_base_120", 4): (),
    ("b_null_ordering_base_120", 5): (),
    (REQUIRED_COLUMNS, 1): (),
}
"""Queries that Hudi failed to answer, where the rows were worked out by hand, with the keys not yet written by then."""

UNANSWERED: Mapping[Key, str] = {("m_call_pending_120", 7): "No value present"}
"""Queries that Hudi failed to answer, though nothing is missing from the table, with what it said."""

NOT_A_NUMBER = {("p_ext_avro_120", 2), ("p_ext_avro_120", 11)}
"""Conditions that depend on whether NaN is above all numbers, as in Spark and DuckDB, or not, as in Arrow and Trino."""

DEVIATING = {(deviation.case, index) for deviation in DEVIATIONS for index in deviation.indices}
ANSWERED = {key for key, query in QUERIES.items() if query.answer is not None} - DEVIATING
REFUSED = {
    key: failure.refused_as
    for key, query in QUERIES.items()
    for failure in failures_of(query)
    if query.answer is None and failure.refused_as is not None
}
"""Queries that Hudi refuses to answer, most of all where files are no longer, or not yet, all there."""

WITHOUT_COLUMNS = {key for key in ANSWERED if key[0].startswith("i_only_inflight")}
"""Tables without a completed commit have no columns yet, which no SQL engine can show."""
