"""The versions of one record key, and their comparison in merge order: which of two wins, and why, in words.

``merge.ordering`` decides. The reason is not the ordering value if the winner would also win with a lower one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hudi_bridge.common.display import is_nested, to_json, values_as_text
from hudi_bridge.merge.arrays import Column, Value, ordering_values
from hudi_bridge.merge.fold import META_FIELDS, fills_earlier, ordering_ranks, unset_fields
from hudi_bridge.merge.ordering import (
    DELETE,
    EARLIER,
    HIGHER,
    LATER,
    MARKED,
    ROW,
    UNORDERED_DELETE,
    Version,
    field_source,
    is_lower,
    later_replaces,
    log_replaces_base,
    what_is,
)
from hudi_bridge.merge.record_map import LogRecords, marks_of
from hudi_bridge.merge.rules import IS_DELETED_COLUMN, MergeRule
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN, META_COLUMNS
from hudi_bridge.splits.split import ReadContext

HEEDED_BY_VERDICTS = frozenset(
    {
        "after_row",
        "after_delete",
        "after_unordered_delete",
        "over_base_row",
        "nulls_as_zero",
        "marked_in_logs",
        "flag_deletes_base",
        "orders_as_0x",
        "ordering_fields",
        "delete_marker",
        "fill",
        "fills_in_logs",
        "newest_meta",
        "payload",
        "sequences_against_base",
        "equal_sequences_keep_base",
        "sequences_in_logs",
    }
)
"""The behaviours of rules that verdicts support. The result of a payload for two rows is taken from the merge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordVersion:
    """One version of a record: a row of a base file, or a record of a log block.

    Attributes:
        instant_time: the instant of the base file or of the block.
        path: the file.
        block_number: the number of the block in the log file, from 1; None for a base row.
        offset: the start of the block in bytes; None for a base row.
        ordering: the ordering values; empty if the merge rule compares none.
        delete: what makes the version a delete; None if it is not one.
        is_partial: whether it is a partial update.
        absent: the columns of ``row`` that a partial update left out.
        is_delete: as in ``merge.record_map``, like ``always_deletes`` and ``marked``.
        row: one row, or none if the version is in a delete block.

    Part of a ``FileGroupHistory``.
    """

    instant_time: str
    path: str
    block_number: int | None
    offset: int | None
    ordering: tuple[object, ...]
    delete: str | None
    is_partial: bool
    absent: frozenset[str]
    is_delete: bool
    always_deletes: bool
    marked: bool
    row: pa.Table

    @property
    def is_base_row(self) -> bool:
        """Whether the version is in a base file."""
        return self.block_number is None

    @property
    def kind(self) -> str:
        """The kind of the version, in at most two words."""
        if self.is_base_row:
            return "base row"
        if self.delete is not None:
            return "delete"
        return "partial update" if self.is_partial else "log row"

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns that the version has values of: none in a delete block, the updated ones in a partial update."""
        names = self.row.schema.names if self.row.num_rows else ()
        return tuple(name for name in names if name not in self.absent)

    @property
    def commit_time(self) -> str | None:
        """The commit that last wrote the row; None for a delete block and in a table without meta columns."""
        if not self.row.num_rows or COMMIT_TIME_COLUMN not in self.row.schema.names:
            return None
        value: str | None = self.row.column(COMMIT_TIME_COLUMN)[0].as_py()
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class UncountedVersion:
    """A version that a snapshot does not see, and the reason.

    Its ``row`` has only the columns that merging needs if other columns of its block cannot be read.

    Part of a ``FileGroupHistory``.
    """

    version: RecordVersion
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadablePlace:
    """A damaged place in a log file that may have had the key; ``offset`` is None for the whole file.

    Part of a ``FileGroupHistory``.
    """

    path: str
    offset: int | None
    reason: str

    def text(self, shown_path: str | None = None) -> str:
        """The place and the reason; ``shown_path`` is the name to use for the file, by default its path."""
        location = "" if self.offset is None else f" at byte {self.offset:,}"
        return f"{shown_path or self.path}{location}: {self.reason}"


def shown_values(row: pa.Table) -> dict[str, str]:
    """The values of a table of one row as text for display, by column."""
    values = {field.name: values_as_text(row.column(field.name).combine_chunks())[0] for field in row.schema}
    return {
        name: to_json(value) if is_nested(row.schema.field(name).type) and value is not None else value_text(value)
        for name, value in values.items()
    }


def value_text(value: object) -> str:
    """A value as text for display."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return value.hex() if isinstance(value, bytes) else str(value)


