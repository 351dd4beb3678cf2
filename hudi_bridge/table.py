"""A Hudi table: opened once, read as of any instant whose files still exist."""

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Self, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.catalogs.uris import find_in_catalog, is_catalog_uri
from hudi_bridge.changes.split import ChangeFormat
from hudi_bridge.common.caching import cached_property
from hudi_bridge.common.display import html_of_properties, size_text
from hudi_bridge.common.imports import LaterModule
from hudi_bridge.common.operations import operation
from hudi_bridge.common.threads import run_at_once
from hudi_bridge.config import QueryType, TableConfig
from hudi_bridge.errors import QueryError
from hudi_bridge.indexes.metadata_table import MetadataTable
from hudi_bridge.indexes.query_indexes import IndexesOfTable
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.options import OnFilesGone, with_query_type
from hudi_bridge.readers.filters import RecordKey, spellings_of
from hudi_bridge.splits.committed_files import CommittedFiles
from hudi_bridge.splits.decryption import require_decryption_properties
from hudi_bridge.splits.file_slice import FileSlice
from hudi_bridge.splits.file_system_view import view_timeline
from hudi_bridge.splits.incremental import plan_incremental
from hudi_bridge.splits.planner import QueryPlan, SnapshotPlan, SplitPlanner
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.splits.table_files import FolderListings, open_state, refreshed
from hudi_bridge.storage.storage import DecryptionProperties, PathLike, Storage, StorageOptions
from hudi_bridge.timeline.history import completion_times
from hudi_bridge.timeline.instant import CompletionTimes, InstantLike, parse_query_instant
from hudi_bridge.timeline.instant_range import InstantRange, resolve_range
from hudi_bridge.timeline.time_travel import earliest_readable_instant, validate_not_cleaned, validate_time_travel
from hudi_bridge.timeline.timeline import TableState, Timeline

if TYPE_CHECKING:
    from hudi_bridge import dataset
    from hudi_bridge.changes import plan as change_plans
    from hudi_bridge.indexes import pruning
    from hudi_bridge.schema.infer import SchemaProposal
    from hudi_bridge.splits import schema_history as schemas
else:
    change_plans = LaterModule("hudi_bridge.changes.plan")
    dataset = LaterModule("hudi_bridge.dataset")
    schemas = LaterModule("hudi_bridge.splits.schema_history")
    pruning = LaterModule("hudi_bridge.indexes.pruning")


_LOG = logging.getLogger(__name__)


class OpenArguments(TypedDict):
    """The arguments of ``HudiTable.open`` besides the path, which every function that opens a table takes as well.

    Keys are not among them: they stay in this process.
    """

    filesystem: Any
    options: Mapping[str, str] | None
    payloads: Mapping[str, RecordPayload] | None
    log_memory_bytes: int | None
    storage_options: StorageOptions | None


class RowsArguments(TypedDict):
    """Which rows a function of a connector reads: see ``rows_of``."""

    as_of: InstantLike | None
    read_optimized: bool
    after: InstantLike | None
    up_to: InstantLike | None


