"""What a query reads, and why: the answer of ``HudiDataset.explain``."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from hudi_bridge.common.display import counted, html_of_properties, html_of_rows, size_text
from hudi_bridge.config import QueryType
from hudi_bridge.readers.base_file import ReadExtent
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.splits.notes import PARTITIONS, SLICES, PlanNotes, PruningStep
from hudi_bridge.splits.planner import QueryPlan
from hudi_bridge.splits.split import RealtimeFileSplit

_LONGEST_FILTER = 400
"""Longer filters are cut when they are shown: lists of keys may have millions of values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceToRead:
    """What is read of a file slice; sizes are in bytes.

    ``base_bytes`` are at most read of the base file: the column chunks of ``row_groups_read`` of its ``row_groups``. If
    no key that is looked up can be in the base file, ``base_path`` is None. Log files are read as a whole.

    Part of an ``Explanation``.
    """

    partition_path: str
    file_id: str
    base_path: str | None
    row_groups: int
    row_groups_read: int
    base_bytes: int
    base_file_bytes: int
    log_paths: tuple[str, ...]
    log_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a query reads.

    Attributes:
        files_found_by: how the names of files were found.
        steps: what each condition and index ruled out.
        slices: the remaining file slices, out of ``slices_listed``.
        record_keys: the number of keys that are looked up, in each spelling; None if the filter does not name any.

    ``str()`` is for people.

    More row groups are read of slices whose logs hold partial updates, which is only known from the logs. The footers
    of base files, and the keys of logs that a lookup reads first, are not counted: a process reads them once.

    Made by ``HudiDataset.explain``.
    """

    query_type: QueryType
    instant: str
    filter: str | None
    columns: tuple[str, ...]
    record_keys: int | None
    files_found_by: str
    why_not_metadata_table: str | None
    steps: tuple[PruningStep, ...]
    slices_listed: int
    slices: tuple[SliceToRead, ...]

    @property
    def base_files(self) -> int:
        """The number of base files that are read."""
        return sum(file_slice.base_path is not None for file_slice in self.slices)

    @property
    def log_files(self) -> int:
        """The number of log files that are read."""
        return sum(len(file_slice.log_paths) for file_slice in self.slices)

    @property
    def row_groups(self) -> int:
        """The number of row groups in the base files that are read."""
        return sum(file_slice.row_groups for file_slice in self.slices)

    @property
    def row_groups_read(self) -> int:
        """The number of those row groups that are read."""
        return sum(file_slice.row_groups_read for file_slice in self.slices)

    @property
    def base_bytes(self) -> int:
        """The bytes that are at most read of base files."""
        return sum(file_slice.base_bytes for file_slice in self.slices)

    @property
    def log_bytes(self) -> int:
        """The bytes that are read of log files."""
        return sum(file_slice.log_bytes for file_slice in self.slices)

    def to_json(self) -> str:
        """All of it as JSON text, with the sums."""
        sums = ("base_files", "log_files", "row_groups", "row_groups_read", "base_bytes", "log_bytes")
        return json.dumps(asdict(self) | {name: getattr(self, name) for name in sums})

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        base = f"{self.base_files:,}: {self.row_groups_read:,} of {counted(self.row_groups, 'row group')}"
        properties = (
            ("query", self.query_type),
            ("instant", self.instant),
            ("filter", self.filter),
            ("columns", self.columns),
            ("record keys looked up", self.record_keys),
            ("files found by", self.files_found_by),
            ("why not by the metadata table", self.why_not_metadata_table),
            ("file slices read", f"{len(self.slices):,} of {self.slices_listed:,} listed"),
            ("base files", f"{base}, at most {size_text(self.base_bytes)}"),
            ("log files", f"{self.log_files:,}: {size_text(self.log_bytes)}{self._share_of_logs}"),
        )
        steps = ((step.name, step.unit, step.before, step.after, step.why_not) for step in self.steps)
        slices = (
            (
                file_slice.partition_path,
                file_slice.file_id,
                f"{file_slice.row_groups_read:,} of {file_slice.row_groups:,}",
                size_text(file_slice.base_bytes),
                len(file_slice.log_paths),
                size_text(file_slice.log_bytes),
            )
            for file_slice in self.slices
        )
        read = ("partition", "file group", "row groups", "base", "log files", "logs")
        tables = (
            html_of_rows("Steps", ("step", "of", "before", "after", "why not"), steps),
            html_of_rows("File slices read", read, slices),
        )
        return html_of_properties("Explanation", properties) + "".join(tables)

    def _lines(self) -> Iterator[str]:
        yield f"{self.query_type} as of {self.instant}: {counted(len(self.columns), 'column')}"
        if self.filter is not None:
            yield f"  where {_shortened(self.filter)}"
        if self.record_keys is not None:
            yield f"  looks up {counted(self.record_keys, 'spelling')} of record keys"
        why_not = self.why_not_metadata_table
        instead = "" if why_not is None else f", not the metadata table: {why_not}"
        yield f"files found by {self.files_found_by}{instead}"
        yield from (_of_step(step) for step in self.steps if step.unit == PARTITIONS)
        yield f"file slices listed: {self.slices_listed:,}"
        yield from (_of_step(step) for step in self.steps if step.unit == SLICES)
        yield f"read: {counted(len(self.slices), 'file slice')}"
        yield (
            f"  {counted(self.base_files, 'base file')}: {self.row_groups_read:,} of "
            f"{counted(self.row_groups, 'row group')}, at most {size_text(self.base_bytes)}"
        )
        yield f"  {counted(self.log_files, 'log file')}: {size_text(self.log_bytes)}{self._share_of_logs}"

    @property
    def _share_of_logs(self) -> str:
        everything = self.base_bytes + self.log_bytes
        return f", {self.log_bytes / everything:.0%} of all that is read" if everything else ""


def explained(
    plan: QueryPlan, request: RowRequest, slices: Iterable[tuple[RealtimeFileSplit, ReadExtent]], notes: PlanNotes
) -> Explanation:
    """The explanation of a plan after pruning, with the slices that remain."""
    found_by = notes.files_found_by or plan.found_by
    return Explanation(
        query_type=plan.query_type,
        instant=plan.instant,
        filter=None if request.row_filter is None else str(request.row_filter),
        columns=request.columns,
        record_keys=None if request.record_keys is None else len(request.record_keys),
        files_found_by=found_by.name,
        why_not_metadata_table=found_by.why_not_metadata_table,
        steps=notes.steps,
        slices_listed=notes.listed,
        slices=tuple(_slice(split, extent) for split, extent in slices),
    )


def _slice(split: RealtimeFileSplit, extent: ReadExtent) -> SliceToRead:
    return SliceToRead(
        partition_path=split.partition_path,
        file_id=split.file_id,
        base_path=split.base_path,
        row_groups=extent.row_groups,
        row_groups_read=extent.row_groups_read,
        base_bytes=extent.bytes_read,
        base_file_bytes=split.base_size_bytes,
        log_paths=split.log_paths,
        log_bytes=split.log_size_bytes,
    )


def _shortened(text: str) -> str:
    """A text in one line, without the rest of a very long one."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_FILTER else f"{line[:_LONGEST_FILTER]}…"


def _of_step(step: PruningStep) -> str:
    taken = "" if step.after is None else f"{step.after:,} of {step.before:,} {step.unit}"
    why_not = "" if step.why_not is None else f"not used, {step.why_not}"
    return f"  {step.name}: {'; '.join(filter(None, (taken, why_not)))}"
