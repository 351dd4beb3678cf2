"""Hudi Bridge: the true, current rows of Apache Hudi merge-on-read tables."""

from hudi_bridge.changes.split import ChangeFormat, ChangeSplit
from hudi_bridge.config import QueryType
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.dispatch import SplitReader, open_reader
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
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.table import HudiTable

__version__ = "0.1.0"

__all__ = [
    "ChangeFormat",
    "ChangeSplit",
    "CorruptBaseFileError",
    "CorruptLogFileError",
    "CorruptTableError",
    "CorruptTimelineError",
    "DataFileGoneError",
    "HudiDataset",
    "HudiReadError",
    "HudiTable",
    "InstantNotReadableError",
    "MergeError",
    "QueryError",
    "QueryType",
    "RealtimeFileSplit",
    "RecordPayload",
    "SchemaEvolutionError",
    "SplitReader",
    "StorageError",
    "TableNotFoundError",
    "UnsupportedTableError",
    "open_reader",
]
