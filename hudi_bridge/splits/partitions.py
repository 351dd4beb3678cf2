"""The partitions of a table: their folders, the values of columns in their paths, and what a filter rules out.

A partition is a folder with a file ``.hoodie_partition_metadata``. Folders in it are ignored, unless it is the folder
of a partitioned table itself. A table without partition fields is one partition, also without that file, which hudi-rs
does not write there. A folder whose values cannot pass is not listed.

Whether a column is read from the path or from the files depends on the release and the query, and so does how the path
is decoded. Only values that every row of a partition has rule it out: ``certain_values``.

Source: ``HoodiePartitionMetadata``, ``FileSystemBackedTableMetadata`` and ``BaseHoodieTableFileIndex``;
``HoodieSparkUtils.parsePartitionColumnValues``, ``PartitionPathEncodeUtils`` and Spark's partition discovery;
``DefaultSource.createRelation`` and ``BaseFileOnlyRelation`` for the queries that read them.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.imports import ds
from hudi_bridge.common.threads import REQUESTS_AT_ONCE, map_in_threads
from hudi_bridge.config import HOODIE_FOLDER, PartitionFieldKind, QueryType, TableConfig, TableType
from hudi_bridge.errors import CorruptTableError, StorageError
from hudi_bridge.releases import PathColumns
from hudi_bridge.splits.file_slice import is_data_file
from hudi_bridge.splits.notes import PARTITION_CONDITION, PARTITIONS, PlanNotes
from hudi_bridge.storage.storage import FileInfo, Storage
from hudi_bridge.timeline.timeline import TableState

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")
PartitionValues: TypeAlias = "tuple[tuple[str, pa.Scalar[Any]], ...]"
"""Names and values of partition columns, in the order of the partition fields."""
Fact = TypeVar("Fact")
_MOST_SINGLY = 256
"""Up to this number, paths are checked one by one; beyond it, groups of paths first: each check costs a fragment."""
_PATHS_PER_PART = 64
"""Adjacent paths share values, so that most groups are ruled out as a whole."""
PARTITION_METADATA = ".hoodie_partition_metadata"
"""The start of the name of the file that makes a folder a partition."""
# Links to a parent folder multiply folders from level to level.
_USUAL_LEVELS = 12
_MOST_DEEP_FOLDERS = 1000


class QueryColumns(NamedTuple):
    """The columns of a query with their types, and the names of the columns that are read from the partition path."""

    schema: pa.Schema
    from_path: tuple[str, ...]


def columns_from_path(
    config: TableConfig, query_type: QueryType, schema: pa.Schema, *, has_ids: bool
) -> tuple[str, ...]:
    """The partition columns in ``schema`` that are read from the partition path instead of the files.

    A partition field within a struct (``o.a``) is not a column; its struct is read from the files.

    Hudi 1.x reads partition columns from the path, except for ordering fields and fields that may be formatted times.
    Before 1.0, queries of base files only (read-optimized queries, and snapshots of COPY_ON_WRITE tables) read them
    from the path too, including formatted times, unless columns have ids (``has_ids``). Other queries do not, and
    neither do incremental ranges where 1.0 reads them as before. If the files may lack the columns, all queries read
    them from the path.

    Source: ``partitionColumnsToRead`` of ``HoodieBaseHadoopFsRelationFactory``.
    """
    columns = tuple(name for name in config.partition_fields if schema.get_all_field_indices(name))
    of_base_files = query_type is QueryType.READ_OPTIMIZED or (
        query_type is QueryType.SNAPSHOT and config.table_type is TableType.COPY_ON_WRITE
    )
    only_of_base_files = config.rules.path_columns is PathColumns.ALL_OF_BASE_FILES
    if only_of_base_files and of_base_files and not has_ids:
        return columns
    # The files that a table was bootstrapped from need not have partition columns.
    if config.drops_partition_columns or config.bootstrap_base_path is not None:
        return columns
    if only_of_base_files or (query_type is QueryType.INCREMENTAL and config.rules.ranges_as_in_0x):
        return ()
    in_files = _fields_in_files(config)
    return tuple(name for name in columns if name not in in_files)


def _fields_in_files(config: TableConfig) -> frozenset[str]:
    """The partition fields that are read from the files under ``PathColumns.SIMPLE_FIELDS``."""
    fields = zip(config.partition_fields, config.partition_field_kinds, strict=True)
    formatted = frozenset(name for name, kind in fields if kind is not PartitionFieldKind.SIMPLE)
    # Hudi leaves out the ordering fields if one of them is among the others.
    return formatted if formatted.intersection(config.ordering_fields) else formatted.union(config.ordering_fields)


class _FolderNames:
    """The folders to list, each under one path: links may lead to a folder with another path, or to a parent."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._root = storage.real_path("")
        self._real = {"": self._root}
        self._seen = {self._root}
        self._links: list[str] = []

    def new(self, parent: str, folders: Iterable[str]) -> list[str]:
        """The ``folders`` in ``parent`` that are not links; links are remembered for ``new_links``."""
        new = []
        for path in folders:
            if self._storage.is_link(path):
                self._links.append(path)
                continue
            real = f"{self._real[parent]}/{path.rpartition('/')[2]}"
            if real not in self._seen:
                new.append(path)
                self._seen.add(real)
                self._real[path] = real
        return new

    def new_links(self) -> list[str]:
        """The links so far to folders that have no other path in the table and do not contain the table."""
        new = []
        for path in self._links:
            target = self._storage.real_path(path)
            if target not in self._seen and not self._root.startswith(f"{target.rstrip('/')}/"):
                new.append(path)
                self._seen.add(target)
                self._real[path] = target
        self._links = []
        return new


