"""The versions of one record key -> which of them wins where two meet, and why, in words.

Log versions meet in the order of their arrival; the survivor meets the base row. Who wins is asked of
``merge.ordering``, for one pair after the other. So is the reason: a version that wins with a lower ordering value as
well does not win by its ordering value.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hudi_bridge.merge import ordering
from hudi_bridge.merge.arrays import Column, Value
from hudi_bridge.merge.lacking import META_FIELDS, lacking_fields
from hudi_bridge.merge.log_records import LogRecords
from hudi_bridge.merge.ordering_fields import ordering_values
from hudi_bridge.merge.payloads import MergeRule
from hudi_bridge.merge.ranks import ordering_ranks
from hudi_bridge.readers.field_defaults import field_defaults
from hudi_bridge.splits.split import ReadContext
from hudi_bridge.trace.versions import RecordVersion, ordering_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Two versions meet: the numbers, from 1, of the one that wins and of the one that loses, and why.

    ``filled`` names the columns that the winner takes from the loser, or from what had filled the loser.
    """

    winner: int
    loser: int
    reason: str
    filled: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """All meetings, in order, and how they end.

    ``winner`` is the number of the last version standing, which may be a delete; None without versions. ``sources``
    holds for each column the number of the version that its value comes from; nothing if no row is left, or if a user's
    payload made it.
    """

    verdicts: tuple[Verdict, ...]
    winner: int | None
    sources: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contender:
    """A log version with its number, the columns that it lacks, and itself as ``merge.ordering`` takes it."""

    number: int
    version: RecordVersion
    lacks: frozenset[str]
    ranked: ordering.Version


def judge(
    base: tuple[int, RecordVersion] | None,
    log_versions: Sequence[RecordVersion],
    blocks: Sequence[LogRecords],
    first_number: int,
    context: ReadContext,
    rule: MergeRule,
) -> Judgement:
    """The meetings of log versions, which are numbered from ``first_number``, and of the survivor with a base row.

    ``base`` is the base row that the log meets and its number. ``blocks`` holds the log versions as merging takes them.
    """
    values = _ordering_columns(blocks, rule)
    ranks = ordering_ranks(values if rule.ranks_logs else (), len(log_versions), rule, against_base=False).tolist()
    defaults = field_defaults(context)
    contenders = [
        _Contender(
            number=number,
            version=version,
            lacks=_lacking(version, rule, defaults),
            ranked=((rank,), version.is_delete, version.always_deletes),
        )
        for number, (version, rank) in enumerate(zip(log_versions, ranks, strict=True), start=first_number)
    ]
    is_partial = any(version.absent for version in log_versions)
    fold = _Fold(contenders[0], context.schema.names, rule, is_partial=is_partial)
    for later in contenders[1:]:
        fold.meet(later)
    if base is None:
        return fold.end()
    survivor = [column.slice(fold.kept.number - first_number, 1) for column in values]
    return fold.meet_base(*base, survivor, _lacking(base[1], rule, defaults))


class _Fold:
    """The meetings of log versions: the survivor so far, and where each of its columns comes from."""

    def __init__(self, first: _Contender, columns: Sequence[str], rule: MergeRule, *, is_partial: bool) -> None:
        self.kept = first
        self._rule = rule
        self._merges_fields = is_partial or rule.fill is not None
        self._merges_in_logs = is_partial or (rule.fill is not None and rule.fills_in_logs)
        self._newest = META_FIELDS if rule.newest_meta else frozenset()
        self._sources = dict.fromkeys(columns, first)
        self._verdicts: list[Verdict] = []

    def meet(self, later: _Contender) -> None:
        """Set the next log version against the survivor."""
        kept = self.kept
        replaces = ordering.later_replaces(self._rule.kind, kept.ranked, later.ranked)
        takes_later = {name: self._takes_later(name, later, replaces=replaces) for name in self._sources}
        sources = {name: later if takes_later[name] else source for name, source in self._sources.items()}
        filled = (name for name, takes in takes_later.items() if takes != replaces and name not in sources[name].lacks)
        winner, loser = (later, kept) if replaces else (kept, later)
        self._record(winner.number, loser.number, _reason_in_logs(self._rule, kept, later), filled)
        self.kept, self._sources = winner, sources

    def _takes_later(self, name: str, later: _Contender, *, replaces: bool) -> bool:
        if not self._merges_in_logs:
            return replaces
        lacks = [name in self._sources[name].lacks, name in later.lacks]
        pair = [self.kept.ranked, later.ranked]
        return ordering.field_source(self._rule.kind, pair, lacks, newest=name in self._newest) == 1

    def meet_base(
        self, number: int, base: RecordVersion, values: Sequence[Column], base_lacks: frozenset[str]
    ) -> Judgement:
        """Set the survivor against the base row, given the survivor's ordering values, and end."""
        log = self.kept.version
        # A row with a delete mark deletes, but is not told from other rows before it has survived.
        flags = (log.is_delete and not log.marked, log.always_deletes)
        kind = self._rule.kind
        if ordering.log_replaces_base(kind, (1,), ((0,), *flags)):
            wins, reason = True, _reason_against_base(self._rule, log)
        else:
            of_log, of_base = _ranks_against_base(values, base, self._rule)
            wins = ordering.log_replaces_base(kind, of_base, (of_log, *flags))
            reason = _comparison(log, of_log, base, of_base)
        deletes = log.is_delete or log.marked
        from_log = {
            name for name in self._sources if self._comes_from_log(name, base_lacks, wins=wins, deletes=deletes)
        }
        filled = () if deletes else (name for name in self._sources if (name in from_log) != wins)
        winner, loser = (self.kept.number, number) if wins else (number, self.kept.number)
        self._record(winner, loser, reason, filled)
        if wins and deletes:
            return self._judgement(winner, {})
        sources = {name: source.number if name in from_log else number for name, source in self._sources.items()}
        return self._judgement(winner, sources)

    def _comes_from_log(self, name: str, base_lacks: frozenset[str], *, wins: bool, deletes: bool) -> bool:
        if deletes or not self._merges_fields:
            return wins and not deletes
        if name in self._newest:
            return True
        return name not in self._sources[name].lacks if wins else name in base_lacks

    def end(self) -> Judgement:
        """The end where there is no base row."""
        log = self.kept.version
        left = {} if log.is_delete or log.marked else self._sources
        return self._judgement(self.kept.number, {name: source.number for name, source in left.items()})

    def _record(self, winner: int, loser: int, reason: str, filled: Iterable[str]) -> None:
        named = tuple(name for name in filled if name not in META_FIELDS)
        self._verdicts.append(Verdict(winner=winner, loser=loser, reason=reason, filled=named))

    def _judgement(self, winner: int, sources: Mapping[str, int]) -> Judgement:
        known = sources if self._rule.payload is None else {}
        return Judgement(verdicts=tuple(self._verdicts), winner=winner, sources=tuple(known.items()))