def ordering_text(values: tuple[object, ...]) -> str:
    """Ordering values as text for display, in parentheses if there are several."""
    texts = [value_text(value) for value in values]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


_COMMIT_TIME = "commit-time ordering: the later one"
_LATER = "the later one, whatever its ordering"
_REPLACES_BASE = "the log replaces the base row, whatever its ordering"
_AFTER_UNORDERED = "a delete in a row after a delete without an ordering value"
_LATE_DELETE = "a delete in the log, whatever its ordering"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The comparison of two versions: the numbers, from 1, of the winner and the loser, and the reason.

    ``filled`` has the columns that the winner takes from the loser, or from versions that filled the loser.

    Part of a ``FileGroupHistory``.
    """

    winner: int
    loser: int
    reason: str
    filled: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOutcome:
    """All comparisons, in merge order, and their outcome.

    ``winner`` is the number of the version that remains, which may be a delete; None without versions. ``sources`` has
    for each column the number of the version that its value comes from; it is empty if no row remains, or if a user's
    payload made the row.
    """

    verdicts: tuple[Verdict, ...]
    winner: int | None
    sources: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contender:
    """A log version with its number and its unset columns; ``ranked`` is the input of ``merge.ordering``."""

    number: int
    version: RecordVersion
    unset: frozenset[str]
    ranked: Version


def compare_versions(
    base: tuple[int, RecordVersion] | None,
    log_versions: Sequence[RecordVersion],
    blocks: Sequence[LogRecords],
    numbers: Sequence[int],
    context: ReadContext,
    rule: MergeRule,
) -> MergeOutcome:
    """Compares log versions, which have these ``numbers``, and then the remaining one with the base row.

    ``base`` is the base row that the log matches, with its number. ``blocks`` has the log versions as merge input.
    """
    values = _ordering_columns(blocks, rule)
    ranks = ordering_ranks(values if rule.ranks_logs else (), len(log_versions), rule, against_base=False).tolist()
    defaults = context.defaults
    contenders = [
        _Contender(
            number=number,
            version=version,
            unset=_unset_of(version, rule, defaults),
            ranked=((rank,), _kind(version)),
        )
        for number, version, rank in zip(numbers, log_versions, ranks, strict=True)
    ]
    is_partial = any(version.absent for version in log_versions)
    fold = _Fold(contenders[0], context.schema.names, rule, is_partial=is_partial)
    for later in contenders[1:]:
        fold.compare(later)
    if base is None:
        return fold.end()
    survivor = [column.slice(numbers.index(fold.survivor.number), 1) for column in values]
    return fold.compare_base(*base, survivor, _unset_of(base[1], rule, defaults))


class _Fold:
    """The comparison of log versions: the winner so far, and the source of each of its columns."""

    def __init__(self, first: _Contender, columns: Sequence[str], rule: MergeRule, *, is_partial: bool) -> None:
        self.survivor = first
        self._rule = rule
        self._merges_fields = is_partial or rule.fill is not None
        self._merges_in_logs = is_partial or (rule.fill is not None and rule.fills_in_logs)
        self._newest = frozenset(META_COLUMNS) if rule.newest_meta else frozenset()
        self._sources = dict.fromkeys(columns, first)
        self._verdicts: list[Verdict] = []

    def compare(self, later: _Contender) -> None:
        """Compares the next log version with the winner so far."""
        survivor = self.survivor
        replaces = later_replaces(self._rule.precedence.in_logs, survivor.ranked, later.ranked)
        takes_later = {name: self._takes_later(name, later, replaces=replaces) for name in self._sources}
        sources = {name: later if takes_later[name] else source for name, source in self._sources.items()}
        filled = (name for name, takes in takes_later.items() if takes != replaces and name not in sources[name].unset)
        winner, loser = (later, survivor) if replaces else (survivor, later)
        self._record(winner.number, loser.number, _reason_in_logs(self._rule, survivor, later), filled)
        self.survivor, self._sources = winner, sources

    def _takes_later(self, name: str, later: _Contender, *, replaces: bool) -> bool:
        if not self._merges_in_logs:
            return replaces
        unset = [name in self._sources[name].unset, name in later.unset]
        pair = [self.survivor.ranked, later.ranked]
        newest, fills = name in self._newest, fills_earlier(self._rule)
        in_logs = self._rule.precedence.in_logs
        return field_source(in_logs, pair, unset, newest=newest, fills_earlier=fills) == 1

    def compare_base(
        self, number: int, base: RecordVersion, values: Sequence[Column], base_unset: frozenset[str]
    ) -> MergeOutcome:
        """Compares the winner, given its ordering values, with the base row, and returns the outcome."""
        log = self.survivor.version
        precedence = self._rule.precedence
        marks = self._marks()
        is_delete = log.is_delete or (precedence.flag_deletes_base and IS_DELETED_COLUMN in marks)
        what = what_is(is_delete=is_delete, always_deletes=log.always_deletes, marked=False)
        log_ranks: tuple[object, ...] = ()
        base_ranks: tuple[object, ...] = ()
        if precedence.over_base_row[what] == HIGHER:
            log_ranks, base_ranks = _ranks_against_base(values, base, self._rule)
            is_compared = all(self._rule.compares_with_base(column.type) for column in values)
            reason = _comparison(log, log_ranks, base, base_ranks) if is_compared else _REPLACES_BASE
        else:
            reason = _reason_against_base(self._rule, log, what)
        wins = log_replaces_base(precedence.over_base_row, base_ranks, (log_ranks, what))
        deletes = log.is_delete or bool(marks)
        from_log = {
            name for name in self._sources if self._comes_from_log(name, base_unset, wins=wins, deletes=deletes)
        }
        filled = () if deletes else (name for name in self._sources if (name in from_log) != wins)
        winner, loser = (self.survivor.number, number) if wins else (number, self.survivor.number)
        self._record(winner, loser, reason, filled)
        if wins and deletes:
            return self._outcome(winner, {})
        sources = {name: source.number if name in from_log else number for name, source in self._sources.items()}
        return self._outcome(winner, sources)

    def _comes_from_log(self, name: str, base_unset: frozenset[str], *, wins: bool, deletes: bool) -> bool:
        if deletes or not self._merges_fields:
            return wins and not deletes
        if name in self._newest:
            return True
        if wins:
            return name not in self._sources[name].unset
        return fills_earlier(self._rule) and name in base_unset

    def end(self) -> MergeOutcome:
        """The outcome if there is no base row."""
        remaining = {} if self.survivor.version.is_delete or self._marks() else self._sources
        return self._outcome(self.survivor.number, {name: source.number for name, source in remaining.items()})

    def _marks(self) -> frozenset[str]:
        """The columns that mark the merged row as a delete; each has the value of its source."""
        marks = ((name, marks_of(source.version.row, self._rule)) for name, source in self._sources.items())
        return frozenset(name for name, of_row in marks if name in of_row and of_row[name].any())

    def _record(self, winner: int, loser: int, reason: str, filled: Iterable[str]) -> None:
        named = tuple(name for name in filled if name not in META_FIELDS)
        self._verdicts.append(Verdict(winner=winner, loser=loser, reason=reason, filled=named))

    def _outcome(self, winner: int, sources: Mapping[str, int]) -> MergeOutcome:
        known_sources = sources if self._rule.payload is None else {}
        return MergeOutcome(verdicts=tuple(self._verdicts), winner=winner, sources=tuple(known_sources.items()))


def _kind(version: RecordVersion) -> int:
    return what_is(is_delete=version.is_delete, always_deletes=version.always_deletes, marked=version.marked)


def _unset_of(version: RecordVersion, rule: MergeRule, defaults: Mapping[str, Value]) -> frozenset[str]:
    if not version.row.num_rows:
        return frozenset()
    return version.absent.union(unset_fields(version.row, rule, defaults))


def _ordering_columns(blocks: Sequence[LogRecords], rule: MergeRule) -> list[Column]:
    if not rule.uses_ordering:
        return []
    return [
        pa.concat_arrays([block.ordering[position] for block in blocks])
        for position in range(len(rule.ordering_fields))
    ]


def _ranks_against_base(
    values: Sequence[Column], base: RecordVersion, rule: MergeRule
) -> tuple[tuple[int], tuple[int]]:
    columns = []
    for name, log_values in zip(rule.ordering_fields, values, strict=True):
        base_values = ordering_values(name, base.row)
        columns.append(pa.concat_arrays([log_values, base_values.cast(log_values.type)]))
    ranks = ordering_ranks(columns, 2, rule, against_base=True).tolist()
    return (ranks[0],), (ranks[1],)


def _reason_in_logs(rule: MergeRule, survivor: _Contender, later: _Contender) -> str:
    if rule.payload is not None and survivor.ranked[1] == later.ranked[1] == ROW:
        return _combined(rule)
    after_delete, earlier, what = rule.precedence.after_delete, survivor.ranked[1], later.ranked[1]
    outcome = rule.precedence.in_logs[earlier][what]
    if outcome == LATER:
        if not rule.uses_ordering:
            return _COMMIT_TIME
        if what == UNORDERED_DELETE:
            return _unordered_delete(rule, later.version)
        if what in (DELETE, MARKED):
            is_after_unordered = earlier == UNORDERED_DELETE and after_delete[what] != LATER
            return _AFTER_UNORDERED if is_after_unordered else "a delete, whatever its ordering"
        if earlier == ROW:
            return _LATER
        if after_delete[ROW] != LATER:
            return "a row after a delete without an ordering value"
        return "a row after a delete, whatever its ordering"
    if outcome == EARLIER:
        is_of_deletes = earlier == UNORDERED_DELETE and what == DELETE
        return "delete with an ordering value after one without" if is_of_deletes else "the earlier one, whatever comes"
    if not rule.ranks_logs:
        return _LATER
    return _comparison(later.version, later.ranked[0], survivor.version, survivor.ranked[0])


def _reason_against_base(rule: MergeRule, log: RecordVersion, what: int) -> str:
    """Why the log version wins or loses, if ordering values do not decide."""
    if rule.precedence.over_base_row[what] == EARLIER:
        return "the base row stays, whatever comes"
    if not rule.uses_ordering:
        return _COMMIT_TIME
    if what == UNORDERED_DELETE:
        return _unordered_delete(rule, log)
    if rule.payload is not None:
        return _combined(rule) if what == ROW else _LATE_DELETE
    replaces = rule.precedence.over_base_row[ROW] == LATER
    return _REPLACES_BASE if replaces else _LATE_DELETE


def _unordered_delete(rule: MergeRule, delete: RecordVersion) -> str:
    # The Java Integer 0 counts as none.
    if rule.precedence.orders_as_0x and any(
        value is not None and (value != 0 or not isinstance(value, int)) for value in delete.ordering
    ):
        return "a delete, whatever its ordering"
    return "delete without an ordering value"


def _combined(rule: MergeRule) -> str:
    return f"combined by {type(rule.payload).__name__}"


def _comparison(
    later: RecordVersion, later_rank: tuple[object, ...], earlier: RecordVersion, earlier_rank: tuple[object, ...]
) -> str:
    if not later.ordering and not earlier.ordering:
        return "later, no ordering field"
    later_text, earlier_text = ordering_text(later.ordering), ordering_text(earlier.ordering)
    if later_rank == earlier_rank:
        return (
            f"later, equal ordering {later_text}"
            if later_text == earlier_text
            else f"later, equal ordering {later_text} and {earlier_text}"
        )
    direction = "lower" if is_lower(later_rank, earlier_rank) else "higher"
    return f"{direction} ordering {later_text} than {earlier_text}"