def list_partitions(
    state: TableState,
    schema: pa.Schema,
    path_columns: tuple[str, ...],
    row_filter: pc.Expression | None,
    list_directory: Callable[[str], Sequence[FileInfo]],
    notes: PlanNotes | None = None,
    *,
    within_partitions: bool = False,
) -> list[str]:
    """The paths of the partitions that may have rows passing the filter, without nested ones unless
    ``within_partitions``.

    A folder is listed once: under its own path, or under a link if it has no other path in the table.

    Raises:
        StorageError: a folder cannot be listed.
    """
    storage, config = state.storage, state.config
    list_folder = partial(_list_folder, state, list_directory, within_partitions=within_partitions)
    partitions: list[str] = []
    names = _FolderNames(storage)
    level, depth, ruled_out = [""], 0, 0
    while level:
        if row_filter is not None:
            ruled_out += len(level)
            level = folders_that_may_pass(storage, row_filter, schema, config, path_columns, level)
            ruled_out -= len(level)
        folders: list[str] = []
        for path, folder in zip(level, map_in_threads(list_folder, level, REQUESTS_AT_ONCE), strict=True):
            if folder.is_partition:
                partitions.append(path)
            folders += names.new(path, folder.below)
        level, depth = folders or names.new_links(), depth + 1
        if depth > _USUAL_LEVELS and len(level) > _MOST_DEEP_FOLDERS:
            found_folders = f"{len(level)} folders {depth} levels deep"
            raise CorruptTableError(level[0], None, found_folders, "partitions; do links lead back up?")
    passing = partitions
    if row_filter is not None and partitions:
        values = {path: certain_values(path, config, schema, path_columns) for path in partitions}
        passing = matching_partitions(storage, schema, row_filter, values)
    if notes is not None:
        notes.counted(PARTITION_CONDITION, ruled_out + len(partitions), len(passing), PARTITIONS)
    return passing


def is_partition(listing: Iterable[FileInfo]) -> bool:
    """Whether a folder with these entries is a partition."""
    return any(info.name.startswith(PARTITION_METADATA) for info in listing)


def folders_in(listing: Iterable[FileInfo]) -> list[str]:
    """The paths of the folders among these entries that may be or hold partitions: all but the table's ``.hoodie``."""
    return [info.path for info in listing if info.is_dir and info.path != HOODIE_FOLDER]


class _Folder(NamedTuple):
    """Whether a folder is a partition, and its subfolders that may be or contain partitions."""

    is_partition: bool
    below: list[str]


