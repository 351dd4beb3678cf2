"""A split: one file slice with the context needed to read it, on any machine that can reach the table's files."""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Self

import pyarrow as pa

from hudi_bridge.config import QueryType, TableConfig
from hudi_bridge.errors import QueryError, UnsupportedTableError
from hudi_bridge.logformat.native import NativeLogName, parse_native_log_name
from hudi_bridge.merge.arrays import Value, ordering_path, ordering_type
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.options import COMPLETION_TIMES_KEY
from hudi_bridge.releases import FloatWidening
from hudi_bridge.schema.avro import Defaults, default_of
from hudi_bridge.schema.java_text import has_value_text
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN, COMPLETION_TIME_COLUMN, RECORD_KEY_COLUMN
from hudi_bridge.splits.partitions import PartitionValues
from hudi_bridge.storage.storage import Storage, StorageOptions, keys_stay_here
from hudi_bridge.timeline.instant import CompletionTimes

_FORMAT = 1
_KIND = "split"
_KEY_FIELDS = "texts, numbers, booleans, dates and times of milliseconds or microseconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadContext:
    """The context shared by the splits of one plan.

    Where the table is: ``table_path`` is the folder as it was opened, with its ``storage_options``. Workers read with
    both, so they include any secrets of the user's. ``needs_keys`` is whether the table was opened with keys of its
    base files; keys are not part of the context, so splits then stay in their process. ``needs_filesystem`` is whether
    the folder is a path on a file system that was given, without which it means nothing.

    Which log blocks count: blocks of ``committed_instants`` up to ``latest_instant``, and blocks from before
    ``timeline_start`` unless they are of ``pending_instants``.

    The columns: ``path_columns`` are read from the partition path instead of the files. ``field_defaults`` has the
    defaults of missing fields, if they are not null. ``schema_ids`` is the query's schema with column ids, and
    ``schema_history`` all its versions, as Hudi's JSON. ``fields_spell_keys`` is whether record keys consist of nothing
    but the values of the record key fields, as texts.

    ``replaces_compacted_blocks`` is whether the block of a log compaction counts in place of its originals, or after
    them. ``is_lsm_tree`` is whether the files of a slice are sorted by record key and merged as sorted runs.

    Incremental queries: ``commit_times`` are the commits whose rows are returned, None for other queries. With
    ``filters_base_rows_before_merge``, base rows of other commits are not merged; otherwise only row groups without any
    row of these commits are left out. With ``filters_parquet_blocks``, so are Parquet log blocks without such a row.

    ``completion_times`` are those of the commits that rows may name, None unless an option asks for them. Then the
    schema ends with a column of them, which no file has: readers of files need ``stored_context``.

    Options: ``log_memory_bytes`` limits the memory for log records of a slice; None is a quarter of the memory,
    shared by the slices that are read at the same time. ``skips_slices`` is whether indexes may be used. The others are
    as in ``ReadOptions``.

    Part of a ``Split``. Its fields are for the readers of this package and may change with any release.
    """

    table_path: str = field(repr=False)
    query_type: QueryType
    latest_instant: str
    schema: pa.Schema
    merge_rule: MergeRule | None
    record_key_fields: tuple[str, ...]
    populates_meta_fields: bool
    committed_instants: frozenset[str]
    pending_instants: frozenset[str]
    timeline_start: str
    path_columns: tuple[str, ...]
    float_widening: FloatWidening
    log_memory_bytes: int | None
    field_defaults: Defaults
    schema_ids: str | None
    schema_history: str | None
    commit_times: frozenset[str] | None
    filters_base_rows_before_merge: bool
    filters_parquet_blocks: bool
    replaces_compacted_blocks: bool
    fields_spell_keys: bool = False
    is_lsm_tree: bool = False
    skips_slices: bool = True
    bucket_count: int | None = None
    bucket_fields: tuple[str, ...] = ()
    bootstrap_source: str | None = field(default=None, repr=False)
    blob_sources: tuple[str, ...] = field(default=(), repr=False)
    blob_content: bool = False
    storage_options: StorageOptions = field(default_factory=dict, repr=False, hash=False)
    needs_keys: bool = False
    needs_filesystem: bool = False
    completion_times: CompletionTimes | None = field(default=None, repr=False, hash=False)

    def __getstate__(self) -> list[Any]:
        self.require_no_keys()
        return [getattr(self, attribute.name) for attribute in fields(self)]

    def require_no_keys(self) -> None:
        """Refuses a table whose base files need keys, because a reader that has only the split lacks them.

        Raises:
            QueryError: the base files need keys.
        """
        if self.needs_keys:
            raise keys_stay_here("readers of splits")

    def require_no_completion_times(self, reader: str) -> None:
        """Refuses rows with completion times, for a reader that reads files by itself and so would have nulls instead.

        Raises:
            QueryError: an option asks for completion times.
        """
        if self.completion_times is not None:
            expected = f"no such option for {reader}"
            raise QueryError(f"options: {COMPLETION_TIMES_KEY}", "true", expected)

    def open_storage(self, filesystem: Any = None) -> Storage:  # noqa: ANN401 - of any library
        """The folder of the table, on a file system that is given or on the one that it was opened on.

        Raises:
            QueryError: the table was opened with keys, or on a file system that is not given again.
            TableNotFoundError: the file system cannot be opened.
        """
        self.require_no_keys()
        if self.needs_filesystem and filesystem is None:
            raise QueryError(
                "filesystem",
                "none for a split of a table that was opened with filesystem=",
                f"filesystem= for its reader, too, since {self.table_path} is a path on it",
            )
        return Storage.open(self.table_path, filesystem, None if filesystem is not None else self.storage_options)

    def is_committed(self, instant_time: str) -> bool:
        """Whether log blocks of an instant belong to the table."""
        if instant_time in self.committed_instants:
            return True
        return instant_time < self.timeline_start and instant_time not in self.pending_instants

    def counts(self, instant_time: str) -> bool:
        """Whether log blocks of an instant count as of ``latest_instant``."""
        return instant_time <= self.latest_instant and self.is_committed(instant_time)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns from which record keys are built.

        Raises:
            UnsupportedTableError: the table has neither key columns nor meta columns, or keys are made of values whose
                text in Java is not known.
        """
        if self.populates_meta_fields:
            return (RECORD_KEY_COLUMN,)
        if not self.record_key_fields:
            raise UnsupportedTableError("record key", "no meta columns and no record key fields", "one or the other")
        for name in self.record_key_fields:
            unusable = self._what_has_no_text(name)
            if unusable is not None:
                raise UnsupportedTableError("record key", f"no meta columns, and {unusable}", _KEY_FIELDS)
        return tuple(dict.fromkeys(ordering_path(name)[0] for name in self.record_key_fields))

    def _what_has_no_text(self, name: str) -> str | None:
        """A record key field and the reason why its values cannot be parts of a key; None if they can."""
        try:
            kind = ordering_type(name, self.schema)
        except KeyError:
            return f"no column {name}"
        return None if has_value_text(kind) else f"{name} of type {kind}"

    @property
    def defaults(self) -> Mapping[str, Value]:
        """The defaults of columns that are not null, as values of the columns.

        A default with another type than its column is left out.
        """
        return _values_of(self.field_defaults, self.schema)


def native_log_of_tree(path: str) -> NativeLogName:
    """The name of a log file of an LSM tree.

    Source: ``HoodieLsmFileGroupReader`` of Hudi's main branch, whose log files are native, and Parquet by default.

    Raises:
        UnsupportedTableError: it is not a native log file in Parquet.
    """
    name = parse_native_log_name(path)
    if name is None or name.file_format != "parquet":
        raise UnsupportedTableError("log file of an LSM tree", path, "native log files in Parquet")
    return name


def in_order(split: "RealtimeFileSplit") -> "RealtimeFileSplit":
    """The split, if its files can be merged: those of an LSM tree are complete files in formats that keep the order.

    Raises:
        UnsupportedTableError: they cannot.
    """
    if split.context.is_lsm_tree:
        if split.source_path is not None:
            # Hudi refuses it, too.
            raise UnsupportedTableError("bootstrapped table", f"an LSM tree with {split.base_path}", "other layouts")
        for path in split.log_paths:
            native_log_of_tree(path)
    return split


def require_commits_in_rows(config: TableConfig) -> None:
    """Refuses completion times of a table whose rows do not all name the commit that wrote them.

    Raises:
        UnsupportedTableError: it is such a table, with other meta columns.
    """
    if config.meta_fields.is_selective and not config.rows_tell_commits:
        table = f"a {config.table_type} table of hoodie.meta.fields.mode={config.meta_fields}"
        actual = f"{table}, and the option {COMPLETION_TIMES_KEY}"
        raise UnsupportedTableError("completion times", actual, "rows that tell their commits")


def with_completion_times(context: ReadContext, times: CompletionTimes) -> ReadContext:
    """The context of rows with the completion times of their commits as a further column.

    Raises:
        UnsupportedTableError: rows do not tell their commits, or the table has a column with that name.
    """
    if COMPLETION_TIME_COLUMN in context.schema.names:
        actual = f"a column {COMPLETION_TIME_COLUMN}, and the option {COMPLETION_TIMES_KEY}"
        raise UnsupportedTableError("completion times", actual, "one of the two")
    if not context.schema.names:
        # Nothing has been written yet.
        return replace(context, completion_times=times)
    if COMMIT_TIME_COLUMN not in context.schema.names:
        actual = f"a table without meta columns, and the option {COMPLETION_TIMES_KEY}"
        raise UnsupportedTableError("completion times", actual, "rows that tell their commits")
    schema = context.schema.append(pa.field(COMPLETION_TIME_COLUMN, pa.string()))
    return replace(context, schema=schema, completion_times=times)


def stored_context(context: ReadContext) -> ReadContext:
    """The context with no more than the columns that files may have."""
    if context.completion_times is None:
        return context
    position = context.schema.get_field_index(COMPLETION_TIME_COLUMN)
    return replace(
        context, schema=context.schema if position < 0 else context.schema.remove(position), completion_times=None
    )


@lru_cache(maxsize=64)
def _values_of(defaults: Defaults, schema: pa.Schema) -> Mapping[str, Value]:
    texts, values = dict(defaults), {}
    for field_ in schema:
        with suppress(UnsupportedTableError):
            if (default := default_of(field_.name, field_.type, texts)) is not None:
                values[field_.name] = default[0]
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeFileSplit:
    """A file slice: at most one base file, and the log files to merge into it, oldest first.

    It is all that ``open_reader`` needs, also in another process or on another machine: it can be pickled, and written
    as JSON. It then has the path and ``storage_options`` with which the table was opened, and any secrets in them.
    Pickling it raises a ``QueryError`` if the table was opened with keys of its base files: they stay in this process.

    Paths are relative to the table. A split without log paths is read from its base file only. Sizes are in bytes;
    ``log_sizes`` belong to the log paths, if they are known. If the base file was bootstrapped, so that it has meta
    columns only, ``source_path`` is the file with the others, relative to ``bootstrap_source`` of the context.

    Made by ``HudiTable.splits`` and ``HudiDataset.splits``, and by ``from_json``.
    """

    context: ReadContext
    partition_path: str
    partition_values: PartitionValues
    file_id: str
    base_instant_time: str
    base_path: str | None
    log_paths: tuple[str, ...]
    base_size_bytes: int
    log_size_bytes: int
    log_sizes: tuple[int, ...] = ()
    source_path: str | None = None
    source_size_bytes: int = 0

    @property
    def is_external(self) -> bool:
        """Whether the base file was made by another writer and registered by a commit."""
        return self.base_path == f"{self.partition_path}/{self.file_id}".removeprefix("/")

    @property
    def slices(self) -> "tuple[RealtimeFileSplit, ...]":
        """The split itself, which is one slice."""
        return (self,)

    @property
    def log_files(self) -> tuple[tuple[str, int | None], ...]:
        """The path of each log file with its size in bytes, None if it is not known; built anew each time."""
        if len(self.log_sizes) != len(self.log_paths):
            return tuple((path, None) for path in self.log_paths)
        return tuple(zip(self.log_paths, self.log_sizes, strict=True))

    @property
    def path_values(self) -> Mapping[str, Value]:
        """The values, by name, of the columns read from the partition path, which are the same in every row."""
        return {name: value for name, value in self.partition_values if name in self.context.path_columns}

    @property
    def table_path(self) -> str:
        """The table's folder as it was opened, including any secrets in the path."""
        return self.context.table_path

    @property
    def latest_instant(self) -> str:
        """The instant at which the slice is read."""
        return self.context.latest_instant

    def to_json(self) -> str:
        """The split, with its context, as JSON text.

        Raises:
            QueryError: the table was opened with keys of its base files.
        """
        split = {field.name: getattr(self, field.name) for field in fields(self)}
        split["context"] = context_to_json(self.context)
        columns = [pa.field(name, value.type) for name, value in self.partition_values]
        row = pa.record_batch(
            [pa.array([value], value.type) for _, value in self.partition_values],
            schema=pa.schema(columns),
        )
        split["partition_values"] = _encode(row.serialize())
        split["partition_columns"] = _encode(row.schema.serialize())
        return split_text(_KIND, split)

    @classmethod
    def from_json(cls, text: str, payloads: Mapping[str, RecordPayload] | None = None) -> Self:
        """The split that ``to_json`` wrote; ``payloads`` are a user's own, as for ``HudiTable.open``.

        Raises:
            QueryError: the text is not such a split, or needs a payload that is not given.
        """
        with split_of_text(text, _KIND, cls.__name__) as split:
            columns = pa.ipc.read_schema(_decode(split.pop("partition_columns")))
            row = pa.ipc.read_record_batch(_decode(split.pop("partition_values")), columns)
            values = tuple((name, row.column(position)[0]) for position, name in enumerate(columns.names))
            context = context_from_json(split.pop("context"), payloads or {})
            split["log_paths"] = tuple(split["log_paths"])
            split["log_sizes"] = tuple(split.get("log_sizes", ()))
            return cls(context=context, partition_values=values, **split)


