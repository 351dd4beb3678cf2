"""The log versions of every key under a user's payload: what they become.

A delete among them takes the place of what came before unless its ordering value is lower, and anything takes the place
of a delete; two rows are combined by the payload.
"""

import numpy as np
import pyarrow as pa

from hudi_bridge.errors import MergeError
from hudi_bridge.merge import ordering
from hudi_bridge.merge.arrays import Column, Positions
from hudi_bridge.merge.custom_payload import RecordPayload, Row, ask_payload, rows_of_payload
from hudi_bridge.merge.fold import Versions
from hudi_bridge.merge.rules import CUSTOM_PAYLOAD


def combine_versions(
    payload: RecordPayload, versions: Versions, keys: Column, row_of_version: Positions, rows: pa.Table
) -> tuple[Positions, Positions, pa.Table]:
    """The surviving version of each key, the row of each version, and the rows with those that were combined.

    A version that several were combined into has the combined row.

    Raises:
        MergeError: the payload failed.
    """
    order = np.argsort(versions.codes, kind="stable")
    bounds = np.flatnonzero(np.diff(versions.codes[order])) + 1
    survivors = np.empty(versions.keys, dtype=np.int64)
    row_of_version = row_of_version.copy()
    combined: list[Row] = []
    for group in np.split(order, bounds) if len(order) else []:
        code = versions.codes[group[0]]
        if len(group) == 1:
            survivors[code] = group[0]
            continue
        kept, row = _combine_one(payload, versions, group, str(keys[int(group[0])]), rows, row_of_version)
        survivors[code] = kept
        if row is not None:
            row_of_version[kept] = rows.num_rows + len(combined)
            combined.append(row)
    if combined:
        rows = pa.concat_tables([rows, pa.Table.from_batches([rows_of_payload(payload, combined, rows.schema)])])
    return survivors, row_of_version, rows


def _combine_one(
    payload: RecordPayload,
    versions: Versions,
    group: Positions,
    record_key: str,
    rows: pa.Table,
    row_of_version: Positions,
) -> tuple[int, Row | None]:
    """The version of a key that is kept, and the row that it was combined with others into, if it was."""
    kept, row = int(group[0]), None
    for later in group[1:].tolist():
        if versions.is_delete[kept] or versions.is_delete[later]:
            if ordering.later_replaces(CUSTOM_PAYLOAD.in_logs, versions.at(kept), versions.at(later)):
                kept, row = later, None
            continue
        if row is None:
            row = _row(rows, row_of_version[kept])
        row = ask_payload(payload, "pre_combine", record_key, row, _row(rows, row_of_version[later]))
        if row is None:
            raise MergeError(type(payload).__name__, record_key, "pre_combine returned None, expected a row")
        if versions.ranks[later] >= versions.ranks[kept]:
            kept = later
    return kept, row


def _row(rows: pa.Table, position: int) -> Row:
    found: Row = rows.slice(position, 1).to_pylist()[0]
    return found
