"""Golden tables in archives of their own that every engine reads: bootstrapped, nested, external, not Parquet, of Rust.

Each query has the options with which its table is opened.
"""

from collections.abc import Mapping
from typing import NamedTuple

from hudi_bridge.options import BOOTSTRAP_SOURCE_KEY
from tests.support.golden_cases import (
    GoldenQuery,
    golden_base_formats,
    golden_bootstrapped,
    golden_external,
    golden_nested,
    golden_rust_writer,
)

INCLUDES_BEGIN = "Hudi 1.0.2 includes the beginning of the range"
NO_SOURCE = "Hudi 0.15 returns nulls for what the base files do not have"
DEVIATIONS = {
    "flat_v6-4-incremental": NO_SOURCE,
    "metadata_v8-4-incremental": INCLUDES_BEGIN,
    "metadata_v8-5-incremental": INCLUDES_BEGIN,
    "metadata_v8-6-incremental": INCLUDES_BEGIN,
}
"""Queries to bootstrapped tables that Hudi answers otherwise, and why."""
WITHOUT_METADATA_TABLE = "without_metadata_table_v6"
"""A table of external files, which Hudi finds in the metadata table alone."""
WITHOUT_ENDING = "without_ending_v9"
"""A table with an external file that Hudi passes over, as its name does not end in .parquet."""
ORC_WITH_TIMES = "orc_times"
"""A table of ORC whose times are refused."""


class OtherQuery(NamedTuple):
    """A query, and the options with which its table is opened."""

    query: GoldenQuery
    options: Mapping[str, str]


def source_of(query: GoldenQuery) -> Mapping[str, str]:
    """The option that allows to read the files that a table was bootstrapped from."""
    return {BOOTSTRAP_SOURCE_KEY: str(query.table.with_name("source"))}


OTHERS = {
    f"{item.query.case} {item.query.kind} {item.query.index}": item
    for item in (
        *(OtherQuery(query, source_of(query)) for query in golden_bootstrapped() if query.name not in DEVIATIONS),
        *(OtherQuery(query, {}) for query in golden_base_formats() if query.case != ORC_WITH_TIMES),
        *(OtherQuery(query, {}) for query in golden_nested()),
        *(
            OtherQuery(query, {})
            for query in golden_external()
            if query.case not in (WITHOUT_METADATA_TABLE, WITHOUT_ENDING)
        ),
        *(OtherQuery(query, {}) for query in golden_rust_writer()),
    )
    if item.query.answer is not None
}
"""The queries that Hudi answers, and Hudi Bridge alike, by name."""
ONE_OF_EACH_KIND = {(one.query.case, one.query.kind): name for name, one in OTHERS.items()}
CASES = (
    "cow_v9",
    "metadata_v6",
    "mixed_v9",
    "tests_of_hudi",
    "orc_mor",
    "lance_mor",
    "two_levels_of_maps",
    "names",
    "parts_v6",
    "inserted_v9",
    "types_mor_v9",
    "unpartitioned_mor_v9",
)
"""The tables that are read with engines that take long to ask."""


def chosen(*, everything: bool) -> list[str]:
    """All queries, or one of each kind to some tables."""
    return list(OTHERS) if everything else [name for (case, _), name in ONE_OF_EACH_KIND.items() if case in CASES]


MERGED_BY_TRINO = ("cow_v9", "full_v9", "mixed_v6", "mixed_v9")
"""The tables of which every file slice now has a Parquet file with all columns."""
