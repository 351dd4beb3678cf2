"""What a compaction would give: bytes that a snapshot would no longer merge, and bytes to read and write for that.

The cost of merging is counted in bytes of logs, all of which a snapshot reads. How large a compacted base file will be
is not known before: as large as the old one if all log records are updates, and larger by at most the logs if all are
inserts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hudi_bridge.doctor import SliceCost

_FIRST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionGain:
    """What compacting some file slices would give, in bytes.

    ``saved_bytes`` are those of the logs that snapshots would no longer merge, ``saved_share`` their part of all logs,
    between 0 and 1. ``read_bytes`` is what the compaction itself reads. It writes between ``least_written_bytes`` and
    ``read_bytes``.
    """

    which: str
    slices: int
    saved_bytes: int
    saved_share: float
    read_bytes: int
    least_written_bytes: int


def compaction_gains(costs: Sequence[SliceCost], delta_commits: int) -> tuple[CompactionGain, ...]:
    """The gain from all slices with logs, from those that Hudi would choose, and from the few with the most logs.

    ``costs`` are those of a diagnosis, the most expensive first; ``delta_commits`` is after how many writes a slice is
    compacted. Empty without logs.
    """
    merged = [cost for cost in costs if cost.log_files]
    if not merged:
        return ()
    total = sum(cost.merge_bytes for cost in merged)
    choices = [("all with logs", merged)]
    overdue = [cost for cost in merged if cost.is_overdue]
    if overdue:
        choices.append((f"those with {delta_commits} writes or more in their logs", overdue))
    if len(merged) > _FIRST:
        choices.append((f"the {_FIRST} with the most bytes of logs", merged[:_FIRST]))
    return tuple(_gain(which, chosen, total) for which, chosen in choices)


def _gain(which: str, chosen: Sequence[SliceCost], total: int) -> CompactionGain:
    saved = sum(cost.merge_bytes for cost in chosen)
    base = sum(cost.base_bytes for cost in chosen)
    return CompactionGain(
        which=which,
        slices=len(chosen),
        saved_bytes=saved,
        saved_share=saved / total if total else 0.0,
        read_bytes=base + saved,
        least_written_bytes=base,
    )
