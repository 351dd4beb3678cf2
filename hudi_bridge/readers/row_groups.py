"""Chooses the row groups of a base file that a read of its slice needs, and tells how much that is."""

from collections.abc import Iterable
from dataclasses import dataclass

from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.readers.base_file import BaseFileColumns, OpenBaseFile
from hudi_bridge.readers.late_columns import WantedRows
from hudi_bridge.readers.request import RowRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroups:
    """The row groups that may hold rows of the result, and those of which only keys are matched with log records."""

    rows: frozenset[int]
    keys: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadExtent:
    """What a read needs of a base file, at most: row groups, of all of them, and the bytes of their column chunks."""

    row_groups: int = 0
    row_groups_read: int = 0
    bytes_read: int = 0


def groups_without_logs(wanted: BaseFileColumns, request: RowRequest, deciding: WantedRows | None) -> RowGroups:
    """The row groups of a base file that is read alone; ``deciding`` is given if the request is selective."""
    matching = frozenset(wanted.matching_row_groups(request))
    return RowGroups(rows=matching if deciding is None else matching & deciding.row_groups())


def groups_with_logs(
    base: OpenBaseFile,
    wanted: BaseFileColumns,
    request: RowRequest,
    deciding: WantedRows | None,
    rule: MergeRule,
    *,
    merges_fields: bool,
) -> RowGroups:
    """The row groups of a base file that is merged with logs.

    A base row merged with a log record may pass the filter even if no row of its row group does. A base row may win
    over a log record, or be the first of several rows with the same key. Row groups without a wanted key have nothing
    to do with the log records, which all have wanted keys.
    """
    matching = wanted.matching_row_groups(request)
    concerned = frozenset(base.row_groups) if deciding is None else deciding.row_groups()
    if merges_fields:
        return RowGroups(rows=concerned)
    rows, last = concerned.intersection(matching), max(matching, default=-1)
    keys = frozenset(group for group in concerned - rows if rule.base_may_win or group < last)
    return RowGroups(rows=rows, keys=keys)


def extent(base: OpenBaseFile, groups: RowGroups, rows: Iterable[str], keys: Iterable[str] = ()) -> ReadExtent:
    """How much of a base file these row groups are: ``rows`` and ``keys`` are the columns of the file to read."""
    of_rows, of_keys = tuple(rows), tuple(keys)
    size = sum(base.stored_bytes(group, of_rows) for group in groups.rows)
    size += sum(base.stored_bytes(group, of_keys) for group in groups.keys)
    return ReadExtent(row_groups=len(base.row_groups), row_groups_read=len(groups.rows | groups.keys), bytes_read=size)
