"""What each file slice costs a reader, by its files and the headers of its logs."""

from collections.abc import Iterable, Mapping

from hudi_bridge.doctor.findings import SliceCost
from hudi_bridge.errors import HudiReadError
from hudi_bridge.logformat.scan import ScanResult
from hudi_bridge.splits.file_slice import FileSlice


def slice_costs(
    slices: Iterable[FileSlice], log_heads: Mapping[str, ScanResult | HudiReadError] | None, most_delta_commits: int
) -> tuple[SliceCost, ...]:
    """The costs of slices, those with the most log bytes first.

    ``log_heads`` are the blocks of log files that do not tell by their names who wrote them, None if they do. From
    ``most_delta_commits`` on, a compaction is overdue.
    """
    costs = (_cost(piece, _writes(piece, log_heads), most_delta_commits) for piece in slices)
    return tuple(sorted(costs, key=lambda cost: (-cost.log_bytes, cost.partition_path, cost.file_id)))


def _cost(piece: FileSlice, writes: int, most_delta_commits: int) -> SliceCost:
    return SliceCost(
        partition_path=piece.partition_path,
        file_id=piece.file_id,
        base_bytes=piece.base_size_bytes,
        log_bytes=piece.log_size_bytes,
        log_files=len(piece.log_files),
        delta_commits=writes,
        log_ratio=piece.log_size_bytes / piece.base_size_bytes if piece.base_size_bytes else None,
        merge_bytes=piece.log_size_bytes,
        is_overdue=writes >= most_delta_commits,
    )


def _writes(piece: FileSlice, log_heads: Mapping[str, ScanResult | HudiReadError] | None) -> int:
    """The number of writes in the logs of a slice."""
    if log_heads is None:
        return len({log.name.instant_time for log in piece.log_files})
    times: set[str] = set()
    for log in piece.log_files:
        scan = log_heads.get(log.path)
        if scan is not None and not isinstance(scan, HudiReadError):
            times |= {block.instant_time for block in scan.blocks if block.instant_time and block.holds_records}
    return len(times)
