"""A base file's keys against the surviving log records: which base rows go, which log records stay.

Nothing is interleaved: what a merged slice returns is its base file without the rows that a log record replaces or
deletes, followed by the log records that are not beaten by a base row. A key that a base file holds more than once is
merged at its first row; the later rows pass, as in Hudi.

Source: ``KeyBasedFileGroupRecordBuffer`` of Hudi.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.merge import ordering
from hudi_bridge.merge.payloads import MergeRule
from hudi_bridge.merge.ranks import ordering_ranks
from hudi_bridge.merge.record_map import LogRecordMap

Positions = npt.NDArray[np.int64]


class SliceMerge:
    """The merge of one file slice: fed with the base file's keys, it says which rows of either side remain."""

    def __init__(self, log_records: LogRecordMap, rule: MergeRule) -> None:
        self._log = log_records
        self._rule = rule
        self._met = np.zeros(len(log_records), dtype=np.bool_)
        self._beaten = np.zeros(len(log_records), dtype=np.bool_)
        if rule.kind in (ordering.COMMIT_TIME, ordering.OVERWRITE_LATEST):
            self._wins_always = np.ones(len(log_records), dtype=np.bool_)
        elif rule.kind == ordering.DEFAULT_PAYLOAD:
            self._wins_always = log_records.is_delete | log_records.always_deletes
        else:
            self._wins_always = log_records.always_deletes

    def find(self, base_keys: pa.Array) -> tuple[Positions, Positions]:
        """The rows among the base keys given that a log record meets, and that record's position.

        Keys must be given once, in the order of the base file.
        """
        hits = pc.index_in(base_keys, value_set=self._log.keys)
        rows = np.flatnonzero(hits.is_valid().to_numpy(zero_copy_only=False))
        records = hits.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
        first = np.zeros(len(records), dtype=np.bool_)
        first[np.unique(records, return_index=True)[1]] = True
        first &= ~self._met[records]
        self._met[records] = True
        return rows[first], records[first]

    def needs_ordering(self, records: Positions) -> bool:
        """Whether the base rows' ordering values decide about any of these log records."""
        return self._rule.orders_base and not bool(self._wins_always[records].all())

    def replaced(self, rows: Positions, records: Positions, base_ordering: Sequence[pa.Array]) -> Positions:
        """Those of the rows found that do not remain; the log records that lose to their row are noted.

        ``base_ordering`` holds the ordering values of the rows found, or nothing where they are not needed.
        """
        wins = self._wins_always[records]
        if self._rule.orders_base and not wins.all():
            of_log = [column.take(pa.array(records)) for column in self._log.ordering]
            both = [
                pa.concat_arrays([one, other.cast(one.type)]) for one, other in zip(of_log, base_ordering, strict=True)
            ]
            ranks = ordering_ranks(both, 2 * len(records), nulls_as_zero=self._rule.nulls_as_zero)
            wins = wins | (ranks[: len(records)] >= ranks[len(records) :])
        self._beaten[records[~wins]] = True
        return rows[wins]

    def remaining_log_rows(self) -> pa.Table:
        """The log records that are part of the answer, once all base keys have been given."""
        beaten = self._beaten[: self._log.rows.num_rows]
        return self._log.rows.filter(pa.array(~beaten)) if beaten.any() else self._log.rows
