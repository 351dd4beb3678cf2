"""Lists partitions, prunes them by a filter, and reads partition columns from paths.

A partition is a folder with a file ``.hoodie_partition_metadata``. A folder whose values cannot pass is not listed.

Source: ``HoodiePartitionMetadata``, ``HoodieSparkUtils.parsePartitionColumnValues`` and Spark's partition discovery.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.config import HOODIE_FOLDER, PartitionFieldKind, QueryType, TableConfig
from hudi_bridge.errors import CorruptTableError, StorageError
from hudi_bridge.imported_later import ds
from hudi_bridge.splits.plan_notes import PARTITION_CONDITION, PARTITIONS, PlanNotes
from hudi_bridge.storage import FileInfo, Storage
from hudi_bridge.threads import map_in_threads
from hudi_bridge.timeline.table_state import TableState

PARTITION_METADATA = ".hoodie_partition_metadata"
"""How the name of the file begins that makes a folder a partition."""
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
LISTING_THREADS = 16
"""The number of folders that are listed at the same time."""
# Links to a parent folder multiply folders from level to level.
_USUAL_LEVELS = 12
_MOST_DEEP_FOLDERS = 1000
_MOST_SINGLY = 256
"""So many partitions are checked one by one. Of more, parts of the list are ruled out first."""
_PATHS_PER_PART = 64

PartitionValues: TypeAlias = "tuple[tuple[str, pa.Scalar[Any]], ...]"
"""Names and values of partition columns, in the order of the partition fields."""


def columns_from_path(config: TableConfig, query_type: QueryType) -> tuple[str, ...]:
    """The partition columns that are read from the partition path instead of the files.

    A snapshot query reads them from the path in Hudi 1.x, and before it only if the files do not have them. A
    read-optimized query always reads them from the path, except that 1.x reads a time formatted by the key generator
    from the files.
    """
    if query_type is QueryType.READ_OPTIMIZED and not config.written_by_1x:
        return config.partition_fields
    # The files that a table was bootstrapped from need not have partition columns.
    reads_path = config.written_by_1x or config.drops_partition_columns or config.bootstrap_base_path is not None
    if _formats_values(config) or not reads_path:
        return ()
    return config.partition_fields


def _formats_values(config: TableConfig) -> bool:
    return PartitionFieldKind.TIMESTAMP in config.partition_field_kinds


def partition_values(
    path: str, config: TableConfig, schema: pa.Schema, path_columns: tuple[str, ...], *, encoded: bool = False
) -> "PartitionValues | None":
    """The values of the partition columns in a path; None if the path does not determine them.

    If there is a single partition column, a path of several levels is its value as a whole. For ``path_columns``, a
    level may be ``name=value`` whatever the table's property for it says, as in Hudi; ``encoded`` leaves their values
    undecoded.
    """
    fields = config.partition_fields
    if not fields:
        return ()
    levels = path.split("/")
    if len(levels) != len(fields):
        if len(fields) > 1:
            return None
        levels = [path]
    values = []
    for name, level in zip(fields, levels, strict=True):
        index = schema.get_field_index(name)
        to_type = schema.field(index).type if index >= 0 else pa.string()
        if name in path_columns:
            bare = level.partition("=")[2] if "=" in level and "/" not in level else level.removeprefix(f"{name}=")
            value = _typed(bare if encoded else unquote(bare), to_type)
        else:
            value = _value_in_files(
                level.removeprefix(f"{name}=") if config.hive_style_partitioning else level, to_type, config
            )
        if value is None:
            return None
        values.append((name, value))
    return tuple(values)


def _typed(text: str, to_type: pa.DataType) -> "pa.Scalar[Any] | None":
    if text == _NULL_PARTITION:
        return pa.scalar(None, to_type)
    if pa.types.is_string(to_type):
        return pa.scalar(text, to_type)
    try:
        return pa.scalar(text, pa.string()).cast(to_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _value_in_files(text: str, to_type: pa.DataType, config: TableConfig) -> "pa.Scalar[Any] | None":
    # The null partition also holds empty strings, and other types may not be formatted as Arrow formats them.
    exact = pa.types.is_string(to_type) or pa.types.is_integer(to_type) or pa.types.is_date32(to_type)
    if text == _NULL_PARTITION or not exact or _formats_values(config):
        return None
    return _typed(unquote(text) if config.url_encode_partitions else text, to_type)


def partition_guarantee(values: PartitionValues) -> pc.Expression:
    """An expression that is true for every row of a partition with these values."""
    guarantee = pc.scalar(True)  # noqa: FBT003 - a literal of the expression language
    for name, value in values:
        guarantee = guarantee & (pc.field(name) == value if value.is_valid else pc.field(name).is_null())
    return guarantee


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
    kept = {fragment.path for fragment in dataset.get_fragments(row_filter)}
    return [path for path in guarantees if path in kept]


class _FolderNames:
    """The folders to list, each under one path: links may lead to a folder with another path, or to a parent."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._root = storage.real_path("")
        self._real = {"": self._root}
        self._seen = {self._root}
        self._links: list[str] = []

    def new(self, parent: str, folders: Iterable[str]) -> list[str]:
        """The ``folders`` in ``parent`` that are not links; links are kept for ``new_links``."""
        found = []
        for path in folders:
            if self._storage.is_link(path):
                self._links.append(path)
                continue
            real = f"{self._real[parent]}/{path.rpartition('/')[2]}"
            if real not in self._seen:
                found.append(path)
                self._seen.add(real)
                self._real[path] = real
        return found

    def new_links(self) -> list[str]:
        """The links so far to folders that have no other path in the table and do not contain the table."""
        found = []
        for path in self._links:
            target = self._storage.real_path(path)
            if target not in self._seen and not self._root.startswith(f"{target.rstrip('/')}/"):
                found.append(path)
                self._seen.add(target)
                self._real[path] = target
        self._links = []
        return found


