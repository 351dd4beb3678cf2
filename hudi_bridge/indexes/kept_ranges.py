"""Passes over file slices by the ranges of columns in files that queries of this process have read before."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, islice

import pyarrow.compute as pc

from hudi_bridge.readers.column_ranges import columns_with_ranges, known_ranges
from hudi_bridge.readers.filter_ranges import may_pass_in_any
from hudi_bridge.splits.plan_notes import PlanNotes
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage import Storage

_SPLITS_AT_ONCE = 4_096
STEP = "ranges of files read before"


class KeptRanges:
    """The ranges that the storage keeps of base files, from their footers, and of log files, from their records."""

    def __init__(self, storage: Storage) -> None:
        """The ranges in the files of a table."""
        self._storage = storage

    def splits_that_may_pass(
        self,
        splits: Iterable[RealtimeFileSplit],
        row_filter: pc.Expression,
        columns: Sequence[str],
        context: ReadContext,
        notes: PlanNotes | None = None,
    ) -> Iterator[RealtimeFileSplit]:
        """The splits of which rows may pass a filter that refers to some columns of a query."""
        kinds = {name: context.schema.field(name).type for name in columns_with_ranges(columns, context)}
        waiting = iter(splits)
        while part := list(islice(waiting, _SPLITS_AT_ONCE)):
            known = {
                name: (kind, [known_ranges(self._storage, one, name) for one in part]) for name, kind in kinds.items()
            }
            # Nothing is known before the first query.
            asked = {name: found for name, found in known.items() if any(one is not False for one in found[1])}
            if not asked:
                yield from part
                continue
            chosen = list(compress(part, may_pass_in_any(row_filter, asked, len(part)).tolist()))
            if notes is not None:
                notes.counted(STEP, len(part), len(chosen))
            yield from chosen