def _list_folder(
    state: TableState,
    list_directory: Callable[[str], Sequence[FileInfo]],
    path: str,
    *,
    within_partitions: bool,
) -> _Folder:
    listing = list_directory(path)
    if not path and all(info.path != HOODIE_FOLDER for info in listing):
        raise StorageError(state.storage.shown_path, "list", f"the listing lacks {HOODIE_FOLDER}, which was read")
    is_whole_table = path == "" and not state.config.partition_fields
    holds_rows = is_partition(listing) or (
        is_whole_table and any(is_data_file(info.name) for info in listing if not info.is_dir)
    )
    ends_here = holds_rows and not within_partitions and (path != "" or is_whole_table)
    # A partition may have the name that the metadata of another table in the folder would have.
    ends_here = ends_here or path.rpartition("/")[2] == HOODIE_FOLDER
    return _Folder(holds_rows, [] if ends_here else folders_in(listing))


def partition_values(
    path: str, config: TableConfig, schema: pa.Schema, path_columns: tuple[str, ...], *, encoded: bool = False
) -> "PartitionValues | None":
    """The values of the partition columns in a path; None if the path does not determine them.

    Rows may have other values in columns that are read from the files: only ``certain_values`` rule out partitions.
    Columns in files that may be formatted in the path are left out. The value of a single partition column is a whole
    path of several levels, which is not decoded; in a table with slash-separated dates, hyphens stand for its slashes.
    For ``path_columns``, a level may be ``name=value`` whatever the table's property is, as in Hudi; ``encoded`` leaves
    their values undecoded.
    """
    fields = config.partition_fields
    if not fields:
        return ()
    levels = path.split("/")
    is_whole = len(levels) != len(fields)
    if is_whole:
        if len(fields) > 1:
            return None
        levels = [path]
    values = []
    for name, kind, level in zip(fields, config.partition_field_kinds, levels, strict=True):
        if not schema.get_all_field_indices(name):
            continue
        to_type = schema.field(name).type
        if name in path_columns:
            if is_whole:
                text = value_of_levels(level, name, config)
            else:
                bare = level.partition("=")[2] if "=" in level else level
                text = bare if encoded else _decoded(bare)
            value = _cast_text(text, to_type)
        elif kind is PartitionFieldKind.SIMPLE:
            bare = level.removeprefix(f"{name}=") if config.hive_style_partitioning else level
            value = _value_in_files(bare, to_type, config)
        else:
            continue
        if value is None:
            return None
        values.append((name, value))
    return tuple(values)


def certain_values(
    path: str, config: TableConfig, schema: pa.Schema, path_columns: tuple[str, ...], *, encoded: bool = False
) -> PartitionValues:
    """The values that every row of a partition has; None if the path does not determine them.

    Only columns that are read from the path have such values, unless the reader's options promise it for others: an
    index over all partitions leaves an updated record where it was, and file systems drop the slash of ``a/``.
    """
    values = partition_values(path, config, schema, path_columns, encoded=encoded) or ()
    return tuple((name, value) for name, value in values if config.paths_tell_values or name in path_columns)


def value_of_levels(path: str, name: str, config: TableConfig) -> str:
    """The text of the only partition column in a path of several levels, or in its first ones.

    Hudi 1.2 takes hyphens for the slashes of a table with slash-separated dates, of whatever type the column is, but
    not after ``name=``.
    """
    bare = path.removeprefix(f"{name}=")
    return bare.replace("/", "-") if config.slash_separated_dates and bare == path else bare