def _lacking(version: RecordVersion, rule: MergeRule, defaults: Mapping[str, Value]) -> frozenset[str]:
    if not version.row.num_rows:
        return frozenset()
    return version.absent.union(lacking_fields(version.row, rule, defaults))


def _ordering_columns(blocks: Sequence[LogRecords], rule: MergeRule) -> list[Column]:
    if not rule.orders_logs:
        return []
    return [
        pa.concat_arrays([block.ordering[position] for block in blocks])
        for position in range(len(rule.ordering_fields))
    ]


def _ranks_against_base(
    values: Sequence[Column], base: RecordVersion, rule: MergeRule
) -> tuple[tuple[int], tuple[int]]:
    both = []
    for name, of_log in zip(rule.ordering_fields, values, strict=True):
        of_base = ordering_values(name, base.row)
        both.append(pa.concat_arrays([of_log, of_base.cast(of_log.type)]))
    of_log_and_base = ordering_ranks(both, 2, rule, against_base=True).tolist()
    return (of_log_and_base[0],), (of_log_and_base[1],)


def _reason_in_logs(rule: MergeRule, kept: _Contender, later: _Contender) -> str:
    kind = rule.kind
    one, other = (contender.ranked[1:] for contender in (kept, later))
    if rule.payload is not None and not (kept.version.is_delete or later.version.is_delete):
        return _combined(rule)
    if ordering.later_replaces(kind, ((1,), *one), ((0,), *other)):
        if kind == ordering.COMMIT_TIME:
            return "commit-time ordering: the later one"
        if later.version.always_deletes:
            return _plain_delete(rule, later.version)
        if kind == ordering.EVENT_TIME:
            return "a row after a delete without an ordering value"
        if kind == ordering.LATEST_OF_10 and not kept.version.is_delete:
            return "the later one, whatever its ordering"
        if kind == ordering.PAYLOAD_OF_11 and later.version.is_delete:
            return "a delete, whatever its ordering"
        return "a row after a delete, whatever its ordering"
    if not ordering.later_replaces(kind, ((0,), *one), ((1,), *other)):
        return "delete with an ordering value after one without"
    if not rule.ranks_logs:
        return "the later one, whatever its ordering"
    return _comparison(later.version, later.ranked[0], kept.version, kept.ranked[0])


def _reason_against_base(rule: MergeRule, log: RecordVersion) -> str:
    if rule.kind == ordering.COMMIT_TIME:
        return "commit-time ordering: the later one"
    if log.always_deletes:
        return _plain_delete(rule, log)
    if rule.payload is not None and not log.is_delete:
        return _combined(rule)
    if rule.kind == ordering.OVERWRITE_LATEST or not log.is_delete:
        return "the log replaces the base row, whatever its ordering"
    return "a delete in the log, whatever its ordering"


def _plain_delete(rule: MergeRule, delete: RecordVersion) -> str:
    if rule.text_deletes_always and any(isinstance(value, str) for value in delete.ordering):
        return "a delete, whatever its ordering"
    return "delete without an ordering value"


def _combined(rule: MergeRule) -> str:
    return f"combined by {type(rule.payload).__name__}"


def _comparison(
    later: RecordVersion, later_rank: tuple[object, ...], earlier: RecordVersion, earlier_rank: tuple[object, ...]
) -> str:
    if not later.ordering and not earlier.ordering:
        return "later, no ordering field"
    one, other = ordering_text(later.ordering), ordering_text(earlier.ordering)
    if later_rank == earlier_rank:
        return f"later, equal ordering {one}" if one == other else f"later, equal ordering {one} and {other}"
    is_lower = ordering.is_lower(later_rank, earlier_rank)
    return f"{'lower' if is_lower else 'higher'} ordering {one} than {other}"
