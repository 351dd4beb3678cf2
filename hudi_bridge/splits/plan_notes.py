"""What a plan found and passed over, step by step, for those who ask what a query reads."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

_Split = TypeVar("_Split")

METADATA_TABLE = "metadata table"
LISTING = "listing of folders"
COMMITS = "commits of the range"
PARTITION_CONDITION = "partition condition"
PARTITIONS = "partitions"
SLICES = "file slices"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """Where the names of files come from; ``why_not_metadata_table`` is None if it is that."""

    name: str
    why_not_metadata_table: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningStep:
    """One step of pruning: how many there were ``before`` and are left ``after`` it, of ``unit``.

    The unit is ``partitions`` or ``file slices``.

    Both are None if the step was not taken, and ``why_not`` says why. Of a listing of folders, a folder that was ruled
    out with all partitions in it counts as one partition.

    Part of an ``Explanation``.
    """

    name: str
    unit: str
    before: int | None
    after: int | None
    why_not: str | None


class PlanNotes:
    """Collects the steps of one plan, in the order in which they are first mentioned."""

    def __init__(self) -> None:
        """Notes without a step."""
        self._steps: dict[str, PruningStep] = {}
        self.listed = 0
        """The number of splits that were listed, before any index was asked."""
        self.files_found_by: FileSource | None = None
        """How the names of files were found, if not as in other queries of the table."""

    @property
    def steps(self) -> tuple[PruningStep, ...]:
        """The steps so far."""
        return tuple(self._steps.values())

    def counting(self, splits: Iterable[_Split]) -> Iterator[_Split]:
        """The same splits; they are counted as listed."""
        for split in splits:
            self.listed += 1
            yield split

    def counted(self, name: str, before: int, after: int, unit: str = SLICES) -> None:
        """Note a step; a part of the table at a time is added up."""
        known = self._steps.get(name)
        if known is not None:
            before, after = before + (known.before or 0), after + (known.after or 0)
        why_not = None if known is None else known.why_not
        self._steps[name] = PruningStep(name=name, unit=unit, before=before, after=after, why_not=why_not)

    def not_used(self, name: str, why_not: str, unit: str = SLICES) -> None:
        """Note why a step was not taken, or not for all of the table."""
        known = self._steps.get(name)
        before, after = (None, None) if known is None else (known.before, known.after)
        self._steps[name] = PruningStep(name=name, unit=unit, before=before, after=after, why_not=why_not)