def split_text(kind: str, split: Mapping[str, Any]) -> str:
    """The JSON text of a split, given as JSON values."""
    return json.dumps({"format": _FORMAT, kind: split})


@contextmanager
def split_of_text(text: str, kind: str, class_name: str) -> Iterator[dict[str, Any]]:
    """A context with the values given to ``split_text``, in which the split is built.

    Raises:
        QueryError: the text is not such a split, or building the split fails in the context.
    """
    try:
        document = json.loads(text)
        if document["format"] != _FORMAT:
            raise QueryError("split", f"format {document['format']}", f"format {_FORMAT}")
        yield document[kind]
    except (
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        EOFError,
        OSError,
        RecursionError,
        pa.ArrowException,
    ) as error:
        if isinstance(error, QueryError):
            raise
        raise QueryError("split", f"text that is no split ({error})", f"the JSON of a {class_name}") from error


def context_to_json(context: ReadContext) -> dict[str, Any]:
    """A context as JSON values.

    Raises:
        QueryError: the table was opened with keys.
    """
    context.require_no_keys()
    document = {field.name: getattr(context, field.name) for field in fields(context)}
    document["query_type"] = context.query_type.value
    document["float_widening"] = context.float_widening.value
    document["schema"] = _encode(context.schema.serialize())
    document["committed_instants"] = sorted(context.committed_instants)
    document["pending_instants"] = sorted(context.pending_instants)
    document["commit_times"] = None if context.commit_times is None else sorted(context.commit_times)
    times = context.completion_times
    document["completion_times"] = None if times is None else dict(times.by_request)
    rule = context.merge_rule
    document["merge_rule"] = rule.to_json() if rule is not None else None
    return document


