"""From when on something is too old, too small or too much; where Hudi has such an option, its default is ours."""

from dataclasses import dataclass
from datetime import UTC, datetime

from hudi_bridge.config import TimelineTimezone
from hudi_bridge.timeline.instant import seconds_between

_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of an examination.

    ``pending_hours``: how long a write, rollback or restore may be under way. ``service_hours``: how long a compaction,
    log compaction, clustering, clean or indexing may. ``delta_commits``: how many writes may be in the logs of a slice
    (``hoodie.compact.inline.max.delta.commits``). ``log_ratio``: how many log bytes there may be for each base byte.
    ``small_file_bytes``: what a base file should have at least (``hoodie.parquet.small.file.limit``). ``skew``: how
    many times the median a partition may have. ``files``: of how many files at most the footers or headers are read.
    """

    pending_hours: float = 24
    service_hours: float = 24
    delta_commits: int = 5
    log_ratio: float = 1.0
    small_file_bytes: int = 104_857_600
    skew: float = 10
    files: int = 20_000


def clock(timezone: TimelineTimezone) -> str:
    """The current time as an instant of a timeline; that of writers in an unknown zone is taken for this machine's."""
    now = datetime.now(UTC)
    return _spelled(now if timezone is TimelineTimezone.UTC else now.astimezone())


def hours_between(earlier: str, later: str) -> float | None:
    """The hours from one instant to another; None if one of them is no time."""
    seconds = seconds_between(earlier, later)
    return None if seconds is None else seconds / _HOUR


def age_text(hours: float) -> str:
    """A number of hours for people."""
    if hours < 1:
        return f"{hours * 60:.0f} minutes"
    return f"{hours:.0f} hours" if hours < 72 else f"{hours / 24:.0f} days"  # noqa: PLR2004 - three days


def _spelled(moment: datetime) -> str:
    return moment.strftime("%Y%m%d%H%M%S") + f"{moment.microsecond // 1000:03d}"