class HudiTable:
    """A table with its timeline as of when it was opened; ``refresh`` it to see later commits."""

    def __init__(self, state: TableState) -> None:
        """A table in a state; use ``open`` instead."""
        self._state = state

    @classmethod
    def open(
        cls,
        path: PathLike,
        filesystem: Any = None,  # noqa: ANN401 - of any library
        options: Mapping[str, str] | None = None,
        payloads: Mapping[str, RecordPayload] | None = None,
        log_memory_bytes: int | None = None,
        storage_options: StorageOptions | None = None,
        decryption_properties: DecryptionProperties | None = None,
    ) -> Self:
        """Opens the table in a folder.

        ``path`` is a local path, a URI, or a path on the given pyarrow or fsspec ``filesystem``. Of URIs, pyarrow opens
        s3, gs, abfs and file, hdfs-native hdfs and viewfs, fsspec all others. ``storage_options`` are credentials and
        settings of the URI's file system: ``{"region": "eu-west-1", "anonymous": True}``; splits carry them to workers.
        A table may also be named as a catalog has it (``hudi_bridge.catalogs.uris``):
        ``hive://metastore:9083/sales.orders``.

        ``options`` are read options, such as ``{"hudi_bridge.read.as.release": "1.2"}``, most of them by Hudi's names;
        ``docs/options.md`` lists them.
        ``payloads`` are your own payloads in Python, by the Java class that the table names, and record mergers by the
        id of the merge strategy, or by the Java class that an option names.
        ``log_memory_bytes`` is the memory for the log records of one file slice, by default a quarter of the machine's
        memory for all slices that are read at the same time; larger logs are merged in parts, out of temporary files.
        ``decryption_properties`` are the keys of encrypted Parquet base files: a ``FileDecryptionProperties`` of
        pyarrow's for all of them, or a function from the path or URI of a file to one, or to None for a file without
        keys. Such files are read as Arrow in this process alone; the table cannot be pickled or handed to an engine.

        Raises:
            QueryError: an option is unknown or has an invalid value, a payload is none, ``log_memory_bytes`` is not
                above 0, or ``decryption_properties`` are no such thing.
            TableNotFoundError: the folder has no Hudi table.
            CorruptTimelineError: the properties cannot be read, or the table has data but no timeline.
            UnsupportedTableError: the table uses a feature that cannot be read correctly.
            StorageError: the file system or the catalog does not answer.
        """
        if filesystem is None and is_catalog_uri(os.fspath(path)):
            entry = find_in_catalog(os.fspath(path))
            path, options = entry.location, with_query_type(options or {}, entry.query_type)
        decryption = require_decryption_properties(decryption_properties)
        storage = replace(Storage.open(path, filesystem, storage_options), decryption=decryption)
        return cls.of(storage, options or {}, payloads or {}, log_memory_bytes)

    @classmethod
    def of(
        cls,
        storage: Storage,
        options: Mapping[str, str],
        payloads: Mapping[str, RecordPayload],
        log_memory_bytes: int | None = None,
    ) -> Self:
        """As ``open``, with an open storage; raises like it."""
        with operation(_LOG, "open", logging.DEBUG, table=storage.shown_path) as opening:
            state = open_state(storage, options, payloads, log_memory_bytes)
            opening.note(version=state.config.table_version, instant=state.instant or None)
        return cls(state)

    def __reduce__(self) -> Any:  # noqa: ANN401 - as ``object`` has it
        # Cached plans are left out; they grow with the table.
        return type(self), (self._state,)

    def __repr__(self) -> str:
        kind = f"{self.config.table_type}, version {self.config.table_version}"
        return f"<HudiTable {self.path!r}: {kind}, newest instant {self.latest_instant}>"

    def _repr_html_(self) -> str:
        """A short form of a report, for notebooks: reads nothing, so that files count once a snapshot was planned."""
        config = self.config
        pending = Counter(str(instant.action) for instant in self.timeline.instants if not instant.is_completed)
        properties = (
            ("path", self.path),
            ("name", config.name),
            ("table type", config.table_type),
            ("table version", config.table_version),
            ("record key", config.record_key_fields),
            ("ordering fields", config.ordering_fields),
            ("partition fields", config.partition_fields),
            ("commits on the timeline", len(self.timeline.commits())),
            ("newest instant", self.latest_instant or "none yet"),
            ("under way", [f"{number:,} {action}" for action, number in pending.items()]),
            ("file slices", self._known_slices()),
        )
        return html_of_properties("HudiTable", properties)

    def _known_slices(self) -> str | None:
        splits = self._latest.cached_splits(QueryType.SNAPSHOT)
        if splits is None:
            return None
        base, logs = sum(split.base_size_bytes for split in splits), sum(split.log_size_bytes for split in splits)
        return f"{len(splits):,}: {size_text(base)} of base files, {size_text(logs)} of logs"

    def require_files_of(self, instant: str) -> None:
        """Raises unless all files that a read as of the instant needs still exist.

        Splits are planned from the files that exist then; files removed since the table was opened would go unnoticed.

        Raises:
            InstantNotReadableError: a clean or a restore may have removed one of the files.
        """
        state = self._state.as_of(instant)
        files_of, now = FolderListings(state).files_of, refreshed(self._state)
        validate_not_cleaned(state, now, lambda paths: CommittedFiles.needs_any(paths, files_of, view_timeline(state)))

    def refresh(self) -> Self:
        """The same table with its current timeline, and the properties of when it was opened.

        Raises:
            CorruptTimelineError: the timeline cannot be read, or is empty although the table has data.
            StorageError: the file system does not answer.
        """
        return type(self)(refreshed(self._state))

    @property
    def config(self) -> TableConfig:
        """The configuration of the table, with the options that it was opened with."""
        return self._state.config

    @property
    def timeline(self) -> Timeline:
        """The active timeline."""
        return self._state.timeline

    @property
    def path(self) -> str:
        """The path that was opened, with secrets masked."""
        return self._state.storage.shown_path

    @property
    def storage(self) -> Storage:
        """The table's folder, for connectors."""
        return self._state.storage

    @property
    def latest_instant(self) -> str | None:
        """The newest completed commit; None before the first."""
        latest = self.timeline.latest_commit()
        return latest.requested_time if latest else None

    @property
    def earliest_readable_instant(self) -> str | None:
        """The first instant whose files were not cleaned; None if nothing was cleaned. Reads the last clean.

        Raises:
            CorruptTimelineError: the file of the clean is missing or damaged.
        """
        return earliest_readable_instant(self._state)

    @property
    def schema(self) -> pa.Schema:
        """The columns of a snapshot as of the newest commit, Hudi's own among them if files have them.

        Raises:
            CorruptTableError: a commit or its schema cannot be parsed.
            UnsupportedTableError: nothing tells the columns, or one has a type that cannot be read correctly.
        """
        return self._latest.schema(QueryType.SNAPSHOT)

    def snapshot(
        self, as_of: InstantLike | None = None, *, on_files_gone: OnFilesGone | str = OnFilesGone.ERROR
    ) -> "dataset.HudiDataset":
        """The true rows: base files merged with their logs, as of the newest commit or of an instant.

        ``as_of`` is an instant in one of Hudi's formats: ``2026-01-31``, ``2026-01-31 12:00:00[.000]``, or 14 or 17
        digits; or a ``date`` (midnight) or a ``datetime`` (to the millisecond). It is in the time zone of the timeline;
        a ``datetime`` with a time zone is converted.

        Hudi's cleaner may remove files after the table was opened. A scan that needs one of them raises an error or,
        with ``on_files_gone`` as ``replan``, plans again as of the commit that is newest then, up to three times; the
        dataset's ``instant`` is that commit from then on. Once a scan has given out rows, the instant stays, and the
        error is raised nevertheless; so it is if the table has other columns by then, and by ``splits``.

        Raises:
            InstantNotReadableError: files of that instant were removed, or an earlier write has not completed.
            QueryError: the format is not one of Hudi's, or the ``datetime`` has a time zone but the timeline is in the
                unknown local time of the writers; ``on_files_gone`` is unknown, or ``replan`` together with ``as_of``.
        """
        return self._dataset(QueryType.SNAPSHOT, as_of, on_files_gone)

    @property
    def query_type(self) -> QueryType:
        """What ``query`` reads: by default the snapshot."""
        return self._state.options.query_type

    def query(
        self, as_of: InstantLike | None = None, *, on_files_gone: OnFilesGone | str = OnFilesGone.ERROR
    ) -> "dataset.HudiDataset":
        """The rows that the table was opened for: ``snapshot`` or ``read_optimized``, by its ``query_type``.

        Raises:
            InstantNotReadableError: as for ``snapshot``.
            QueryError: as for ``snapshot``.
        """
        return self._dataset(self.query_type, as_of, on_files_gone)

    def get(
        self,
        keys: RecordKey | Iterable[RecordKey],
        columns: Sequence[str] | None = None,
        *,
        partition_path: str | None = None,
        as_of: InstantLike | None = None,
        on_files_gone: OnFilesGone | str = OnFilesGone.ERROR,
        meta_columns: bool = True,
    ) -> pa.Table:
        """The current rows of some record keys, in no particular order; a key without a row has none in the result.

        A key is as in ``_hoodie_record_key`` (for several fields, ``field:value,field:value``), the whole number of a
        key of one field, or a mapping with the values of all record key fields. ``columns`` are those to return, by
        default all, without Hudi's own unless ``meta_columns``; ``partition_path`` limits the search to one partition;
        ``as_of`` and ``on_files_gone`` are as for ``snapshot``.

        Indexes find the files that may hold the keys. What was read of them is kept for later calls, also after
        ``refresh``, up to an eighth of the machine's memory.

        Raises:
            QueryError: a key does not fit the record key fields, or a column does not exist.
            InstantNotReadableError: files of that instant were removed, or an earlier write has not completed.
            UnsupportedTableError: the table has neither meta columns nor record key fields.
        """
        rows = self.query(as_of, on_files_gone=on_files_gone)
        return rows.get(keys, columns, partition_path=partition_path, meta_columns=meta_columns)

    def to_arrow(
        self,
        columns: "dataset.Columns" = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        *,
        as_of: InstantLike | None = None,
        meta_columns: bool = True,
    ) -> pa.Table:
        """All rows of ``query(as_of)``: see ``HudiDataset.to_arrow``, whose arguments the others are."""
        return self.query(as_of).to_arrow(columns, filter, meta_columns=meta_columns)

    def to_pandas(
        self,
        columns: "dataset.Columns" = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        *,
        as_of: InstantLike | None = None,
        meta_columns: bool = True,
        **options: Any,  # noqa: ANN401 - of pandas
    ) -> Any:  # noqa: ANN401 - of pandas
        """All rows of ``query(as_of)`` as a pandas ``DataFrame``: see ``HudiDataset.to_pandas``."""
        return self.query(as_of).to_pandas(columns, filter, meta_columns=meta_columns, **options)

    def to_polars(
        self,
        columns: "dataset.Columns" = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        *,
        as_of: InstantLike | None = None,
        meta_columns: bool = True,
    ) -> Any:  # noqa: ANN401 - of Polars
        """All rows of ``query(as_of)`` as a Polars ``DataFrame``: see ``HudiDataset.to_polars``."""
        return self.query(as_of).to_polars(columns, filter, meta_columns=meta_columns)

    def to_duckdb(
        self,
        table_name: str,
        connection: Any = None,  # noqa: ANN401 - of DuckDB
        columns: "dataset.Columns" = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        *,
        as_of: InstantLike | None = None,
        meta_columns: bool = True,
    ) -> Any:  # noqa: ANN401 - of DuckDB
        """All rows of ``query(as_of)`` as a temporary table of DuckDB: see ``HudiDataset.to_duckdb``."""
        return self.query(as_of).to_duckdb(table_name, connection, columns, filter, meta_columns=meta_columns)

    def record_locations(self, keys: RecordKey | Iterable[RecordKey]) -> pa.Table | None:
        """Where the record index of the metadata table says that records are now; None if it cannot tell.

        ``keys`` are as for ``get``. The columns are ``key``, as in ``_hoodie_record_key``, ``partition`` (its path),
        ``file_id`` and ``instant``, when the record was inserted: ``timestamp[ms, UTC]``. A key that the index does not
        have has no row. A log may have deleted a record that has one.

        Raises:
            QueryError: a key does not fit the record key fields.
        """
        texts = list(map(str, spellings_of(keys, self.config).to_pylist()))
        return self._indexes.record_index.locations(texts) if self._state.options.data_skipping else None

    def read_optimized(
        self, as_of: InstantLike | None = None, *, on_files_gone: OnFilesGone | str = OnFilesGone.ERROR
    ) -> "dataset.HudiDataset":
        """The rows of the base files only, without the changes in log files.

        ``left_out_log_files()`` of the result is the number of log files that are not read. ``as_of`` and
        ``on_files_gone`` are as for ``snapshot``.

        Raises:
            InstantNotReadableError: as for ``snapshot``.
            QueryError: as for ``snapshot``.
        """
        return self._dataset(QueryType.READ_OPTIMIZED, as_of, on_files_gone)

    def incremental(self, after: InstantLike, up_to: InstantLike | None = None) -> "dataset.HudiDataset":
        """The rows written by commits in ``(after, up_to]``, in their latest state; rows deleted since are absent.

        Commits are in the range by their completion time, in table versions up to 6 by their requested time. Both ends
        have the formats of ``as_of`` in ``snapshot``; ``after`` may also be ``earliest`` or zeros, and ``up_to`` is by
        default the newest commit. ``next_after`` of the result is the ``after`` of the next query.

        Raises:
            InstantNotReadableError: files of the range were removed, or a write before a commit in it is still running.
            QueryError: the format of an instant is not one of Hudi's.
            UnsupportedTableError: the rows of the table do not record their commits.
        """
        return self._dataset_of_range(plan_incremental(self._latest, self.instant_range(after, up_to)))

    def instant_range(self, after: InstantLike, up_to: InstantLike | None = None) -> InstantRange:
        """The commits of an incremental query with these ends.

        Raises:
            InstantNotReadableError: a write before a commit in the range is still running.
            QueryError: the format of an instant is not one of Hudi's.
        """
        return resolve_range(self._state, after, up_to)

    def changes(
        self,
        after: InstantLike,
        up_to: InstantLike | None = None,
        *,
        format: ChangeFormat | str = ChangeFormat.ROWS,  # noqa: A002 - of the rows
    ) -> "dataset.HudiDataset":
        """The changes in ``(after, up_to]``, with the columns ``op`` (i, u, d), ``ts_ms``, ``before`` and ``after``.

        The range is as for ``incremental``; ``ts_ms`` is the commit of the change. ``before`` and ``after`` are structs
        of the table's columns or, in the format ``cdc``, JSON texts as in Hudi's queries. A table with change data
        capture returns each change, as Hudi does. Other tables return the net change of each record, from a comparison
        of the touched file groups before and after the range.

        Raises:
            InstantNotReadableError: files of the range, or of the state before it, were removed, or a write before a
                commit in it is still running.
            QueryError: the format of an instant is not one of Hudi's, or ``format`` is neither ``rows`` nor ``cdc``.
            UnsupportedTableError: the table's records cannot be merged correctly.
        """
        if format not in set(ChangeFormat):
            raise QueryError("format", repr(format), " or ".join(ChangeFormat))
        plan = change_plans.plan_changes(self._latest, self.instant_range(after, up_to), ChangeFormat(format))
        return self._dataset_of_range(plan)

    def splits(
        self,
        as_of: InstantLike | None = None,
        query_type: QueryType = QueryType.SNAPSHOT,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
    ) -> list[RealtimeFileSplit]:
        """The splits of a query as of an instant, to be read by ``open_reader`` independently of each other.

        Raises:
            QueryError: the query type is another one, the filter does not fit the table, or the format of the instant
                is not one of Hudi's.
            InstantNotReadableError: files of that instant were removed, or an earlier write has not completed.
            UnsupportedTableError: the table's records cannot be merged correctly.
        """
        if query_type not in (QueryType.SNAPSHOT, QueryType.READ_OPTIMIZED):
            raise QueryError("query_type", query_type, "snapshot or read_optimized; other datasets have splits()")
        return [part for split in self._dataset(query_type, as_of).splits(filter) for part in split.slices]

    def planner(self, as_of: InstantLike | None = None, argument: str = "as_of") -> SplitPlanner:
        """Plans the queries of a snapshot; ``as_of`` is as for ``snapshot``.

        For connectors, tools, and programs that distribute the reads themselves. Its ``state`` is what was read of the
        table when it was opened. The planner of the newest commit is made once, and keeps what it has planned. Errors
        name the ``argument`` of the caller's that has the instant.

        Raises:
            InstantNotReadableError: files of that instant were removed, or an earlier write has not completed.
            QueryError: the format of the instant is not one of Hudi's.
        """
        if as_of is None:
            return self._latest
        state = self._state.as_of(parse_query_instant(as_of, self.config.timeline_timezone, argument))
        validate_time_travel(state)
        return SplitPlanner(state, IndexesOfTable(state).listings(), completion_times=self._completion_times)

    def read_context(self, as_of: InstantLike | None = None) -> ReadContext:
        """What all splits of a snapshot share; it exists even if there are no splits. Raises like ``splits``."""
        return self.planner(as_of).context(QueryType.SNAPSHOT)

    def file_slices(self, as_of: InstantLike | None = None) -> tuple[FileSlice, ...]:
        """The file slices of a snapshot, ordered by partition and file id; raises like ``splits``."""
        return tuple(self.planner(as_of).file_slices(QueryType.SNAPSHOT))

    @cached_property
    def schema_history(self) -> "tuple[schemas.SchemaVersion, ...]":
        """The versions of the schema with their changes, oldest first.

        Without column ids, reads all commits, archived ones too.

        Raises:
            CorruptTableError: a commit, or a schema, cannot be parsed.
        """
        return schemas.read_schema_history(self._state)

    def propose_schema_history(self) -> "SchemaProposal":
        """A schema history with column ids, for a table without one; nothing is written.

        Reads all commits, archived ones too.

        Raises:
            CorruptTableError: a commit, a file or a schema cannot be parsed.
        """
        return schemas.propose_schema_history(self._state)

    def file_columns(self, path: PathLike, as_of: InstantLike | None = None) -> "tuple[schemas.FileColumns, ...]":
        """How the columns of a base file, or of each data block of a log file, map to those of a snapshot.

        ``path`` is relative to the table, or begins with the path or URI that was opened. A log file is in memory as a
        whole.

        Raises:
            QueryError: the path is not a data file of the table.
            CorruptTableError: the file, or a schema, cannot be parsed.
        """
        return schemas.read_file_columns(self.planner(as_of).state, os.fspath(path))

    def _dataset(
        self,
        query_type: QueryType,
        as_of: InstantLike | None,
        on_files_gone: OnFilesGone | str = OnFilesGone.ERROR,
    ) -> "dataset.HudiDataset":
        if on_files_gone not in set(OnFilesGone):
            raise QueryError("on_files_gone", repr(on_files_gone), " or ".join(OnFilesGone))
        if on_files_gone == OnFilesGone.ERROR:
            return dataset.HudiDataset(self._selection(query_type, as_of))
        if as_of is not None:
            raise QueryError(
                "on_files_gone", f"{on_files_gone} as of {as_of}", "no as_of: planned again for the newest"
            )
        return dataset.HudiDataset(self._selection(query_type, None), partial(self._newest_selection, query_type))

    def _dataset_of_range(self, plan: QueryPlan) -> "dataset.HudiDataset":
        return dataset.HudiDataset(self._selection_of(plan, is_newest=True))

    def _newest_selection(self, query_type: QueryType) -> "pruning.SplitSelection":
        return self.refresh()._selection(query_type, None)  # noqa: SLF001 - of another object of this class

    def _selection(self, query_type: QueryType, as_of: InstantLike | None) -> "pruning.SplitSelection":
        planner = self.planner(as_of)
        if not planner.state.storage.is_local:
            # Both take several requests one after another.
            run_at_once(lambda: planner.query_schema, planner.files.fetch_ahead)
        is_newest = planner.state.instant == self._state.instant
        return self._selection_of(SnapshotPlan(planner, query_type), is_newest=is_newest)

    def _selection_of(self, plan: QueryPlan, *, is_newest: bool) -> "pruning.SplitSelection":
        indexes = self._indexes.of_query(plan.query_type, is_newest=is_newest)
        return pruning.SplitSelection(storage=self._state.storage, plan=plan, indexes=indexes)

    @cached_property
    def _indexes(self) -> IndexesOfTable:
        return IndexesOfTable(self._state)

    @property
    def _metadata_table(self) -> MetadataTable:
        return self._indexes.metadata_table

    @cached_property
    def _latest(self) -> SplitPlanner:
        listings, stats = self._indexes.listings(), self._indexes.partition_stats_for
        return SplitPlanner(self._state, listings, stats, completion_times=self._completion_times)

    @cached_property
    def _completion_times(self) -> Callable[[], CompletionTimes] | None:
        """Reads the completion times of all commits, once; None if no option asks for them."""
        return cache(partial(completion_times, self._state)) if self._state.options.completion_times else None


