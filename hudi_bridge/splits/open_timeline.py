"""The timeline of a table that is being opened; a table that holds data has one.

A timeline that was deleted, or that the properties look for in the wrong place, lists as an empty one, and would make
the table an empty one.
"""

from functools import partial

import pyarrow as pa

from hudi_bridge.config import TableConfig
from hudi_bridge.errors import CorruptTimelineError
from hudi_bridge.splits.file_names import parse_base_file_name, parse_log_file_name
from hudi_bridge.splits.partitions import list_partitions
from hudi_bridge.storage import Storage
from hudi_bridge.timeline.timeline import Timeline, load_timeline


def open_timeline(storage: Storage, config: TableConfig) -> Timeline:
    """The active timeline as of now; the folders of partitions are listed only if it is empty.

    Raises:
        CorruptTimelineError: the timeline is empty, and a partition has data files.
    """
    timeline = load_timeline(storage, config)
    if not timeline.instants:
        _require_no_data(storage, config)
    return timeline


def _require_no_data(storage: Storage, config: TableConfig) -> None:
    # A writer requests an instant before it writes a file, and archives only what later instants follow.
    list_directory = partial(storage.list_directory, must_exist=True)
    partitions = list_partitions(storage, config, pa.schema([]), (), None, list_directory)
    for info in (info for files in partitions.values() for info in files):
        if parse_base_file_name(info.name) or parse_log_file_name(info.name):
            found = f"no instant, although there is the data file {info.path}"
            raise CorruptTimelineError(config.timeline_path, None, found, "the timeline of the table")
