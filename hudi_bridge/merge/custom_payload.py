"""A user's own payload or record merger in Python, and how it merges the versions of a record.

Rows are mappings from column name to Python value, with the meta columns; columns missing from a returned row become
null. Base rows without log records are not passed to it. Payloads travel with splits, so they must be picklable, in a
module that workers can import.

A merger that decides about deletes may return a version that is neither of the two; it is added to the log versions.

Source: ``HoodieRecordPayload`` and ``HoodieRecordMerger`` of Hudi; ``BufferedRecordMergerFactory.CustomRecordMerger``
and ``KeyBasedFileGroupRecordBuffer`` of Hudi 1.1 and later.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from hudi_bridge.errors import HudiReadError, MergeError
from hudi_bridge.merge.arrays import Booleans, Column, Positions

Row = Mapping[str, Any]


class RecordPayload:
    """The base class of payloads; override what the payload class of the table does differently.

    Rows are mappings from column name to Python value, with Hudi's meta columns; columns that a returned row lacks are
    null. What a method raises becomes a ``MergeError``. Source: ``HoodieRecordPayload`` of Hudi.
    """

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

    ``row`` is None for a delete. ``ordering`` is the value of the ordering field, or a tuple if there are several
    fields. It is None for a table without ordering fields, and for a delete without a value, which counts as of when it
    was written.
    """

    record_key: str
    row: Row | None
    ordering: Any = None

    @property
    def is_delete(self) -> bool:
        """Whether the version deletes the record."""
        return self.row is None

    def with_row(self, row: Row | None) -> Self:
        """A version with the same ordering value and another row; with None, a delete."""
        return replace(self, row=row)


