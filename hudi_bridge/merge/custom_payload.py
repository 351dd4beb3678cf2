"""A user's own payload or record merger in Python, which merges the versions of a record.

Rows are mappings from column name to Python value, with the meta columns; columns missing from a returned row become
null. Base rows without log records do not pass through. Payloads travel with splits: they have to be picklable, in a
module that workers can import.

Source: ``HoodieRecordPayload`` and ``HoodieRecordMerger`` of Hudi.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

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


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionToMerge:
    """One version of a record, a row or a delete. Part of a ``RecordMerger``.

    ``row`` is None for a delete. ``ordering`` is the value of the ordering field, a tuple of them if there are several;
    None for a table without one, and for a delete that does not say one: it counts as of when it was written.
    """

    record_key: str
    row: Row | None
    ordering: Any = None

    @property
    def is_delete(self) -> bool:
        """Whether the version deletes the record."""
        return self.row is None

    def with_row(self, row: Row | None) -> Self:
        """A version of the same ordering value with another row, or with None a delete."""
        return replace(self, row=row)


class RecordMerger(RecordPayload):
    """The base class of record mergers, for tables whose merge strategy is not one of Hudi's; override ``merge``.

    A delete wins over what was written before it, and a row after a delete starts anew, unless ``merge_versions`` is
    overridden, too.
    """

    def merge(self, older: Row, newer: Row) -> Row | None:
        """The merge of two versions of a record, by default the newer one; None deletes the record."""
        del older
        return newer

    def merge_versions(self, older: VersionToMerge, newer: VersionToMerge) -> VersionToMerge:
        """The merge of two versions of which each may be a delete; asked in place of ``merge`` if it is overridden.

        Returns ``older``, ``newer``, or a version made of them by ``with_row``.
        """
        if older.row is None or newer.row is None:
            return newer
        return newer.with_row(self.merge(older.row, newer.row))

    def combine_and_get_update_value(self, current: Row, incoming: Row) -> Row | None:
        """The merge of the base row and the log version."""
        return self.merge(current, incoming)

    @property
    def decides_about_deletes(self) -> bool:
        """Whether ``merge_versions`` is overridden, so that it has to be called."""
        return type(self).merge_versions is not RecordMerger.merge_versions


def ask_payload(payload: RecordPayload, method: str, record_key: str, *rows: Row) -> Row | None:
    """Calls a method of the payload.

    Raises:
        MergeError: the method failed, or did not return a row or None.
    """
    returned = _call(payload, method, record_key, *rows)
    if returned is not None and not isinstance(returned, Mapping):
        raise _unexpected(payload, method, record_key, returned, "a mapping or None")
    return returned


def ask_merger(merger: RecordMerger, older: VersionToMerge, newer: VersionToMerge) -> VersionToMerge:
    """Calls ``merge_versions``.

    Raises:
        MergeError: the method failed, or did not return a version.
    """
    returned = _call(merger, "merge_versions", newer.record_key, older, newer)
    if not isinstance(returned, VersionToMerge):
        raise _unexpected(merger, "merge_versions", newer.record_key, returned, "a VersionToMerge")
    if returned.row is not None and not isinstance(returned.row, Mapping):
        raise _unexpected(merger, "merge_versions", newer.record_key, returned.row, "a mapping or None as the row")
    return returned


def _call(payload: RecordPayload, method: str, record_key: str, *versions: Row | VersionToMerge) -> Any:  # noqa: ANN401
    try:
        return getattr(payload, method)(*versions)
    except HudiReadError:
        raise
    except Exception as error:
        name = type(payload).__name__
        raise MergeError(name, record_key, f"{method} raised {type(error).__name__}: {error}") from error


def _unexpected(payload: RecordPayload, method: str, record_key: str, returned: object, expected: str) -> MergeError:
    found = f"{method} returned {type(returned).__name__}, expected {expected}"
    return MergeError(type(payload).__name__, record_key, found)


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
