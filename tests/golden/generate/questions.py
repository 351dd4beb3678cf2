"""The queries that are run on a finished table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.golden.generate.timeline import FIRST_VERSION_WITH_FOLDER, WRITES, Instant

QUERY_TYPE = "hoodie.datasource.query.type"
AS_OF = "as.of.instant"
BEGIN = "hoodie.datasource.read.begin.instanttime"
END = "hoodie.datasource.read.end.instanttime"
FORMAT = "hoodie.datasource.query.incremental.format"
COLUMNS = "columns"
"""The columns of a projection, each as the names that lead to it: those of a struct and of its field, for example."""
NOT_OF_THE_READER = ("filter", "where", "expression", "duckdb", COLUMNS)
"""Options that describe a filter or a projection for several engines; all others are options of Hudi's data source."""

_ALL = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query: its kind, its options, and the name of the file for its answer."""

    kind: str
    options: Mapping[str, Any]
    stem: str


@dataclass(slots=True, kw_only=True)
class Questions:
    """The queries besides the snapshot; a case may change them.

    ``time_travels`` and ``ranges`` limit the number of each. With ``begins_later``, ranges begin a millisecond after an
    instant: Hudi 1.0 includes the begin. A filter is a list of ``[column, operator, value]``, or a
    mapping with the condition in Spark's SQL (``where``), as an Arrow expression (``expression``) and in DuckDB's SQL.
    """

    time_travels: int = _ALL
    ranges: int = 4
    read_optimized: bool = True
    incremental: bool = True
    begins_later: bool = False
    filters: list[Sequence[Any] | Mapping[str, str]] = field(default_factory=list)

    def ask_filtered(self, where: str, expression: str, duckdb: str | None = None) -> None:
        """Adds a query with a filter; without ``duckdb``, it is not run in DuckDB."""
        condition = {"where": where, "expression": expression}
        self.filters.append(condition if duckdb is None else {**condition, "duckdb": duckdb})

    @classmethod
    def of_group(cls, group: str, letter: str) -> "Questions":
        """The queries of a group: fewer for groups whose tables do not differ in their timelines."""
        if group == "k":
            return cls(time_travels=3, ranges=3)
        if letter == "g":
            return cls(time_travels=3, ranges=2)
        return cls(time_travels=2, ranges=2) if letter in "efh" else cls()

    def about(self, instants: Sequence[Instant], version: int, *, has_changes: bool) -> Iterator[Question]:
        """The queries for a table with these instants; ``has_changes`` is whether it has change data capture."""
        done = [item for item in instants if item.state == "completed" and item.action in WRITES]
        yield Question(kind="snapshot", options={}, stem="snapshot")
        if self.read_optimized:
            yield Question(kind="read_optimized", options={QUERY_TYPE: "read_optimized"}, stem="read_optimized")
        for index, condition in enumerate(self.filters):
            options = condition if isinstance(condition, Mapping) else {"filter": condition}
            yield Question(kind="snapshot_filtered", options=options, stem=f"filtered_{index}")
        for instant in self._time_travels(done):
            yield Question(kind="time_travel", options={AS_OF: instant.requested}, stem=f"as_of_{instant.requested}")
        times = sorted(_time_of_change(item, version) for item in done)
        for index, (after, end) in enumerate(self._ranges(times) if self.incremental else []):
            begin = str(int(after) + 1) if self.begins_later and int(after) else after
            options = {QUERY_TYPE: "incremental", BEGIN: begin} | ({END: end} if end else {})
            yield Question(kind="incremental", options=options | {FORMAT: "latest_state"}, stem=f"inc_{index}")
            if has_changes:
                yield Question(kind="cdc", options=options | {FORMAT: "cdc"}, stem=f"cdc_{index}")

    def _time_travels(self, done: Sequence[Instant]) -> list[Instant]:
        most = self.time_travels
        if len(done) <= most or not most:
            return list(done)[:most]
        # The newest gives the snapshot: it is left out if there are few time travels.
        last = len(done) - (1 if most >= _ALL else 2)
        return [done[round(step * last / max(1, most - 1))] for step in range(most)]

    def _ranges(self, times: Sequence[str]) -> list[tuple[str, str | None]]:
        """The ranges: all instants; all but the first; all but the first and the last; the last."""
        if not times:
            return []
        ranges: list[tuple[str, str | None]] = [("000", None)]
        if len(times) > 1:
            ranges.append((times[0], None))
        if len(times) > 2:
            ranges += [(times[0], times[-2]), (times[-2], times[-1])]
        return ranges if len(ranges) <= self.ranges else ranges[1:][: self.ranges]


def _time_of_change(instant: Instant, version: int) -> str:
    """The time that incremental queries go by: in later table versions the completion time."""
    if version >= FIRST_VERSION_WITH_FOLDER and instant.completed is not None:
        return instant.completed
    return instant.requested
