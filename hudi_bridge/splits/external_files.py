"""The external files of a table, as its commits name them: Parquet files of another writer than Hudi.

No listing tells that such a file belongs to the table. The metadata table does, or the replace commit that registered
it. Hudi asks the metadata table alone, and finds no rows in a table without one.

Source: ``HudiConversionTarget`` of Apache XTable, ``RegisterOnlyBootstrapStatBuilder`` of Hudi.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.splits.file_slice import is_data_file, is_external, stored_path
from hudi_bridge.splits.partitions import is_partition
from hudi_bridge.storage.storage import FileInfo
from hudi_bridge.timeline.commit_metadata import CommitMetadata, commit_metadata_of_record, read_all_commit_metadata
from hudi_bridge.timeline.history import load_archived_instants, read_archived_commits
from hudi_bridge.timeline.instant import Action
from hudi_bridge.timeline.timeline import TableState

_HIDDEN = (".", "_")
_NOTHING = commit_metadata_of_record({}, "")
"""What Hudi archives of a replace commit in layout 1, unless it is of an operation that it knows."""


def may_hold_external(listing: Iterable[FileInfo]) -> bool:
    """Whether a folder has files that are not Hudi's, or folders in a partition: external files may be among them."""
    entries = list(listing)
    in_partition = is_partition(entries)
    for info in entries:
        if info.name.startswith(_HIDDEN):
            continue
        if info.is_dir:
            # The folder of a table may be one of its partitions, with others in it.
            if in_partition and "/" in info.path:
                return True
        elif not in_partition or not (info.name.endswith(".crc") or is_data_file(info.name, native=True)):
            return True
    return False


def registered_files(state: TableState) -> Mapping[str, Sequence[FileInfo]]:
    """The external files that replace commits have registered, archived ones too, by partition.

    They have the names that commits give them. Files that an archived commit has replaced are left out.

    Raises:
        UnsupportedTableError: an archived commit may have registered some, and does not tell.
        CorruptTableError: a commit is damaged, or the name of an external file is none.
    """
    active = [commit for commit in state.timeline.commits() if commit.action is Action.REPLACE_COMMIT]
    newer = read_all_commit_metadata(state, active)
    registers = any(is_external(stat.path) for metadata in newer for stat in metadata.write_stats)
    if not registers and state.config.populates_meta_fields:
        # Nothing registered the other files in the folders.
        return {}
    files: dict[tuple[str, str], FileInfo] = {}
    older = _archived_commits(state, {commit.requested_time for commit in active})
    for time, metadata in older.items():
        if metadata == _NOTHING:
            actual = f"the archived commit {time}, which does not tell what it registered, and no metadata table"
            raise UnsupportedTableError("external files", actual, "those that the metadata table or commits name")
        for partition, file_ids in metadata.replaced_file_ids:
            for file_id in file_ids:
                files.pop((partition, file_id), None)
        _register(files, metadata)
    for metadata in newer:
        _register(files, metadata)
    by_partition: dict[str, list[FileInfo]] = defaultdict(list)
    for (partition, _), info in files.items():
        by_partition[partition].append(info)
    return by_partition


def _register(files: dict[tuple[str, str], FileInfo], metadata: CommitMetadata) -> None:
    for stat in metadata.write_stats:
        if is_external(stat.path):
            stored_path(stat.path)
            info = FileInfo(path=stat.path, size_bytes=stat.file_size_bytes, is_dir=False)
            files[stat.partition_path, stat.file_id] = info


def with_registered(listing: Iterable[FileInfo], registered: Sequence[FileInfo]) -> tuple[FileInfo, ...]:
    """The files of a partition, by its listing; external files have the names that commits give them."""
    stored = {stored_path(info.path) for info in registered}
    return (*(info for info in listing if not info.is_dir and info.path not in stored), *registered)


def _archived_commits(state: TableState, active: AbstractSet[str]) -> Mapping[str, CommitMetadata]:
    """The metadata of archived replace commits by requested time, oldest first."""
    instants = (instant for instant in load_archived_instants(state) if instant.action is Action.REPLACE_COMMIT)
    commits = read_archived_commits(state, {instant.requested_time for instant in instants}.difference(active))
    return {time: commits[time] for time in sorted(commits)}
