"""Hudi Bridge: the true, current rows of Apache Hudi merge-on-read tables.

``HudiTable.open`` is where to begin. Programs that distribute a read plan with ``HudiTable.planner`` (a
``SplitPlanner``), send each ``RealtimeFileSplit`` to a worker, and read it there with ``open_reader`` (a
``RealtimeCompactedReader``). Errors and classes of results are exported here, too, for annotations and ``isinstance``;
the docstring of a class says what makes it.

``hudi_bridge.tools`` examines, traces and compares tables, ``hudi_bridge.inspection`` shows their parts as Arrow, and
``hudi_bridge.engines`` is for engines that read base files themselves. Each name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from hudi_bridge.common.imports import choose_allocator, lazy_names

if TYPE_CHECKING:
    from hudi_bridge.changes.split import ChangeFormat as ChangeFormat
    from hudi_bridge.changes.split import ChangeSplit as ChangeSplit
    from hudi_bridge.config import MergeMode as MergeMode
    from hudi_bridge.config import QueryType as QueryType
    from hudi_bridge.config import TableConfig as TableConfig
    from hudi_bridge.config import TableType as TableType
    from hudi_bridge.dataset import HudiDataset as HudiDataset
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
    from hudi_bridge.indexes.explain import Explanation as Explanation
    from hudi_bridge.indexes.explain import SliceToRead as SliceToRead
    from hudi_bridge.logformat.scan import SkippedBlocks as SkippedBlocks
    from hudi_bridge.merge.custom_payload import RecordMerger as RecordMerger
    from hudi_bridge.merge.custom_payload import RecordPayload as RecordPayload
    from hudi_bridge.merge.custom_payload import VersionToMerge as VersionToMerge
    from hudi_bridge.options import OnFilesGone as OnFilesGone
    from hudi_bridge.scanner import BatchScanner as BatchScanner
    from hudi_bridge.schema.infer import SchemaProposal as SchemaProposal
    from hudi_bridge.schema.variant_paths import VariantPath as VariantPath
    from hudi_bridge.schema.variant_paths import variant_path as variant_path
    from hudi_bridge.split_reader import RealtimeCompactedReader as RealtimeCompactedReader
    from hudi_bridge.split_reader import open_reader as open_reader
    from hudi_bridge.splits.file_slice import BaseFile as BaseFile
    from hudi_bridge.splits.file_slice import FileSlice as FileSlice
    from hudi_bridge.splits.file_slice import LogFile as LogFile
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
    "BatchScanner": "hudi_bridge.scanner",
    "ChangeFormat": "hudi_bridge.changes.split",
    "ChangeSplit": "hudi_bridge.changes.split",
    "CorruptBaseFileError": "hudi_bridge.errors",
    "CorruptLogFileError": "hudi_bridge.errors",
    "CorruptTableError": "hudi_bridge.errors",
    "CorruptTimelineError": "hudi_bridge.errors",
    "DataFileGoneError": "hudi_bridge.errors",
    "Explanation": "hudi_bridge.indexes.explain",
    "FileColumns": "hudi_bridge.splits.schema_history",
    "FileSlice": "hudi_bridge.splits.file_slice",
    "HudiDataset": "hudi_bridge.dataset",
    "HudiReadError": "hudi_bridge.errors",
    "HudiTable": "hudi_bridge.table",
    "Instant": "hudi_bridge.timeline.instant",
    "InstantNotReadableError": "hudi_bridge.errors",
    "InstantRange": "hudi_bridge.timeline.instant_range",
    "InstantState": "hudi_bridge.timeline.instant",
    "LogFile": "hudi_bridge.splits.file_slice",
    "MergeError": "hudi_bridge.errors",
    "MergeMode": "hudi_bridge.config",
    "OnFilesGone": "hudi_bridge.options",
    "PruningStep": "hudi_bridge.splits.notes",
    "QueryError": "hudi_bridge.errors",
    "QueryType": "hudi_bridge.config",
    "ReadContext": "hudi_bridge.splits.split",
    "RealtimeCompactedReader": "hudi_bridge.split_reader",
    "RealtimeFileSplit": "hudi_bridge.splits.split",
    "RecordMerger": "hudi_bridge.merge.custom_payload",
    "RecordPayload": "hudi_bridge.merge.custom_payload",
    "SchemaEvolutionError": "hudi_bridge.errors",
    "SchemaProposal": "hudi_bridge.schema.infer",
    "SchemaVersion": "hudi_bridge.splits.schema_history",
    "SkippedBlocks": "hudi_bridge.logformat.scan",
    "SliceToRead": "hudi_bridge.indexes.explain",
    "Split": "hudi_bridge.splits.planner",
    "SplitPlanner": "hudi_bridge.splits.planner",
    "StorageError": "hudi_bridge.errors",
    "TableConfig": "hudi_bridge.config",
    "TableNotFoundError": "hudi_bridge.errors",
    "TableType": "hudi_bridge.config",
    "Timeline": "hudi_bridge.timeline.timeline",
    "UnsupportedTableError": "hudi_bridge.errors",
    "VariantPath": "hudi_bridge.schema.variant_paths",
    "VersionToMerge": "hudi_bridge.merge.custom_payload",
    "open_reader": "hudi_bridge.split_reader",
    "variant_path": "hudi_bridge.schema.variant_paths",
}

__all__ = list(_HOMES)

choose_allocator()
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
