"""Hudi Bridge: the true, current rows of Apache Hudi merge-on-read tables.

``HudiTable.open`` is where to begin. What its methods return is exported here, too, for annotations and ``isinstance``;
the docstring of a class says what makes it.
"""

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
from hudi_bridge.dispatch import SplitReader, open_reader
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
from hudi_bridge.inspection import (
    inspect_columns,
    inspect_file_slices,
    inspect_files,
    inspect_splits,
    inspect_table,
    inspect_timeline,
)
from hudi_bridge.logformat.scan import SkippedBlocks
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.schema.difference import SchemaChange, SchemaChangeKind
from hudi_bridge.schema.file_columns import ColumnMapping, Outcome
from hudi_bridge.schema.infer import SchemaAmbiguity, SchemaAmbiguityKind, SchemaProposal
from hudi_bridge.schema.internal import InternalSchema
from hudi_bridge.schema_history import FileColumns, SchemaVersion
from hudi_bridge.splits.file_names import LogFileName
from hudi_bridge.splits.file_slice import BaseFile, FileSlice, LogFile
from hudi_bridge.splits.query_plan import Split
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import Action, Instant, InstantState
from hudi_bridge.timeline.instant_range import InstantRange
from hudi_bridge.timeline.timeline import Timeline
from hudi_bridge.trace.base_search import BaseCheck
from hudi_bridge.trace.record_history import FileGroupHistory, RecordHistory
from hudi_bridge.trace.verdicts import Verdict
from hudi_bridge.trace.versions import RecordVersion, UncountedVersion, UnreadablePlace

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
    "FileColumns",
    "FileGroupHistory",
    "FileSlice",
    "GroupChange",
    "HudiDataset",
    "HudiReadError",
    "HudiTable",
    "Instant",
    "InstantNotReadableError",
    "InstantRange",
    "InstantState",
    "InternalSchema",
    "LogFile",
    "LogFileName",
    "MergeError",
    "MergeMode",
    "Outcome",
    "PartitionFieldKind",
    "QueryError",
    "QueryType",
    "ReadContext",
    "RealtimeFileSplit",
    "RecordHistory",
    "RecordPayload",
    "RecordVersion",
    "SchemaAmbiguity",
    "SchemaAmbiguityKind",
    "SchemaChange",
    "SchemaChangeKind",
    "SchemaEvolutionError",
    "SchemaProposal",
    "SchemaVersion",
    "SkippedBlocks",
    "SliceDelta",
    "Split",
    "SplitReader",
    "StorageError",
    "StoredBaseFile",
    "SurvivingLogRecords",
    "TableConfig",
    "TableNotFoundError",
    "TableType",
    "Timeline",
    "TimelineTimezone",
    "UncountedVersion",
    "UnreadablePlace",
    "UnsupportedTableError",
    "Verdict",
    "inspect_columns",
    "inspect_file_slices",
    "inspect_files",
    "inspect_splits",
    "inspect_table",
    "inspect_timeline",
    "open_reader",
    "slice_delta",
]
