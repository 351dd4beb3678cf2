"""Finds the file slices of which a row may pass a filter, by all indexes of a table that tell it.

An index that names file groups is asked before anything is listed.
Each other index is a step, and asked of the slices that those before it leave. An index that cannot tell leaves all.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

import pyarrow.compute as pc

from hudi_bridge.splits.plan_notes import PlanNotes
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.timeline.plans import GroupId


class SkippingStep(Protocol):
    """An index that rules out file slices for a filter."""

    def splits_that_may_pass(
        self,
        splits: Iterable[RealtimeFileSplit],
        row_filter: pc.Expression,
        columns: Sequence[str],
        context: ReadContext,
        notes: PlanNotes | None = None,
    ) -> Iterator[RealtimeFileSplit]:
        """The splits of which rows may pass a filter that refers to some columns of a query."""


class GroupIndex(Protocol):
    """An index that names file groups for a filter."""

    def file_groups(
        self, row_filter: pc.Expression, columns: Sequence[str], context: ReadContext, notes: PlanNotes | None = None
    ) -> AbstractSet[GroupId] | None:
        """The partition path and file id of all groups with rows that may pass; None if the index cannot tell."""


@dataclass(frozen=True, slots=True)
class Skipping:
    """The steps by name, in the order in which they are asked, and the index that names file groups, if any."""

    steps: tuple[tuple[str, SkippingStep], ...]
    groups: GroupIndex | None = None

    def splits_that_may_pass(
        self,
        splits: Iterable[RealtimeFileSplit],
        row_filter: pc.Expression,
        columns: Sequence[str],
        context: ReadContext,
        notes: PlanNotes | None = None,
    ) -> Iterator[RealtimeFileSplit]:
        """The splits of which rows may pass a filter that refers to some columns of a query."""
        left = iter(splits)
        for _, step in self.steps:
            left = step.splits_that_may_pass(left, row_filter, columns, context, notes)
        return left