def list_partitions(
    state: TableState,
    schema: pa.Schema,
    path_columns: tuple[str, ...],
    row_filter: pc.Expression | None,
    list_directory: Callable[[str], Sequence[FileInfo]],
    notes: PlanNotes | None = None,
) -> list[str]:
    """The paths of the partitions that may have rows passing the filter.

    A folder is listed once: under its own path, or under a link if it has no other path in the table.

    Raises:
        StorageError: a folder cannot be listed.
    """
    storage, config = state.storage, state.config
    look_into = partial(_folders_below, storage, list_directory)
    found: list[str] = []
    names = _FolderNames(storage)
    level, depth, ruled_out = [""], 0, 0
    while level:
        if row_filter is not None:
            possible = [_possible_values(path, config, schema, path_columns) for path in level]
            ruled_out += len(level)
            level = paths_that_may_pass(storage, row_filter, schema, dict(zip(level, possible, strict=True)))
            ruled_out -= len(level)
        folders: list[str] = []
        for path, below in zip(level, map_in_threads(look_into, level, LISTING_THREADS), strict=True):
            if below is None:
                found.append(path)
            else:
                folders += names.new(path, below)
        level, depth = folders or names.new_links(), depth + 1
        if depth > _USUAL_LEVELS and len(level) > _MOST_DEEP_FOLDERS:
            found_folders = f"{len(level)} folders {depth} levels deep"
            raise CorruptTableError(level[0], None, found_folders, "partitions; do links lead back up?")
    passing = found
    if row_filter is not None and found:
        known = {path: partition_values(path, config, schema, path_columns) for path in found}
        passing = matching_partitions(storage, schema, row_filter, known)
    if notes is not None:
        notes.counted(PARTITION_CONDITION, ruled_out + len(found), len(passing), PARTITIONS)
    return passing


def _folders_below(
    storage: Storage, list_directory: Callable[[str], Sequence[FileInfo]], path: str
) -> list[str] | None:
    """The folders in a folder, None if it is a partition, whose folders are ignored."""
    listing = list_directory(path)
    if not path and all(info.path != HOODIE_FOLDER for info in listing):
        raise StorageError(storage.shown_path, "list", f"the listing lacks {HOODIE_FOLDER}, which was read")
    if any(info.name.startswith(PARTITION_METADATA) for info in listing):
        return None
    return [info.path for info in listing if info.is_dir and not info.name.startswith(".")]


def matching_partitions(
    storage: Storage,
    schema: pa.Schema,
    row_filter: pc.Expression | None,
    values: "Mapping[str, PartitionValues | None]",
) -> list[str]:
    """The paths of the partitions that may have rows passing the filter, given the partition values by path."""
    if row_filter is None or not values:
        return list(values)
    left = tuple(values.items())
    if len(left) > _MOST_SINGLY:
        # Of many partitions, most are ruled out together with their neighbours.
        parts = {str(start): left[start : start + _PATHS_PER_PART] for start in range(0, len(left), _PATHS_PER_PART)}
        ranges = {start: [_guarantee_of_all([known or () for _, known in part])] for start, part in parts.items()}
        left = tuple(
            chain.from_iterable(parts[start] for start in paths_that_may_pass(storage, row_filter, schema, ranges))
        )
    guarantees = {path: [partition_guarantee(known or ())] for path, known in left}
    return paths_that_may_pass(storage, row_filter, schema, guarantees)


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
        ends: Any = pc.min_max(pa.array([value.as_py() for value in scalars], kind))
        column = pc.field(name)
        if not ends["min"].is_valid:
            within = column.is_null()
        elif all(value.is_valid for value in scalars):
            within = (column >= ends["min"]) & (column <= ends["max"])
        else:
            within = ((column >= ends["min"]) & (column <= ends["max"])) | column.is_null()
        guarantee = guarantee & within
    return guarantee


def _possible_values(
    path: str, config: TableConfig, schema: pa.Schema, path_columns: tuple[str, ...]
) -> list[pc.Expression]:
    """Guarantees, at least one of which holds for every row below a folder.

    A text value may contain slashes, so deeper folders may continue it. The first level is the first value or its
    prefix; deeper levels are certain only if no value can contain a slash.
    """
    fields, levels = config.partition_fields, path.split("/")
    if not path or not fields:
        return [partition_guarantee(())]
    texts = [name for name in fields if schema.get_field_index(name) < 0 or pa.types.is_string(schema.field(name).type)]
    if config.url_encode_partitions or not texts:
        values = partition_values(path, config, schema, path_columns) if len(levels) == len(fields) else None
        return [partition_guarantee(values or ())]
    first = replace(config, partition_fields=fields[:1], partition_field_kinds=config.partition_field_kinds[:1])
    known = partition_values(levels[0], first, schema, path_columns)
    if not known:
        return [partition_guarantee(())]
    (name, value) = known[0]
    if name not in texts or not value.is_valid:
        return [partition_guarantee(known)]
    starts = {value.as_py(), levels[0].removeprefix(f"{name}=")}
    return [
        partition_guarantee(known),
        *((pc.field(name) >= f"{start}/") & (pc.field(name) < f"{start}0") for start in sorted(starts)),
    ]