def opened(path_or_table: PathLike | HudiTable, arguments: OpenArguments) -> HudiTable:
    """The table in a folder, or an open table, beside which no arguments can be given.

    Raises:
        QueryError: as for ``HudiTable.open``, or there are arguments beside an open table.
        HudiReadError: the table cannot be opened.
    """
    if not isinstance(path_or_table, HudiTable):
        return HudiTable.open(path_or_table, **arguments)
    for name, value in arguments.items():
        if value is not None:
            raise QueryError(name, "an open table beside it", "a path to open with it")
    return path_or_table


def rows_of(table: HudiTable, rows: RowsArguments) -> "dataset.HudiDataset":
    """The rows of ``query(as_of)`` or, if asked, of the base files alone, or those that a range of commits has written.

    Raises:
        QueryError: the arguments exclude one another.
        InstantNotReadableError: files of the instant or of the range have been removed, or are incomplete.
    """
    as_of, after, up_to = rows["as_of"], rows["after"], rows["up_to"]
    if up_to is not None and after is None:
        raise QueryError("up_to", repr(up_to), "an after as well, where the range begins")
    if after is None:
        return table.read_optimized(as_of) if rows["read_optimized"] else table.query(as_of)
    if as_of is not None or rows["read_optimized"]:
        raise QueryError("after", repr(after), "neither as_of nor read_optimized beside it")
    return table.incremental(after, up_to)
