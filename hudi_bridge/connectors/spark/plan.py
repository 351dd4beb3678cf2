"""Plans a query: pins a table at an instant and groups its splits into tasks of similar size.

``PinnedQuery`` pins the table when a DataFrame is made. Its files are listed later, when Spark plans the query; that
fails if Hudi's cleaner has removed some. A ``Listing`` has all splits, a ``Plan`` the tasks that read them.
"""

import io
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.changes.split import change_schema
from hudi_bridge.config import QueryType
from hudi_bridge.connectors.spark.conditions import Condition, expression_of
from hudi_bridge.connectors.spark.options import BEGIN, SparkOptions, SparkQuery
from hudi_bridge.connectors.split_tasks import pack, weight
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.errors import QueryError
from hudi_bridge.inspection import SPLITS_SCHEMA
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.options import END_SCHEMA_KEY
from hudi_bridge.readers.filters import Joined, joined_by_and
from hudi_bridge.schema.meta_columns import own_columns
from hudi_bridge.splits.planner import Split
from hudi_bridge.splits.split import ReadContext
from hudi_bridge.table import HudiTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The common part of all tasks of a plan.

    ``schema`` holds the columns to return. With ``describes_splits``, the rows describe the splits of the plan.
    """

    contexts: tuple[ReadContext, ...]
    schema: pa.Schema
    row_filter: pc.Expression | None
    describes_splits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The tasks of a query; each holds the pickled splits that one Spark task reads."""

    reading: Reading
    tasks: tuple[tuple[bytes, ...], ...]


class ListedSplit(NamedTuple):
    """A pickled split of a query.

    ``weight`` is in bytes. ``base_path`` is relative to the table; None unless the split is one slice with a base file.
    """

    pickled: bytes
    weight: int
    base_path: str | None
    has_logs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All splits of a query."""

    reading: Reading
    splits: tuple[ListedSplit, ...]
    options: SparkOptions

    def plan(self, parallelism: int | None = None) -> Plan:
        """The tasks that read all splits."""
        groups = pack([split.weight for split in self.splits], self.options.partition_bytes, parallelism)
        return Plan(
            reading=self.reading, tasks=tuple(tuple(self.splits[index].pickled for index in group) for group in groups)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedQuery:
    """A query of a table, with the timeline as of the creation of this object."""

    options: SparkOptions
    table: HudiTable

    @classmethod
    def of(cls, options: SparkOptions, payloads: Mapping[str, RecordPayload] | None = None) -> Self:
        """Opens the table, with the user's own payloads, and pins it at its current timeline."""
        table = HudiTable.open(
            options.path,
            options=dict(options.table_options),
            payloads=payloads,
            log_memory_bytes=options.log_memory_bytes,
            storage_options=dict(options.storage_options),
        )
        return cls(options=options, table=table)

    @property
    def schema(self) -> pa.Schema:
        """The selected columns, by default all.

        Raises:
            QueryError: a column does not exist.
        """
        columns = self.options.columns
        if columns is None and not self.options.meta_columns:
            columns = tuple(own_columns(self.full_schema.names))
        return selected(self.full_schema, columns)

    @property
    def full_schema(self) -> pa.Schema:
        """All columns of the query."""
        match self.options.query:
            case SparkQuery.SPLITS:
                return SPLITS_SCHEMA
            case SparkQuery.INCREMENTAL:
                changes = self.options.change_format
                if changes is None and dict(self.options.table_options).get(END_SCHEMA_KEY):
                    return self.dataset.schema
                image = self.table.schema
                return image if changes is None else change_schema(image, changes)
            case _:
                return self.dataset.schema

    @property
    def dataset(self) -> HudiDataset:
        """The rows."""
        match self.options.query:
            case SparkQuery.READ_OPTIMIZED:
                return self.table.read_optimized(self.options.as_of)
            case SparkQuery.INCREMENTAL:
                return self._between_commits
            case SparkQuery.SNAPSHOT | SparkQuery.SPLITS:
                return self.table.query(self.options.as_of)

    def plan(
        self, columns: Sequence[str] | None = None, conditions: Sequence[Condition] = (), parallelism: int | None = None
    ) -> Plan:
        """The tasks that read ``columns`` (those of the options by default) of the rows that meet ``conditions``.

        Raises:
            InstantNotReadableError: files of the query have been removed since the table was pinned.
        """
        return self.listing(columns, conditions).plan(parallelism)

    def listing(self, columns: Sequence[str] | None = None, conditions: Sequence[Condition] = ()) -> Listing:
        """The splits that hold ``columns`` (those of the options by default) of the rows that meet ``conditions``.

        Raises:
            InstantNotReadableError: files of the query have been removed since the table was pinned.
        """
        dataset = self.dataset
        row_filter = _filter(conditions, self.full_schema)
        pickles = SplitPickles()
        splits = tuple(
            _listed(split, pickles.dump(split))
            for split in dataset.splits(None if self._describes_splits else row_filter)
        )
        if dataset.query_type in (QueryType.SNAPSHOT, QueryType.READ_OPTIMIZED):
            # The plan of an incremental query has already checked for the files that its commits name.
            self.table.require_files_of(dataset.instant)
        reading = Reading(
            contexts=tuple(pickles.contexts),
            schema=self.schema if columns is None else selected(self.full_schema, columns),
            row_filter=row_filter,
            describes_splits=self._describes_splits,
        )
        return Listing(reading=reading, splits=splits, options=self.options)

    @property
    def _between_commits(self) -> HudiDataset:
        after, up_to, changes = self.options.begin, self.options.end, self.options.change_format
        if after is None:
            raise QueryError(BEGIN, "no such option", "the instant after which an incremental query begins")
        if changes is None:
            return self.table.incremental(after, up_to)
        return self.table.changes(after, up_to, format=changes)

    @property
    def _describes_splits(self) -> bool:
        return self.options.query is SparkQuery.SPLITS


