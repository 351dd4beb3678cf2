"""Hudi Bridge: the true, current rows of Apache Hudi merge-on-read tables.

``HudiTable.open`` is where to begin. What its methods return is exported here, too, for annotations and ``isinstance``;
the docstring of a class says what makes it. Each name is imported when it is first used, so that starting costs what is
needed.
"""

from typing import TYPE_CHECKING

from hudi_bridge.imports import lazy_names

if TYPE_CHECKING:
    from hudi_bridge.changes.split import ChangeFormat as ChangeFormat
    from hudi_bridge.changes.split import ChangeSplit as ChangeSplit
    from hudi_bridge.changes.split import GroupChange as GroupChange
    from hudi_bridge.config import CdcMode as CdcMode
    from hudi_bridge.config import MergeMode as MergeMode
    from hudi_bridge.config import PartitionFieldKind as PartitionFieldKind
    from hudi_bridge.config import QueryType as QueryType
    from hudi_bridge.config import TableConfig as TableConfig
    from hudi_bridge.config import TableType as TableType
    from hudi_bridge.config import TimelineTimezone as TimelineTimezone
    from hudi_bridge.dataset import BatchScanner as BatchScanner
    from hudi_bridge.dataset import HudiDataset as HudiDataset
    from hudi_bridge.engines import SliceDelta as SliceDelta
    from hudi_bridge.engines import StoredBaseFile as StoredBaseFile
    from hudi_bridge.engines import SurvivingLogRecords as SurvivingLogRecords
    from hudi_bridge.engines import slice_delta as slice_delta
    from hudi_bridge.errors import CorruptBaseFileError as CorruptBaseFileError
    from hudi_bridge.errors import CorruptLogFileError as CorruptLogFileError
    from hudi_bridge.errors import CorruptTableError as CorruptTableError
    from hudi_bridge.errors import CorruptTimelineError as CorruptTimelineError
    from hudi_bridge.errors import DataFileGoneError as DataFileGoneError
    from hudi_bridge.errors import HudiReadError as HudiReadError
    from hudi_bridge.errors import InstantNotReadableError as InstantNotReadableError
    from hudi_bridge.errors import MergeError as MergeError
    from hudi_bridge.errors import QueryError as QueryError
    from hudi_bridge.errors import SchemaEvolutionError as SchemaEvolutionError
    from hudi_bridge.errors import StorageError as StorageError
    from hudi_bridge.errors import TableNotFoundError as TableNotFoundError
    from hudi_bridge.errors import UnsupportedTableError as UnsupportedTableError
    from hudi_bridge.explain import Explanation as Explanation
    from hudi_bridge.explain import SliceToRead as SliceToRead
    from hudi_bridge.inspection import inspect_columns as inspect_columns
    from hudi_bridge.inspection import inspect_commit as inspect_commit
    from hudi_bridge.inspection import inspect_commit_files as inspect_commit_files
    from hudi_bridge.inspection import inspect_commits as inspect_commits
    from hudi_bridge.inspection import inspect_file_slices as inspect_file_slices
    from hudi_bridge.inspection import inspect_files as inspect_files
    from hudi_bridge.inspection import inspect_metadata_records as inspect_metadata_records
    from hudi_bridge.inspection import inspect_metadata_table as inspect_metadata_table
    from hudi_bridge.inspection import inspect_splits as inspect_splits
    from hudi_bridge.inspection import inspect_table as inspect_table
    from hudi_bridge.inspection import inspect_timeline as inspect_timeline
    from hudi_bridge.logformat.scan import SkippedBlocks as SkippedBlocks
    from hudi_bridge.merge.custom_payload import RecordMerger as RecordMerger
    from hudi_bridge.merge.custom_payload import RecordPayload as RecordPayload
    from hudi_bridge.merge.custom_payload import VersionToMerge as VersionToMerge
    from hudi_bridge.replanning import OnFilesGone as OnFilesGone
    from hudi_bridge.schema.difference import SchemaChange as SchemaChange
    from hudi_bridge.schema.difference import SchemaChangeKind as SchemaChangeKind
    from hudi_bridge.schema.file_columns import ColumnMapping as ColumnMapping
    from hudi_bridge.schema.file_columns import Outcome as Outcome
    from hudi_bridge.schema.infer import SchemaAmbiguity as SchemaAmbiguity
    from hudi_bridge.schema.infer import SchemaAmbiguityKind as SchemaAmbiguityKind
    from hudi_bridge.schema.infer import SchemaProposal as SchemaProposal
    from hudi_bridge.schema.internal import InternalSchema as InternalSchema
    from hudi_bridge.split_reader import SplitReader as SplitReader
    from hudi_bridge.split_reader import open_reader as open_reader
    from hudi_bridge.splits.file_slice import BaseFile as BaseFile
    from hudi_bridge.splits.file_slice import FileSlice as FileSlice
    from hudi_bridge.splits.file_slice import LogFile as LogFile
    from hudi_bridge.splits.file_slice import LogFileName as LogFileName
    from hudi_bridge.splits.notes import PruningStep as PruningStep
    from hudi_bridge.splits.planner import Split as Split
    from hudi_bridge.splits.planner import SplitPlanner as SplitPlanner
    from hudi_bridge.splits.schema_history import FileColumns as FileColumns
    from hudi_bridge.splits.schema_history import SchemaVersion as SchemaVersion
    from hudi_bridge.splits.split import ReadContext as ReadContext
    from hudi_bridge.splits.split import RealtimeFileSplit as RealtimeFileSplit
    from hudi_bridge.table import HudiTable as HudiTable
    from hudi_bridge.timeline.instant import Action as Action
    from hudi_bridge.timeline.instant import Instant as Instant
    from hudi_bridge.timeline.instant import InstantState as InstantState
    from hudi_bridge.timeline.instant_range import InstantRange as InstantRange
    from hudi_bridge.timeline.timeline import Timeline as Timeline