def _decoded(text: str) -> str:
    """The text with each escape ``%XX`` as the single character of that number, which is not UTF-8 above 7F."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def _cast_text(text: str, to_type: pa.DataType) -> "pa.Scalar[Any] | None":
    if text == _NULL_PARTITION:
        return pa.scalar(None, to_type)
    if pa.types.is_string(to_type):
        return pa.scalar(text, to_type)
    try:
        return pa.scalar(text, pa.string()).cast(to_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _value_in_files(text: str, to_type: pa.DataType, config: TableConfig) -> "pa.Scalar[Any] | None":
    # The null partition also holds empty strings, and other types may not be formatted as Arrow formats them. A slash
    # of slash-separated dates may be a slash or a hyphen in the files.
    exact = pa.types.is_string(to_type) or pa.types.is_integer(to_type) or pa.types.is_date32(to_type)
    if text == _NULL_PARTITION or not exact or config.slash_separated_dates:
        return None
    return _cast_text(_decoded(text) if config.url_encode_partitions else text, to_type)


def partition_guarantee(values: PartitionValues) -> pc.Expression:
    """An expression that is true for every row of a partition with these values."""
    guarantee = pc.scalar(True)  # noqa: FBT003 - a literal of the expression language
    for name, value in values:
        guarantee = guarantee & (pc.field(name) == value if value.is_valid else pc.field(name).is_null())
    return guarantee


def range_guarantee(
    column: str, least: "pa.Scalar[Any]", greatest: "pa.Scalar[Any]", *, may_be_null: bool
) -> pc.Expression:
    """An expression that is true for values of a column in a range, whose ends are null if there are only nulls."""
    field = pc.field(column)
    if not least.is_valid:
        return field.is_null()
    if may_be_null:
        # Arrow understands these forms.
        return ((field >= least) | field.is_null()) & ((field <= greatest) | field.is_null())
    return (field >= least) & (field <= greatest)


def paths_that_may_pass(
    storage: Storage, row_filter: pc.Expression, schema: pa.Schema, guarantees: Mapping[str, list[pc.Expression]]
) -> list[str]:
    """The paths with at least one guarantee under which a row may pass the filter.

    Arrow's partition pruning decides, given one fragment per guarantee; fragments are never opened.
    """
    parquet = ds.ParquetFileFormat()
    fragments = [
        parquet.make_fragment(path, storage.filesystem, partition_expression=guarantee)
        for path, alternatives in guarantees.items()
        for guarantee in alternatives
    ]
    dataset = ds.FileSystemDataset(fragments, schema, parquet, storage.filesystem)
    passing = {fragment.path for fragment in dataset.get_fragments(row_filter)}
    return [path for path in guarantees if path in passing]


def matching_partitions(
    storage: Storage,
    schema: pa.Schema,
    row_filter: pc.Expression | None,
    values: Mapping[str, PartitionValues],
) -> list[str]:
    """The paths of the partitions that may have rows passing the filter, given the values of all their rows by path."""
    if row_filter is None or not any(values.values()):
        return list(values)
    return _passing_in_steps(
        storage, row_filter, schema, values, _guarantee_of_all, lambda path_values: [partition_guarantee(path_values)]
    )


def _passing_in_steps(
    storage: Storage,
    row_filter: pc.Expression,
    schema: pa.Schema,
    facts: Mapping[str, Fact],
    of_all: Callable[[Sequence[Fact]], pc.Expression],
    of_one: Callable[[Fact], list[pc.Expression]],
) -> list[str]:
    """Paths whose rows may match the filter.

    ``facts`` are what the paths determine. ``of_all`` makes an expression that is true for all rows of several paths,
    ``of_one`` the alternatives for the rows of one path.
    """
    left = tuple(facts.items())
    if len(left) > _MOST_SINGLY:
        # Of many, most are ruled out together with their neighbours.
        parts = {str(start): left[start : start + _PATHS_PER_PART] for start in range(0, len(left), _PATHS_PER_PART)}
        ranges = {start: [of_all([fact for _, fact in part])] for start, part in parts.items()}
        passing = paths_that_may_pass(storage, row_filter, schema, ranges)
        left = tuple(chain.from_iterable(parts[start] for start in passing))
    return paths_that_may_pass(storage, row_filter, schema, {path: of_one(fact) for path, fact in left})


def _guarantee_of_all(parts: Sequence[PartitionValues]) -> pc.Expression:
    """An expression that is true for every row of several partitions: the ranges of their values."""
    guarantee = pc.scalar(True)  # noqa: FBT003 - a literal of the expression language
    by_name: dict[str, list[pa.Scalar[Any]]] = defaultdict(list)
    for name, value in chain.from_iterable(parts):
        by_name[name].append(value)
    for name, scalars in by_name.items():
        kind = scalars[0].type
        is_ordered = pa.types.is_string(kind) or pa.types.is_signed_integer(kind) or pa.types.is_date32(kind)
        if len(scalars) < len(parts) or not is_ordered:
            continue
        ends: Any = pc.min_max(pa.array(scalars, kind))
        may_be_null = not all(value.is_valid for value in scalars)
        guarantee = guarantee & range_guarantee(name, ends["min"], ends["max"], may_be_null=may_be_null)
    return guarantee


def folders_that_may_pass(
    storage: Storage,
    row_filter: pc.Expression,
    schema: pa.Schema,
    config: TableConfig,
    path_columns: tuple[str, ...],
    folders: Sequence[str],
) -> list[str]:
    """The folders, all of one level, below which a partition may have rows passing the filter."""
    values_below = _FolderParser(config, schema, path_columns)
    facts = {path: values_below.of(path) for path in folders}
    return _passing_in_steps(storage, row_filter, schema, facts, _guarantee_below_all, _guarantees_below)


class _FolderValues(NamedTuple):
    """What a folder determines for all partitions below it: values of columns, or prefixes of a text column's values.

    Each of ``starts`` ends with the slash or hyphen after which a value goes on.
    """

    values: PartitionValues
    starts: tuple[str, ...] = ()


class _FolderParser:
    """Parses the values that a folder's path determines for all partitions below it.

    A text value, or a formatted time, may contain slashes, so deeper folders may continue it. The first level is the
    first value or its prefix; deeper levels are certain only if no value can contain a slash. In a table with
    slash-separated dates, a slash may also be a hyphen of any value, and all levels of a single column are its value or
    a prefix.
    """

    def __init__(self, config: TableConfig, schema: pa.Schema, path_columns: tuple[str, ...]) -> None:
        fields, kinds = config.partition_fields, config.partition_field_kinds
        self._config = config
        self._first = replace(config, partition_fields=fields[:1], partition_field_kinds=kinds[:1])
        self._schema = schema
        self._path_columns = path_columns
        are_texts = [
            not schema.get_all_field_indices(name) or pa.types.is_string(schema.field(name).type) for name in fields
        ]
        self._is_first_text = are_texts[:1] == [True]
        self._has_hyphens = config.slash_separated_dates
        has_times = any(kind is not PartitionFieldKind.SIMPLE for kind in kinds)
        self._has_slashes = self._has_hyphens or ((any(are_texts) or has_times) and not config.url_encode_partitions)

    def of(self, path: str) -> _FolderValues:
        """The values for one folder."""
        fields, levels = self._config.partition_fields, path.split("/")
        if not path or not fields or (self._has_hyphens and not self._is_first_text):
            return _FolderValues(())
        if not self._has_slashes:
            return _FolderValues(self._values(path, self._config) if len(levels) == len(fields) else ())
        begin = path if self._has_hyphens and len(fields) == 1 else levels[0]
        first_value = self._values(begin, self._first)
        if not first_value or not self._is_first_text or not first_value[0][1].is_valid:
            return _FolderValues(first_value)
        (name, value) = first_value[0]
        texts = {value.as_py(), value_of_levels(begin, name, self._first)}
        ends = "/-" if self._has_hyphens else "/"
        return _FolderValues(first_value, tuple(sorted(f"{text}{end}" for text in texts for end in ends)))

    def _values(self, path: str, config: TableConfig) -> PartitionValues:
        return certain_values(path, config, self._schema, self._path_columns)


def _guarantees_below(below: _FolderValues) -> list[pc.Expression]:
    """Expressions; for every row below a folder, at least one is true."""
    guarantee = partition_guarantee(below.values)
    if not below.starts:
        return [guarantee]
    column = pc.field(below.values[0][0])
    return [guarantee, *((column >= start) & (column < _upper_bound(start)) for start in below.starts)]


def _guarantee_below_all(parts: Sequence[_FolderValues]) -> pc.Expression:
    """An expression that is true for every row below several folders."""
    if not any(below.starts for below in parts):
        return _guarantee_of_all([below.values for below in parts])
    if not all(below.starts for below in parts):
        return partition_guarantee(())
    # A value is one of the texts, or continues it after a slash or hyphen.
    starts = [start for below in parts for start in below.starts]
    column = pc.field(parts[0].values[0][0])
    return (column >= min(start[:-1] for start in starts)) & (column < max(_upper_bound(start) for start in starts))


def _upper_bound(start: str) -> str:
    """The least text that is greater than all texts with the prefix ``start``."""
    return start[:-1] + chr(ord(start[-1]) + 1)
