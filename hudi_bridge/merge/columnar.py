"""A base file's keys against the surviving log records: which rows of either side remain, and which become one.

Nothing is interleaved: what a merged slice returns is its base file without the rows that a log record replaces,
deletes or is merged with, the merged rows, and the log records that met no base row. A key that a base file holds more
than once is merged at its first row; the later rows pass, as in Hudi.

Source: ``KeyBasedFileGroupRecordBuffer`` of Hudi.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.merge import ordering
from hudi_bridge.merge.arrays import Booleans, Column, Positions, Value
from hudi_bridge.merge.lacking import META_COLUMNS, lacking_fields
from hudi_bridge.merge.payloads import MergeRule
from hudi_bridge.merge.ranks import ordering_ranks
from hudi_bridge.merge.record_map import LogRecordMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Meetings:
    """Base rows and the log records of the same key: their places, and which of the two wins.

    ``rows`` is ascending.
    """

    rows: Positions
    records: Positions
    log_wins: Booleans

    def between(self, start: int, end: int) -> "Meetings":
        """Those of the base rows from ``start`` up to ``end``, counted from there."""
        low, high = np.searchsorted(self.rows, [start, end])
        return Meetings(
            rows=self.rows[low:high] - start, records=self.records[low:high], log_wins=self.log_wins[low:high]
        )


def no_meetings() -> Meetings:
    """None at all."""
    nothing = np.empty(0, dtype=np.int64)
    return Meetings(rows=nothing, records=nothing, log_wins=nothing.astype(np.bool_))


def joined(meetings: Sequence[Meetings]) -> Meetings:
    """The meetings of several stretches of a base file, given in its order."""
    return Meetings(
        rows=np.concatenate([some.rows for some in meetings]),
        records=np.concatenate([some.records for some in meetings]),
        log_wins=np.concatenate([some.log_wins for some in meetings]),
    )


class SliceMerge:
    """The merge of one file slice.

    It is fed with the base file's keys first (``find``, ``decide``); then it says of base rows which remain and what
    the others become, and which log records are left.
    """

    def __init__(self, log_records: LogRecordMap, rule: MergeRule, defaults: Mapping[str, Value]) -> None:
        self._log = log_records
        self._rule = rule
        self._defaults = defaults
        self._met = np.zeros(len(log_records), dtype=np.bool_)
        self._beaten = np.zeros(len(log_records), dtype=np.bool_)
        self.merges_fields = rule.fill is not None or bool(log_records.lacks)
        if rule.kind in (ordering.COMMIT_TIME, ordering.OVERWRITE_LATEST):
            self._wins_always = np.ones(len(log_records), dtype=np.bool_)
        elif rule.kind == ordering.DEFAULT_PAYLOAD:
            self._wins_always = (log_records.is_delete & ~log_records.marked) | log_records.always_deletes
        else:
            self._wins_always = log_records.always_deletes

    def find(self, base_keys: Column) -> tuple[Positions, Positions]:
        """The rows among the base keys given that a log record meets, and that record's position.

        Keys must be given once, in the order of the base file.
        """
        hits: Column = pc.index_in(base_keys, value_set=self._log.keys)
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

    def decide(self, rows: Positions, records: Positions, base_ordering: Sequence[Column]) -> Meetings:
        """Which side wins where a log record meets a base row.

        ``base_ordering`` holds the ordering values of those rows, or nothing where they are not needed.
        """
        wins = self._wins_always[records]
        if self.needs_ordering(records):
            taken = pa.array(records, pa.int64())
            both = [
                pa.concat_arrays([of_log.take(taken), of_base.cast(of_log.type)])
                for of_log, of_base in zip(self._log.ordering, base_ordering, strict=True)
            ]
            ranks = ordering_ranks(both, 2 * len(records), self._rule, against_base=True)
            wins = wins | (ranks[: len(records)] >= ranks[len(records) :])
        self._beaten[records[~wins]] = True
        return Meetings(rows=rows, records=records, log_wins=wins)

    def remaining_base_rows(self, batch: pa.RecordBatch, met: Meetings) -> pa.RecordBatch:
        """The rows of a batch that stay as they are, given its meetings."""
        gone = met.rows if self.merges_fields else met.rows[met.log_wins]
        if not len(gone):
            return batch
        keep = np.ones(batch.num_rows, dtype=np.bool_)
        keep[gone] = False
        return batch.filter(pa.array(keep))

    def merged_rows(self, base: pa.RecordBatch, met: Meetings) -> pa.RecordBatch:
        """The met base rows, merged with their log records field by field; those that are deleted are left out."""
        is_delete = self._log.is_delete[met.records]
        stays = ~(met.log_wins & is_delete)
        base = base.filter(pa.array(stays))
        records, wins, is_delete = met.records[stays], met.log_wins[stays], is_delete[stays]
        base_lacks = lacking_fields(base, self._rule, self._defaults)
        nothing = np.zeros(len(records), dtype=np.bool_)
        # A delete that loses has no row; it leaves the base row as it is.
        row_of_log = np.where(is_delete, 0, records)
        columns = []
        for name in base.schema.names:
            log_lacks = self._log.lacks[name][row_of_log] if name in self._log.lacks else nothing
            from_log = np.where(wins, ~log_lacks, base_lacks.get(name, nothing))
            if self._rule.newest_meta and name in META_COLUMNS:
                from_log = ~nothing
            columns.append(self._picked(base.column(name), name, row_of_log, from_log & ~is_delete))
        return pa.record_batch(columns, schema=base.schema)

    def _picked(self, base: Column, name: str, row_of_log: Positions, from_log: Booleans) -> Column:
        if not from_log.any():
            return base
        of_log = self._log.rows.column(name).take(pa.array(row_of_log[from_log], pa.int64())).combine_chunks()
        places = np.arange(len(base))
        places[from_log] = len(base) + np.arange(len(of_log))
        return pa.concat_arrays([base, of_log]).take(pa.array(places, pa.int64()))

    def remaining_log_rows(self) -> pa.Table:
        """The log records that are rows of their own, once all base keys have been given."""
        gone = self._met if self.merges_fields else self._beaten
        gone = gone[: self._log.rows.num_rows]
        return self._log.rows.filter(pa.array(~gone)) if gone.any() else self._log.rows
