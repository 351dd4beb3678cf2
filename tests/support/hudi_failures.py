"""Where Hudi itself fails on a golden table: the kinds of its errors, and what is answered to the same queries here.

    python -m tests.support.compatibility_page

writes them into docs/hudi-failures.md, with the queries counted; ``tests/table/test_hudi_failures.py`` asks each
query, and fails if an error of Hudi is of no kind.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hudi_bridge import HudiReadError, InstantNotReadableError, QueryError, UnsupportedTableError
from hudi_bridge.options import RANGE_VERSION_KEY, VIEW_TYPE_KEY
from tests.support.golden_cases import (
    CHANGE_KINDS,
    ROW_KINDS,
    GoldenQuery,
    golden_base_formats,
    golden_external,
    golden_flink,
    golden_queries,
    golden_read_options,
    golden_rust_writer,
)

BEGIN = "<!-- failures of Hudi made by tests/support/compatibility_page.py: begin -->"
END = "<!-- end of failures -->"
_KINDS = {
    "snapshot": "snapshot",
    "read_optimized": "read optimized",
    "time_travel": "time travel",
    "incremental": "incremental",
    "cdc": "changes",
}
_MOST_TABLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HudiFailure:
    """A kind of query at which Hudi fails.

    ``cause`` and ``answer`` are texts of the page. ``error`` is a pattern that Hudi's message matches. ``refused_as``
    is the error that is raised here, None if rows are returned. ``cases`` limits the kind to some tables, and
    ``option`` to queries whose value of an option matches a pattern.
    """

    cause: str
    error: str
    answer: str
    refused_as: type[HudiReadError] | None = None
    cases: frozenset[str] = frozenset()
    option: tuple[str, re.Pattern[str]] | None = None

    def is_of(self, query: GoldenQuery) -> bool:
        """Whether Hudi failed to answer the query in this way."""
        if query.hudi_error is None or re.search(self.error, query.hudi_error) is None:
            return False
        if self.cases and query.case not in self.cases:
            return False
        return self.option is None or self.option[1].fullmatch(str(query.options.get(self.option[0], ""))) is not None


_VERSION_FROM_8_ON = (RANGE_VERSION_KEY, re.compile("[89]"))
_NO_RANGE_OF_COMPLETION_TIMES = "the option is refused"

FAILURES = (
    HudiFailure(
        cause="Files of the instant have been cleaned",
        error="Cleaner cleaned up",
        answer="refused",
        refused_as=InstantNotReadableError,
    ),
    HudiFailure(
        cause="A write before the instant is still running",
        error="must be earlier than the first incomplete commit|Found hollow commit",
        answer="refused",
        refused_as=InstantNotReadableError,
    ),
    HudiFailure(
        cause="Files of commits in the range are gone",
        error="FileNotFoundException",
        answer="refused",
        refused_as=InstantNotReadableError,
    ),
    HudiFailure(
        cause="A range of a table without meta columns",
        error="not supported when meta fields are disabled",
        answer="refused",
        refused_as=UnsupportedTableError,
    ),
    HudiFailure(
        cause="A range that has rows of an external file, in a table with meta columns: NullPointerException",
        error="element cannot be mapped to a null key",
        answer="refused",
        refused_as=UnsupportedTableError,
    ),
    HudiFailure(
        cause=f"`{RANGE_VERSION_KEY}` from 8 on, for a table of version 6, which has no completion times",
        error="timeline version 1 not yet implemented",
        answer=_NO_RANGE_OF_COMPLETION_TIMES,
        refused_as=QueryError,
    ),
    HudiFailure(
        cause="The same option for a table at which 0.15, which does not know the option, fails anyway (below)",
        error="COLUMN_ALREADY_EXISTS",
        answer=_NO_RANGE_OF_COMPLETION_TIMES,
        refused_as=QueryError,
        option=_VERSION_FROM_8_ON,
    ),
    HudiFailure(
        cause=f"A value of `{VIEW_TYPE_KEY}` that is no query type",
        error="key not found",
        answer="the option is refused",
        refused_as=QueryError,
    ),
    HudiFailure(
        cause="A bigint ordering column meets deletes or missing values: ClassCastException",
        error="ClassCastException: class java.lang.(Integer|Long) cannot be cast to class java.lang.(Long|Integer)",
        answer="rows, by the rule that int columns show: a missing value counts as 0",
    ),
    HudiFailure(
        cause="HFile data blocks, which 1.2 writes but cannot read: ClassCastException",
        error=r"GenericData\$Record cannot be cast to class org.apache.spark.sql.catalyst.InternalRow",
        answer="rows, as 0.15 reads them",
    ),
    HudiFailure(
        cause="HFiles as base files of a table: not supported by Spark's reader",
        error="Unsupported file format: HFILE",
        answer="rows",
    ),
    HudiFailure(
        cause="A range in which `AWSDmsAvroPayload` deletes: no value present in Option",
        error="No value present in Option",
        answer="rows, as 1.2 has them",
    ),
    HudiFailure(
        cause="A range that ends with commits whose logs are named after a compaction that never ran, after an upgrade:"
        " no value present",
        error="NoSuchElementException: No value present$",
        answer="rows; none, as [these logs are passed over]"
        "(hudi-differences.md#where-hudi-loses-rows-and-hudi-bridge-too)",
    ),
    HudiFailure(
        cause="A range of a copy-on-write table whose columns SQL has renamed, dropped or retyped, unless"
        " `hoodie.schema.on.read.enable` is `true`: columns twice",
        error="COLUMN_ALREADY_EXISTS",
        answer="rows",
        option=(RANGE_VERSION_KEY, re.compile("[^89]?")),
    ),
    HudiFailure(
        cause="A range by column ids with the columns of its end, where some have been renamed, added or dropped"
        " since: cannot prune col",
        error="cannot prune col",
        answer="rows",
    ),
    HudiFailure(
        cause="Nested columns with other types in older files, with `hoodie.schema.on.read.enable=false` and Spark's"
        " vectorized reader",
        error="Nested types with type changes",
        answer="rows",
    ),
    HudiFailure(
        cause="A column that must not be null, which a base file without logs lacks: required column is missing",
        error="Required column is missing in data file",
        answer="rows; nulls, as for other columns that a file lacks",
    ),
    HudiFailure(
        cause="Columns of another type in older logs, with `hoodie.schema.on.read.enable=false`: AvroTypeException",
        error="AvroTypeException",
        answer="rows",
    ),
    HudiFailure(
        cause="Changes by a reader that ends after every second one: next on empty iterator",
        error="next on empty iterator",
        answer="rows, all of them",
    ),
    HudiFailure(
        cause="Flink's TIMESTAMP_LTZ where Parquet has the annotation: datatype not supported",
        error="Job aborted due to stage failure",
        answer="rows; timestamps without a zone, as in 1.2",
        cases=frozenset({"cow_types", "mor_types_insert"}),
    ),
    HudiFailure(
        cause="Changes of a merge-on-read table of Flink with change data capture",
        error="Job aborted due to stage failure|Not an Avro data file",
        answer="rows",
        cases=frozenset({"mor_cdc"}),
    ),
)
"""In the order of the page, those that are refused first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedQuery:
    """A query at which a release of Hudi failed; ``archive`` is that of its table, or ``golden``."""

    query: GoldenQuery
    archive: str
    release: str

    @property
    def name(self) -> str:
        """The name that pytest shows."""
        return f"{self.archive}-{self.query.name}-{self.release}"


