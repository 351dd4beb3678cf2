"""The newest slices of file groups that have nothing but base files, found for the files of many partitions at once.

In a large table, that is what most groups are. Nothing is made for files that a query does not read.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.splits.file_names import ASCII_BASE_FILE, parse_base_file_name, parse_log_file_name
from hudi_bridge.splits.file_slice import BaseFile, FileSlice
from hudi_bridge.splits.file_system_view import TimelineView

PARTITION, NAME, SIZE = "partition", "name", "size_bytes"
_FIELDS: list[Any] = [pa.field(PARTITION, pa.string()), pa.field(NAME, pa.string()), pa.field(SIZE, pa.int64())]
FILES = pa.schema(_FIELDS)
"""The columns of files: the path of the partition, the name without it, and the size."""

Column: TypeAlias = Any
_Flags: TypeAlias = npt.NDArray[np.bool_]


class PlainSlices:
    """File slices of nothing but a base file, made when they are asked for."""

    def __init__(self, files: pa.Table) -> None:
        """The slices of base files, which are ordered by partition, without others in between, and by file id."""
        lists: list[list[Any]] = [column.to_pylist() for column in files.columns]
        paths, *columns = lists
        self._columns = columns
        self._places = {path: slice(start, end) for path, start, end in _runs(paths)}

    def of(self, path: str) -> list[FileSlice]:
        """The slices of a partition, ordered by file id."""
        place = self._places.get(path)
        if place is None:
            return []
        prefix = f"{path}/" if path else ""
        return [
            FileSlice(
                partition_path=path,
                file_id=file_id,
                base_instant_time=instant,
                base_file=BaseFile(path=prefix + name, instant_time=instant, size_bytes=size),
                log_files=(),
            )
            for file_id, instant, name, size in zip(*(column[place] for column in self._columns), strict=True)
        ]


def _runs(values: list[str]) -> Iterator[tuple[str, int, int]]:
    """Each value that others do not lie between, with where it begins and ends."""
    end = 0
    for value, run in groupby(values):
        start, end = end, end + sum(1 for _ in run)
        yield value, start, end


def newest_plain_slices(files: pa.Table, timeline: TimelineView) -> tuple[PlainSlices, pa.Table]:
    """The slices that queries see of groups with base files alone, and the files of all other groups.

    ``files`` have the columns of ``FILES``, those of a partition without others in between. Groups that were replaced,
    or of which a compaction is pending, count as others.

    Raises:
        UnsupportedTableError: a log file is of a later Hudi.
    """
    files = files.combine_chunks()
    parts = pc.extract_regex(files.column(NAME), ASCII_BASE_FILE)
    is_base = pc.equal(pc.struct_field(parts, "extension"), pa.scalar(timeline.base_extension)).fill_null(
        fill_value=False
    )
    is_plain = _flags(is_base)
    marked = {
        *timeline.pending_compactions,
        *timeline.replaced,
        *_groups_of(files.filter(pc.invert(is_base)), timeline),
    }
    if marked:
        groups = _joined(files.column(PARTITION), pc.struct_field(parts, "file_id"))
        others = pa.array([f"{path}/{file_id}" for path, file_id in marked], pa.string())
        is_plain &= ~_flags(pc.is_in(groups, value_set=others))
    rest = files.filter(pa.array(~is_plain))
    plain = files
    if len(rest):
        plain, parts = files.filter(pa.array(is_plain)), parts.filter(pa.array(is_plain))
    instants = pc.struct_field(parts, "instant")
    ranks = _ranks_of_visible(instants, timeline)
    columns = pa.table(
        {
            PARTITION: plain.column(PARTITION),
            "file_id": pc.struct_field(parts, "file_id"),
            "instant": instants,
            NAME: plain.column(NAME),
            SIZE: plain.column(SIZE),
        }
    )
    if (ranks < 0).any():
        columns, ranks = columns.filter(pa.array(ranks >= 0)), ranks[ranks >= 0]
    return PlainSlices(_newest(columns, ranks)), rest


def _groups_of(others: pa.Table, timeline: TimelineView) -> Iterable[tuple[str, str]]:
    """The groups of files that are no usual base files; of those that belong to a group."""
    paths, names = (map(str, others.column(field).to_pylist()) for field in (PARTITION, NAME))
    for path, name in zip(paths, names, strict=True):
        if not name.endswith(".crc"):
            known = parse_base_file_name(name) or parse_log_file_name(name, native=timeline.has_native_logs)
            if known is not None:
                yield path, known.file_id


def _ranks_of_visible(instants: Column, timeline: TimelineView) -> npt.NDArray[np.int64]:
    """The place of each instant in the order of all, -1 for one that the query does not see."""
    texts = pc.unique(instants)
    ordered = texts.take(pc.sort_indices(texts))
    visible = [one <= timeline.query_instant and timeline.is_committed(one) for one in ordered.to_pylist()]
    ranks = np.where(np.array(visible, dtype=np.bool_), np.arange(len(ordered)), -1)
    places: Column = pc.index_in(instants, value_set=ordered)
    found: npt.NDArray[np.int64] = ranks[places.to_numpy()]
    return found


def _newest(files: pa.Table, ranks: npt.NDArray[np.int64]) -> pa.Table:
    """The file of each group with the greatest rank, the last of several, in the order of the groups."""
    if len(files) <= 1:
        return files
    paths, ids = files.column(PARTITION), files.column("file_id")
    same_path = _flags(pc.equal(paths[1:], paths[:-1]))
    if (same_path & _flags(pc.less(ids[1:], ids[:-1]))).any():
        # The order of names is not always that of the ids that they begin with.
        order = pc.sort_indices(files, [(PARTITION, "ascending"), ("file_id", "ascending")])
        files, ranks = files.take(order), ranks[order.to_numpy()]
        paths, ids = files.column(PARTITION), files.column("file_id")
        same_path = _flags(pc.equal(paths[1:], paths[:-1]))
    is_next = same_path & _flags(pc.equal(ids[1:], ids[:-1]))
    if not is_next.any():
        return files
    starts = np.flatnonzero(np.concatenate([[True], ~is_next]))
    greatest = np.maximum.reduceat(ranks * len(files) + np.arange(len(files)), starts)
    return files.take(pa.array(greatest % len(files)))


def _joined(paths: Column, ids: Column) -> Column:
    return pc.binary_join_element_wise(paths, ids, "/")


def _flags(values: Column) -> _Flags:
    flags: _Flags = np.asarray(values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values)
    return flags.astype(np.bool_, copy=False)
