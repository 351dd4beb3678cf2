"""A user's own payload or record merger in Python, which merges the versions of a record.

Rows are mappings from column name to Python value, with the meta columns; columns missing from a returned row become
null. Base rows without log records do not pass through. Payloads travel with splits: they have to be picklable, in a
module that workers can import.

Source: ``HoodieRecordPayload`` and ``HoodieRecordMerger`` of Hudi.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from hudi_bridge.errors import HudiReadError, MergeError

Row = Mapping[str, Any]


class RecordPayload:
    """The base class of payloads; override what the payload class of the table does differently."""

    def pre_combine(self, older: Row, newer: Row) -> Row:
        """The merge of two log versions of a record, by default the newer one."""
        del older
        return newer

    def combine_and_get_update_value(self, current: Row, incoming: Row) -> Row | None:
        """The merge of the base row and the log version, by default the log version; None deletes the record."""
        del current
        return incoming

    def get_insert_value(self, incoming: Row) -> Row | None:
        """The row for a log version without a base row, by default the log version itself; None for no row."""
        return incoming

    @property
    def changes_inserts(self) -> bool:
        """Whether ``get_insert_value`` is overridden, so that it has to be called."""
        return type(self).get_insert_value is not RecordPayload.get_insert_value


class RecordMerger(RecordPayload):
    """The base class of record mergers, for tables whose merge strategy is not one of Hudi's; override ``merge``.

    A delete wins over what was written before it, and a row after a delete starts anew.
    """

    def merge(self, older: Row, newer: Row) -> Row | None:
        """The merge of two versions of a record, by default the newer one; None deletes the record."""
        del older
        return newer

    def combine_and_get_update_value(self, current: Row, incoming: Row) -> Row | None:
        """The merge of the base row and the log version."""
        return self.merge(current, incoming)


def ask_payload(payload: RecordPayload, method: str, record_key: str, *rows: Row) -> Row | None:
    """Calls a method of the payload.

    Raises:
        MergeError: the method failed, or did not return a row or None.
    """
    name = type(payload).__name__
    try:
        returned = getattr(payload, method)(*rows)
    except HudiReadError:
        raise
    except Exception as error:
        raise MergeError(name, record_key, f"{method} raised {type(error).__name__}: {error}") from error
    if returned is not None and not isinstance(returned, Mapping):
        raise MergeError(name, record_key, f"{method} returned {type(returned).__name__}, expected a mapping or None")
    return returned


def rows_of_payload(payload: RecordPayload, rows: Iterable[Row | None], schema: pa.Schema) -> pa.RecordBatch:
    """The rows that a payload returned, without None.

    Raises:
        MergeError: a row does not fit the schema.
    """
    kept = [dict(row) for row in rows if row is not None]
    try:
        return pa.RecordBatch.from_pylist(kept, schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise MergeError(type(payload).__name__, "of a batch", f"a returned row does not fit: {error}") from error
