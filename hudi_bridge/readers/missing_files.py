"""The error for a data file that no longer exists, with the instant to read instead."""

from hudi_bridge.config import read_table_config
from hudi_bridge.errors import DataFileGoneError, HudiReadError
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage import Storage
from hudi_bridge.timeline.timeline import load_timeline


def data_file_gone(storage: Storage, planned: RealtimeFileSplit | ReadContext, path: str) -> DataFileGoneError:
    """The error for a missing data file; the timeline is read again for the newest instant."""
    return DataFileGoneError(path, planned.latest_instant, _newest_instant(storage))


def _newest_instant(storage: Storage) -> str | None:
    try:
        latest = load_timeline(storage, read_table_config(storage)).latest_commit()
    except HudiReadError:
        return None
    return latest.requested_time if latest else None
