"""The files in which versions of records are searched for: those of a snapshot, and log files that it does not read."""

from collections.abc import Iterable

import pyarrow.compute as pc

from hudi_bridge.config import QueryType
from hudi_bridge.splits.file_names import parse_log_file_name
from hudi_bridge.splits.partition_values import partition_values
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage import FileInfo
from hudi_bridge.timeline.plans import GroupId


def slices_to_search(
    planner: SplitPlanner, partition_path: str | None, row_filter: pc.Expression | None = None
) -> list[tuple[RealtimeFileSplit, tuple[str, ...]]]:
    """The splits of the snapshot, each with the log files of its file group that the snapshot does not read.

    They are those of one partition if its path is given, and without partitions that the filter rules out. A file group
    that has only such log files is a split without files.
    """
    partition_path = partition_path and partition_path.strip("/")
    context = planner.context(QueryType.SNAPSHOT)
    within = None if partition_path is None else (partition_path,)
    planned = planner.splits(QueryType.SNAPSHOT, row_filter, within=within)
    splits = {(split.partition_path, split.file_id): split for split in planned}
    others: dict[GroupId, list[str]] = {group: [] for group in splits}
    for path in planner.files.partitions(planner.columns(QueryType.SNAPSHOT), row_filter, within=within):
        for file_id, log_path in _uncounted_log_files(planner.files.in_partition(path, must_exist=False), context):
            others.setdefault((path, file_id), []).append(log_path)
    slices = []
    for group in sorted(others):
        split = splits.get(group) or _empty_split(group, planner)
        # In older layouts, log files written after a pending compaction have its instant, and are read.
        slices.append((split, tuple(path for path in others[group] if path not in split.log_paths)))
    return slices


def _uncounted_log_files(files: Iterable[FileInfo], context: ReadContext) -> list[tuple[str, str]]:
    """File ids and paths of log files that, by their names, a snapshot does not read, in log file order.

    Log files of earlier file slices are not included: their records are in a base file.
    """
    names = ((parse_log_file_name(info.name), info.path) for info in files if info.name.startswith("."))
    found = [
        (name, path)
        for name, path in names
        if name is not None
        and not name.is_cdc
        and (name.instant_time > context.latest_instant or not context.is_committed(name.instant_time))
    ]
    found.sort(key=lambda item: item[0].sort_key)
    return [(name.file_id, path) for name, path in found]


def _empty_split(group: GroupId, planner: SplitPlanner) -> RealtimeFileSplit:
    context = planner.context(QueryType.SNAPSHOT)
    values = partition_values(group[0], planner.state.config, context.schema, context.path_columns)
    return RealtimeFileSplit(
        context=context,
        partition_path=group[0],
        partition_values=values or (),
        file_id=group[1],
        base_instant_time="",
        base_path=None,
        log_paths=(),
        base_size_bytes=0,
        log_size_bytes=0,
    )