def selected(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """The schema of ``columns``, in that order; None selects all.

    Raises:
        QueryError: a column does not exist.
    """
    for name in columns or ():
        if name not in schema.names:
            raise QueryError("columns", repr(name), f"columns among {', '.join(schema.names)}")
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])


def _filter(conditions: Sequence[Condition], schema: pa.Schema) -> pc.Expression | None:
    """The conjunction of the conditions that Arrow can express; None if it can express none.

    If there are more than ``MOST_PARTS``, some are left out.
    """
    expressions = (expression_of(condition, schema) for condition in conditions)
    joined = joined_by_and(Joined(expression) for expression in expressions if expression is not None)
    return None if joined is None else joined.condition


def _listed(split: Split, pickled: bytes) -> ListedSplit:
    base_path = split.slices[0].base_path if len(split.slices) == 1 else None
    return ListedSplit(
        pickled=pickled,
        weight=weight(split),
        base_path=base_path,
        has_logs=any(part.log_paths for part in split.slices),
    )


class SplitPickles:
    """Pickles splits without their contexts, and collects those in ``contexts``."""

    def __init__(self) -> None:
        self.contexts: list[ReadContext] = []
        self._indexes: dict[int, int] = {}

    def dump(self, split: Split) -> bytes:
        """The pickled split, which refers to its contexts by their index in ``contexts``."""
        out = io.BytesIO()
        pickler = pickle.Pickler(out, pickle.HIGHEST_PROTOCOL)
        pickler.persistent_id = self._context_index  # type: ignore[method-assign]
        pickler.dump(split)
        return out.getvalue()

    def _context_index(self, part: Any) -> int | None:  # noqa: ANN401 - of any type
        if not isinstance(part, ReadContext):
            return None
        index = self._indexes.setdefault(id(part), len(self.contexts))
        if index == len(self.contexts):
            self.contexts.append(part)
        return index


def load_split(pickled: bytes, contexts: Sequence[ReadContext]) -> Split:
    """The split that ``SplitPickles.dump`` pickled, with its contexts."""
    unpickler = pickle.Unpickler(io.BytesIO(pickled))  # noqa: S301 - from the driver of this job
    unpickler.persistent_load = contexts.__getitem__  # type: ignore[method-assign]
    split: Split = unpickler.load()
    return split