def context_from_json(document: dict[str, Any], payloads: Mapping[str, RecordPayload]) -> ReadContext:
    """The context that ``context_to_json`` wrote.

    Raises:
        QueryError: it needs a payload that is not given.
    """
    rule = document.pop("merge_rule")
    commit_times, completion_times = document["commit_times"], document.get("completion_times")
    for name in ("record_key_fields", "path_columns", "bucket_fields", "blob_sources"):
        document[name] = tuple(document.get(name, ()))
    document["field_defaults"] = tuple((name, default) for name, default in document["field_defaults"])
    if rule is not None:
        payload_class = rule["payload_class"]
        if payload_class is not None and payload_class not in payloads:
            raise QueryError("payloads", "nothing for " + payload_class, "the payload that the split was planned with")
        rule = MergeRule.from_json(rule, payloads.get(payload_class))
    return ReadContext(
        **document
        | {
            "query_type": QueryType(document["query_type"]),
            "float_widening": FloatWidening(document["float_widening"]),
            "schema": pa.ipc.read_schema(_decode(document["schema"])),
            "committed_instants": frozenset(document["committed_instants"]),
            "pending_instants": frozenset(document["pending_instants"]),
            "commit_times": None if commit_times is None else frozenset(commit_times),
            "completion_times": None if completion_times is None else CompletionTimes(completion_times),
            "merge_rule": rule,
        }
    )


def _encode(buffer: pa.Buffer) -> str:
    return base64.b64encode(memoryview(buffer)).decode("ascii")


def _decode(text: str) -> pa.Buffer:
    return pa.py_buffer(base64.b64decode(text))


def sizes_of(splits: Iterable[RealtimeFileSplit]) -> Iterator[int]:
    """The bytes of the base file and the log files of each split."""
    return (split.base_size_bytes + split.log_size_bytes for split in splits)