class RecordMerger(RecordPayload):
    """The base class of record mergers, for tables whose merge strategy is not one of Hudi's; override ``merge``.

    A delete wins over what was written before it, and a row after a delete starts anew, unless ``merge_versions`` is
    overridden, too. Rows and errors are as for ``RecordPayload``. Source: ``HoodieRecordMerger`` of Hudi.
    """

    def merge(self, older: Row, newer: Row) -> Row | None:
        """The merge of two versions of a record, by default the newer one; None deletes the record."""
        del older
        return newer

    def merge_versions(self, older: VersionToMerge, newer: VersionToMerge) -> VersionToMerge:
        """The merge of two versions that may be deletes; if it is overridden, it is called in place of ``merge``.

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
    actual = f"{method} returned {type(returned).__name__}, expected {expected}"
    return MergeError(type(payload).__name__, record_key, actual)


def rows_of_payload(payload: RecordPayload, rows: Iterable[Row | None], schema: pa.Schema) -> pa.RecordBatch:
    """The rows that a payload returned, without None.

    Raises:
        MergeError: a row does not fit the schema.
    """
    returned_rows = [dict(row) for row in rows if row is not None]
    try:
        return pa.RecordBatch.from_pylist(returned_rows, schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise MergeError(type(payload).__name__, "of a batch", f"a returned row does not fit: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class LogVersions:
    """The log versions of all keys, in order of arrival.

    ``rows`` has the rows of data blocks, ``row_of_version`` the row of each version; it is arbitrary for versions in
    delete blocks, which are not ``in_rows``. ``no_ordering`` marks deletes without an ordering value.
    """

    keys: Column
    rows: pa.Table
    row_of_version: Positions
    in_rows: Booleans
    ordering: tuple[Column, ...]
    is_delete: Booleans
    no_ordering: Booleans

    def at(self, position: int) -> VersionToMerge:
        """One version, as a merger gets it."""
        row: Row | None = None
        if not self.is_delete[position]:
            row = self.rows.slice(int(self.row_of_version[position]), 1).to_pylist()[0]
        ordering = None if self.no_ordering[position] else value_at(self.ordering, position)
        return VersionToMerge(record_key=str(self.keys[position]), row=row, ordering=ordering)

    def with_versions(self, merger: RecordMerger, added: Sequence[VersionToMerge]) -> "LogVersions":
        """These versions, followed by versions that a merger has made.

        Raises:
            MergeError: a row or an ordering value does not fit the table.
        """
        if not added:
            return self
        made = [version.row for version in added if version.row is not None]
        rows = pa.Table.from_batches([rows_of_payload(merger, made, self.rows.schema)])
        is_delete = np.array([version.is_delete for version in added])
        return LogVersions(
            keys=pa.concat_arrays([self.keys, pa.array([version.record_key for version in added], self.keys.type)]),
            rows=pa.concat_tables([self.rows, rows]),
            row_of_version=np.append(self.row_of_version, self.rows.num_rows + np.cumsum(~is_delete) - 1),
            in_rows=np.append(self.in_rows, ~is_delete),
            ordering=tuple(
                pa.concat_arrays([column, _ordering_of(merger, added, field_index, len(self.ordering), column.type)])
                for field_index, column in enumerate(self.ordering)
            ),
            is_delete=np.append(self.is_delete, is_delete),
            no_ordering=np.append(self.no_ordering, [version.ordering is None for version in added]),
        )


def value_at(ordering: Sequence[Column], position: int) -> object:
    """The ordering value at a position as a merger gets it: a tuple if there are several fields, None without any."""
    values = tuple(column[position].as_py() for column in ordering)
    return values[0] if len(values) == 1 else values or None


def merge_log_versions(
    merger: RecordMerger, versions: LogVersions, codes: Positions, keys: int
) -> tuple[Positions, LogVersions]:
    """The position of the surviving version of each key, by key code, and all versions, including the merger's.

    Raises:
        MergeError: the merger failed.
    """
    survivors = np.empty(keys, dtype=np.int64)
    added: list[VersionToMerge] = []
    order = np.argsort(codes, kind="stable")
    bounds = np.flatnonzero(np.diff(codes[order])) + 1
    for group in np.split(order, bounds) if len(order) else []:
        winner = _merged(merger, versions, group.tolist())
        if isinstance(winner, VersionToMerge):
            survivors[codes[group[0]]] = len(codes) + len(added)
            added.append(winner)
        else:
            survivors[codes[group[0]]] = winner
    return survivors, versions.with_versions(merger, added)


def _merged(merger: RecordMerger, versions: LogVersions, positions: Sequence[int]) -> int | VersionToMerge:
    """The position of the version that survives, or the version that the merger has made."""
    first, *rest = positions
    if not rest:
        return first
    survivor, position_of_survivor, has_record = versions.at(first), first, bool(versions.in_rows[first])
    for position in rest:
        newer, in_rows = versions.at(position), bool(versions.in_rows[position])
        result = ask_merger(merger, survivor, newer)
        gives_record = in_rows if result is newer else not result.is_delete
        # Hudi checks whether the record has changed; deletes in delete blocks, and deletes by mergers, have none.
        if result is survivor or not (gives_record or has_record):
            continue
        if not in_rows:
            # Whatever the merger returns for a delete of a delete block and another version, Hudi keeps the delete.
            result, gives_record = newer, False
        survivor, has_record, position_of_survivor = result, gives_record, position if result is newer else -1
    return position_of_survivor if position_of_survivor >= 0 else survivor


def merge_base_rows(
    merger: RecordMerger,
    base: pa.RecordBatch,
    base_ordering: Sequence[Column],
    log: Iterator[tuple[str, Row | None, object]],
) -> pa.RecordBatch:
    """The rows that the merger returns for base rows and the log versions of the same keys, without deleted ones.

    ``log`` yields for each base row the record key, the row or None for a delete, and the ordering value.

    Raises:
        MergeError: the merger failed, or its row does not fit the table.
    """
    results = (
        ask_merger(
            merger,
            VersionToMerge(record_key=key, row=row, ordering=value_at(base_ordering, index)),
            VersionToMerge(record_key=key, row=log_row, ordering=ordering),
        ).row
        for index, (row, (key, log_row, ordering)) in enumerate(zip(base.to_pylist(), log, strict=True))
    )
    return rows_of_payload(merger, results, base.schema)


def _ordering_of(
    merger: RecordMerger, added: Sequence[VersionToMerge], field_index: int, count: int, kind: "pa.DataType"
) -> Column:
    values = [
        version.ordering if count == 1 or version.ordering is None else version.ordering[field_index]
        for version in added
    ]
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        actual = f"the ordering value of a returned version does not fit: {error}"
        raise MergeError(type(merger).__name__, "of a batch", actual) from error