__version__ = "0.1.0"

_HOMES = {
    "Action": "hudi_bridge.timeline.instant",
    "BaseFile": "hudi_bridge.splits.file_slice",
    "BatchScanner": "hudi_bridge.dataset",
    "CdcMode": "hudi_bridge.config",
    "ChangeFormat": "hudi_bridge.changes.split",
    "ChangeSplit": "hudi_bridge.changes.split",
    "ColumnMapping": "hudi_bridge.schema.file_columns",
    "CorruptBaseFileError": "hudi_bridge.errors",
    "CorruptLogFileError": "hudi_bridge.errors",
    "CorruptTableError": "hudi_bridge.errors",
    "CorruptTimelineError": "hudi_bridge.errors",
    "DataFileGoneError": "hudi_bridge.errors",
    "Explanation": "hudi_bridge.explain",
    "FileColumns": "hudi_bridge.splits.schema_history",
    "FileSlice": "hudi_bridge.splits.file_slice",
    "GroupChange": "hudi_bridge.changes.split",
    "HudiDataset": "hudi_bridge.dataset",
    "HudiReadError": "hudi_bridge.errors",
    "HudiTable": "hudi_bridge.table",
    "Instant": "hudi_bridge.timeline.instant",
    "InstantNotReadableError": "hudi_bridge.errors",
    "InstantRange": "hudi_bridge.timeline.instant_range",
    "InstantState": "hudi_bridge.timeline.instant",
    "InternalSchema": "hudi_bridge.schema.internal",
    "LogFile": "hudi_bridge.splits.file_slice",
    "LogFileName": "hudi_bridge.splits.file_slice",
    "MergeError": "hudi_bridge.errors",
    "MergeMode": "hudi_bridge.config",
    "OnFilesGone": "hudi_bridge.replanning",
    "Outcome": "hudi_bridge.schema.file_columns",
    "PartitionFieldKind": "hudi_bridge.config",
    "PruningStep": "hudi_bridge.splits.notes",
    "QueryError": "hudi_bridge.errors",
    "QueryType": "hudi_bridge.config",
    "ReadContext": "hudi_bridge.splits.split",
    "RealtimeFileSplit": "hudi_bridge.splits.split",
    "RecordMerger": "hudi_bridge.merge.custom_payload",
    "RecordPayload": "hudi_bridge.merge.custom_payload",
    "SchemaAmbiguity": "hudi_bridge.schema.infer",
    "SchemaAmbiguityKind": "hudi_bridge.schema.infer",
    "SchemaChange": "hudi_bridge.schema.difference",
    "SchemaChangeKind": "hudi_bridge.schema.difference",
    "SchemaEvolutionError": "hudi_bridge.errors",
    "SchemaProposal": "hudi_bridge.schema.infer",
    "SchemaVersion": "hudi_bridge.splits.schema_history",
    "SkippedBlocks": "hudi_bridge.logformat.scan",
    "SliceDelta": "hudi_bridge.engines",
    "SliceToRead": "hudi_bridge.explain",
    "Split": "hudi_bridge.splits.planner",
    "SplitPlanner": "hudi_bridge.splits.planner",
    "SplitReader": "hudi_bridge.split_reader",
    "StorageError": "hudi_bridge.errors",
    "StoredBaseFile": "hudi_bridge.engines",
    "SurvivingLogRecords": "hudi_bridge.engines",
    "TableConfig": "hudi_bridge.config",
    "TableNotFoundError": "hudi_bridge.errors",
    "TableType": "hudi_bridge.config",
    "Timeline": "hudi_bridge.timeline.timeline",
    "TimelineTimezone": "hudi_bridge.config",
    "UnsupportedTableError": "hudi_bridge.errors",
    "VersionToMerge": "hudi_bridge.merge.custom_payload",
    "inspect_columns": "hudi_bridge.inspection",
    "inspect_commit": "hudi_bridge.inspection",
    "inspect_commit_files": "hudi_bridge.inspection",
    "inspect_commits": "hudi_bridge.inspection",
    "inspect_file_slices": "hudi_bridge.inspection",
    "inspect_files": "hudi_bridge.inspection",
    "inspect_metadata_records": "hudi_bridge.inspection",
    "inspect_metadata_table": "hudi_bridge.inspection",
    "inspect_splits": "hudi_bridge.inspection",
    "inspect_table": "hudi_bridge.inspection",
    "inspect_timeline": "hudi_bridge.inspection",
    "open_reader": "hudi_bridge.split_reader",
    "slice_delta": "hudi_bridge.engines",
}

__all__ = list(_HOMES)

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