def failures_of(query: GoldenQuery) -> list[HudiFailure]:
    """The kinds that the error of a query is of: one, unless the list of kinds lacks one or is ambiguous."""
    return [failure for failure in FAILURES if failure.is_of(query)]


def failed_queries() -> Iterator[FailedQuery]:
    """The queries to golden tables of all archives at which Hudi failed."""
    archives: Mapping[str, Iterable[GoldenQuery]] = {
        "golden": golden_queries((*ROW_KINDS, *CHANGE_KINDS)),
        "base_formats": golden_base_formats(),
        "external": golden_external(),
        "read_options": golden_read_options(),
        "rust_writer": golden_rust_writer(),
    }
    for archive, queries in archives.items():
        for query in queries:
            if query.hudi_error is not None:
                yield FailedQuery(query=query, archive=archive, release=_release(archive, query.case))
    for release in ("0.15.0", "1.2.0"):
        for query in golden_flink(release):
            if query.hudi_error is not None:
                yield FailedQuery(query=query, archive="flink", release=release)


def _release(archive: str, case: str) -> str:
    if archive in ("base_formats", "external", "rust_writer"):
        return "1.2.0"
    digits = case.rpartition("_")[2].removeprefix("by")
    return f"0.{digits[1:3]}.{digits[3]}" if digits.startswith("0") else ".".join(digits)


def section() -> str:
    """What stands between the marks of the page."""
    queries: dict[HudiFailure, list[FailedQuery]] = {failure: [] for failure in FAILURES}
    for failed in failed_queries():
        (failure,) = failures_of(failed.query)
        queries[failure].append(failed)
    lines = [BEGIN, "| Hudi fails at | release | queries | here | tables |", "|---|---|---|---|---|"]
    lines += [_row(failure, failed) for failure, failed in queries.items()]
    return "\n".join([*lines, END])


def _row(failure: HudiFailure, failed: list[FailedQuery]) -> str:
    releases = sorted({asked.release.rpartition(".")[0] for asked in failed}, key=lambda text: text.split("."))
    counts = Counter(_KINDS[asked.query.kind] for asked in failed)
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    tables = sorted({asked.query.case for asked in failed})
    shown = ", ".join(f"`{table}`" for table in tables[:_MOST_TABLES])
    more = f" and {len(tables) - _MOST_TABLES} others" if len(tables) > _MOST_TABLES else ""
    return f"| {failure.cause} | {', '.join(releases)} | {kinds} | {failure.answer} | {shown}{more} |"
