"""Opens a table: its current state, checked to have a timeline if it has data files.

Without the check, a table whose timeline was deleted would read as empty.
"""

from collections.abc import Mapping

import pyarrow as pa

from hudi_bridge.config import read_table_config
from hudi_bridge.errors import CorruptTimelineError
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.options import ReadOptions, with_read_options
from hudi_bridge.splits.file_names import is_data_file
from hudi_bridge.splits.partitions import list_partitions
from hudi_bridge.splits.table_files import FolderListings
from hudi_bridge.storage import Storage
from hudi_bridge.timeline.table_state import TableState


def open_state(
    storage: Storage,
    options: Mapping[str, str],
    payloads: Mapping[str, RecordPayload],
    log_memory_bytes: int | None,
) -> TableState:
    """The current state of a table; the options are those of ``HudiTable.open``.

    Raises:
        TableNotFoundError: there is no Hudi table.
        CorruptTimelineError: its properties cannot be read, or its timeline is empty and a partition has data files.
        UnsupportedTableError: it uses a feature that cannot be read correctly.
        QueryError: an option is unknown or has an invalid value.
    """
    config = with_read_options(read_table_config(storage), options)
    read_options = ReadOptions.of(options, payloads, log_memory_bytes)
    return _checked(TableState.load(storage, config, read_options))


def refreshed(state: TableState) -> TableState:
    """The current state of the same table, as of its newest commit.

    Raises:
        CorruptTimelineError: the timeline is empty, and a partition has data files.
    """
    return _checked(TableState.load(state.storage, state.config, state.options))


def _checked(state: TableState) -> TableState:
    if not state.timeline.instants:
        _require_no_data(state)
    return state


def _require_no_data(state: TableState) -> None:
    # Writers request an instant before they write files, and never archive the newest instants.
    listings = FolderListings(state)
    partitions = list_partitions(state, pa.schema([]), (), None, listings.entries)
    for info in (info for path in partitions for info in listings.entries(path) if not info.is_dir):
        if is_data_file(info.name):
            found = f"no instant, although there is the data file {info.path}"
            raise CorruptTimelineError(state.config.timeline_path, None, found, "the timeline of the table")
