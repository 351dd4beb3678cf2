"""Hudi Bridge: the true, current rows of Apache Hudi merge-on-read tables.

``HudiTable.open`` is where to begin. What its methods return is exported here, too, for annotations and ``isinstance``;
the docstring of a class says what makes it. Each name is imported when it is first used, so that starting costs what is
needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hudi_bridge.changes.split import ChangeFormat, ChangeSplit, GroupChange
    from hudi_bridge.config import (
        CdcMode,
        MergeMode,
        PartitionFieldKind,
        QueryType,
        TableConfig,
        TableType,
        TimelineTimezone,
    )
    from hudi_bridge.dataset import BatchScanner, HudiDataset
    from hudi_bridge.engines import SliceDelta, StoredBaseFile, SurvivingLogRecords, slice_delta
    from hudi_bridge.errors import (
        CorruptBaseFileError,
        CorruptLogFileError,
        CorruptTableError,
        CorruptTimelineError,
        DataFileGoneError,
        HudiReadError,
        InstantNotReadableError,
        MergeError,
        QueryError,
        SchemaEvolutionError,
        StorageError,
        TableNotFoundError,
        UnsupportedTableError,
    )
    from hudi_bridge.explain import Explanation, SliceToRead
    from hudi_bridge.inspection import (
        inspect_columns,
        inspect_commit,
        inspect_commit_files,
        inspect_commits,
        inspect_file_slices,
        inspect_files,
        inspect_metadata_records,
        inspect_metadata_table,
        inspect_splits,
        inspect_table,
        inspect_timeline,
    )
    from hudi_bridge.logformat.scan import SkippedBlocks
    from hudi_bridge.merge.custom_payload import RecordMerger, RecordPayload, VersionToMerge
    from hudi_bridge.replanning import OnFilesGone
    from hudi_bridge.schema.difference import SchemaChange, SchemaChangeKind
    from hudi_bridge.schema.file_columns import ColumnMapping, Outcome
    from hudi_bridge.schema.infer import SchemaAmbiguity, SchemaAmbiguityKind, SchemaProposal
    from hudi_bridge.schema.internal import InternalSchema
    from hudi_bridge.split_reader import SplitReader, open_reader
    from hudi_bridge.splits.file_slice import BaseFile, FileSlice, LogFile, LogFileName
    from hudi_bridge.splits.notes import PruningStep
    from hudi_bridge.splits.planner import Split
    from hudi_bridge.splits.schema_history import FileColumns, SchemaVersion
    from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
    from hudi_bridge.table import HudiTable
    from hudi_bridge.timeline.instant import Action, Instant, InstantState
    from hudi_bridge.timeline.instant_range import InstantRange
    from hudi_bridge.timeline.timeline import Timeline
    from hudi_bridge.tools.diff.table_difference import TableDifference
    from hudi_bridge.tools.doctor.findings import Diagnosis, Finding, Limits, Severity, SliceCost
    from hudi_bridge.tools.trace.base_search import BaseCheck
    from hudi_bridge.tools.trace.record_trace import FileGroupHistory, RecordHistory
    from hudi_bridge.tools.trace.verdicts import RecordVersion, UncountedVersion, UnreadablePlace, Verdict

__version__ = "0.1.0"

__all__ = [
    "Action",
    "BaseCheck",
    "BaseFile",
    "BatchScanner",
    "CdcMode",
    "ChangeFormat",
    "ChangeSplit",
    "ColumnMapping",
    "CorruptBaseFileError",
    "CorruptLogFileError",
    "CorruptTableError",
    "CorruptTimelineError",
    "DataFileGoneError",
    "Diagnosis",
    "Explanation",
    "FileColumns",
    "FileGroupHistory",
    "FileSlice",
    "Finding",
    "GroupChange",
    "HudiDataset",
    "HudiReadError",
    "HudiTable",
    "Instant",
    "InstantNotReadableError",
    "InstantRange",
    "InstantState",
    "InternalSchema",
    "Limits",
    "LogFile",
    "LogFileName",
    "MergeError",
    "MergeMode",
    "OnFilesGone",
    "Outcome",
    "PartitionFieldKind",
    "PruningStep",
    "QueryError",
    "QueryType",
    "ReadContext",
    "RealtimeFileSplit",
    "RecordHistory",
    "RecordMerger",
    "RecordPayload",
    "RecordVersion",
    "SchemaAmbiguity",
    "SchemaAmbiguityKind",
    "SchemaChange",
    "SchemaChangeKind",
    "SchemaEvolutionError",
    "SchemaProposal",
    "SchemaVersion",
    "Severity",
    "SkippedBlocks",
    "SliceCost",
    "SliceDelta",
    "SliceToRead",
    "Split",
    "SplitReader",
    "StorageError",
    "StoredBaseFile",
    "SurvivingLogRecords",
    "TableConfig",
    "TableDifference",
    "TableNotFoundError",
    "TableType",
    "Timeline",
    "TimelineTimezone",
    "UncountedVersion",
    "UnreadablePlace",
    "UnsupportedTableError",
    "Verdict",
    "VersionToMerge",
    "inspect_columns",
    "inspect_commit",
    "inspect_commit_files",
    "inspect_commits",
    "inspect_file_slices",
    "inspect_files",
    "inspect_metadata_records",
    "inspect_metadata_table",
    "inspect_splits",
    "inspect_table",
    "inspect_timeline",
    "open_reader",
    "slice_delta",
]

_HOMES = {
    "Action": "hudi_bridge.timeline.instant",
    "BaseCheck": "hudi_bridge.tools.trace.base_search",
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
    "Diagnosis": "hudi_bridge.tools.doctor.findings",
    "Explanation": "hudi_bridge.explain",
    "FileColumns": "hudi_bridge.splits.schema_history",
    "FileGroupHistory": "hudi_bridge.tools.trace.record_trace",
    "FileSlice": "hudi_bridge.splits.file_slice",
    "Finding": "hudi_bridge.tools.doctor.findings",
    "GroupChange": "hudi_bridge.changes.split",
    "HudiDataset": "hudi_bridge.dataset",
    "HudiReadError": "hudi_bridge.errors",
    "HudiTable": "hudi_bridge.table",
    "Instant": "hudi_bridge.timeline.instant",
    "InstantNotReadableError": "hudi_bridge.errors",
    "InstantRange": "hudi_bridge.timeline.instant_range",
    "InstantState": "hudi_bridge.timeline.instant",
    "InternalSchema": "hudi_bridge.schema.internal",
    "Limits": "hudi_bridge.tools.doctor.findings",
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
    "RecordHistory": "hudi_bridge.tools.trace.record_trace",
    "RecordMerger": "hudi_bridge.merge.custom_payload",
    "RecordPayload": "hudi_bridge.merge.custom_payload",
    "RecordVersion": "hudi_bridge.tools.trace.verdicts",
    "SchemaAmbiguity": "hudi_bridge.schema.infer",
    "SchemaAmbiguityKind": "hudi_bridge.schema.infer",
    "SchemaChange": "hudi_bridge.schema.difference",
    "SchemaChangeKind": "hudi_bridge.schema.difference",
    "SchemaEvolutionError": "hudi_bridge.errors",
    "SchemaProposal": "hudi_bridge.schema.infer",
    "SchemaVersion": "hudi_bridge.splits.schema_history",
    "Severity": "hudi_bridge.tools.doctor.findings",
    "SkippedBlocks": "hudi_bridge.logformat.scan",
    "SliceCost": "hudi_bridge.tools.doctor.findings",
    "SliceDelta": "hudi_bridge.engines",
    "SliceToRead": "hudi_bridge.explain",
    "Split": "hudi_bridge.splits.planner",
    "SplitReader": "hudi_bridge.split_reader",
    "StorageError": "hudi_bridge.errors",
    "StoredBaseFile": "hudi_bridge.engines",
    "SurvivingLogRecords": "hudi_bridge.engines",
    "TableConfig": "hudi_bridge.config",
    "TableDifference": "hudi_bridge.tools.diff.table_difference",
    "TableNotFoundError": "hudi_bridge.errors",
    "TableType": "hudi_bridge.config",
    "Timeline": "hudi_bridge.timeline.timeline",
    "TimelineTimezone": "hudi_bridge.config",
    "UncountedVersion": "hudi_bridge.tools.trace.verdicts",
    "UnreadablePlace": "hudi_bridge.tools.trace.verdicts",
    "UnsupportedTableError": "hudi_bridge.errors",
    "Verdict": "hudi_bridge.tools.trace.verdicts",
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


def __getattr__(name: str) -> Any:  # noqa: ANN401 - of any kind
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
