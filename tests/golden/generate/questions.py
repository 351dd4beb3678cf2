"""Which questions a finished table is asked."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.golden.generate.timeline import FIRST_VERSION_WITH_FOLDER, WRITES, Instant

QUERY_TYPE = "hoodie.datasource.query.type"
AS_OF = "as.of.instant"
BEGIN = "hoodie.datasource.read.begin.instanttime"
END = "hoodie.datasource.read.end.instanttime"
FORMAT = "hoodie.datasource.query.incremental.format"
NOT_OF_THE_READER = ("filter", "where", "expression", "duckdb")
"""Options that describe a filter, in the words of several engines; the rest are options of Hudi's data source."""

_ALL = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query: its kind, its options, and the name of the file that its answer goes into."""

    kind: str
    options: Mapping[str, Any]
    stem: str


@dataclass(slots=True, kw_only=True)
class Questions:
    """What is asked beside the snapshot; a case may change it.

    ``time_travels`` and ``ranges`` are the most of each. A filter is a list of ``[column, operator, value]``, or a
    mapping with the condition as SQL of Spark (``where``), an Arrow expression (``expression``) and SQL of DuckDB.
    """

    time_travels: int = _ALL
    ranges: int = 4
    read_optimized: bool = True
    incremental: bool = True
    filters: list[Sequence[Any] | Mapping[str, str]] = field(default_factory=list)

    def ask_filtered(self, where: str, expression: str, duckdb: str | None = None) -> None:
        """Asks for the rows that meet a condition; without ``duckdb``, DuckDB is not asked."""
        condition = {"where": where, "expression": expression}
        self.filters.append(condition if duckdb is None else {**condition, "duckdb": duckdb})

    @classmethod
    def of_group(cls, group: str, letter: str) -> "Questions":
        """The questions of a group: fewer where its tables differ in other things than their timelines."""
        if group == "k":
            return cls(time_travels=3, ranges=3)
        if letter == "g":
            return cls(time_travels=3, ranges=2)
        return cls(time_travels=2, ranges=2) if letter in "efh" else cls()

    def about(self, instants: Sequence[Instant], version: int, *, has_changes: bool) -> Iterator[Question]:
        """The questions to a table with these instants, of a table version, with change data capture or without."""
        done = [one for one in instants if one.state == "completed" and one.action in WRITES]
        yield Question(kind="snapshot", options={}, stem="snapshot")
        if self.read_optimized:
            yield Question(kind="read_optimized", options={QUERY_TYPE: "read_optimized"}, stem="read_optimized")
        for index, condition in enumerate(self.filters):
            options = condition if isinstance(condition, Mapping) else {"filter": condition}
            yield Question(kind="snapshot_filtered", options=options, stem=f"filtered_{index}")
        for instant in self._time_travels(done):
            yield Question(kind="time_travel", options={AS_OF: instant.requested}, stem=f"as_of_{instant.requested}")
        times = sorted(_time_of_change(one, version) for one in done)
        for index, (begin, end) in enumerate(self._ranges(times) if self.incremental else []):
            options = {QUERY_TYPE: "incremental", BEGIN: begin} | ({END: end} if end else {})
            yield Question(kind="incremental", options=options | {FORMAT: "latest_state"}, stem=f"inc_{index}")
            if has_changes:
                yield Question(kind="cdc", options=options | {FORMAT: "cdc"}, stem=f"cdc_{index}")

    def _time_travels(self, done: Sequence[Instant]) -> list[Instant]:
        most = self.time_travels
        if len(done) <= most or not most:
            return list(done)[:most]
        # The newest is the snapshot: it is left out where few are asked for.
        last = len(done) - (1 if most >= _ALL else 2)
        return [done[round(step * last / max(1, most - 1))] for step in range(most)]

    def _ranges(self, times: Sequence[str]) -> list[tuple[str, str | None]]:
        """All, all but the first, all but the first and the last, the last."""
        if not times:
            return []
        ranges: list[tuple[str, str | None]] = [("000", None)]
        if len(times) > 1:
            ranges.append((times[0], None))
        if len(times) > 2:
            ranges += [(times[0], times[-2]), (times[-2], times[-1])]
        return ranges if len(ranges) <= self.ranges else ranges[1:][: self.ranges]


def _time_of_change(instant: Instant, version: int) -> str:
    """Incremental queries of later table versions go by completion time."""
    if version >= FIRST_VERSION_WITH_FOLDER and instant.completed is not None:
        return instant.completed
    return instant.requested
