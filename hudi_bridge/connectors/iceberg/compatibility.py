"""Whether an Iceberg client reads the same rows from a base file as Hudi, and what is done if it does not.

Clients read other rows if a name belonged to another column when the file was written, or if a type changed in a way
that Iceberg does not allow. Slices with such base files are rewritten. A note tells whoever publishes a table which
clients misread it nevertheless.

Presto is a case of its own, as seen with the Iceberg connector of Presto 0.287:

- It ignores the name mapping. In a file without field ids it finds columns by name, and fields of structs in any file.
  It does not tell upper from lower case.
- It fails on fields of structs whose names have other signs than letters of ASCII, digits and _, or begin with a digit.
  Blanks around a name are cut, so that the field is null.
- It reads all snapshots of a table with the newest schema.
- It does not read a table with a column of type ``timestamptz``.
- It cuts a timestamp in a file to milliseconds, also where the table has a ``long``. It takes a ``timestamp`` for an
  instant, and shows it in the time zone of the session unless ``legacy_timestamp`` is false.
- It takes a ``time`` in microseconds for one in milliseconds.
- In a file that has no partition, the columns by which the others are partitioned are null.
- A condition fails on a column all of whose values in a row group are null, if it has a dictionary. One on a double
  that is 0.0 passes over -0.0.
- It does not read decimals of up to 18 digits as longer ones.

Source: the Iceberg specification, "Schema Evolution" and "Column Projection".
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Self

import pyarrow as pa

from hudi_bridge.connectors.iceberg.columns import Columns, Ids, names_to_ids, with_types
from hudi_bridge.connectors.iceberg.slice_files import Misread, SliceFiles
from hudi_bridge.engines import StoredBaseFile
from hudi_bridge.engines.stored_base_file import iter_fields
from hudi_bridge.errors import QueryError, UnsupportedTableError
from hudi_bridge.releases import FloatWidening
from hudi_bridge.schema.evolve import has_two_levels
from hudi_bridge.schema.file_columns import Outcome
from hudi_bridge.splits.split import RealtimeFileSplit

READ_OUTCOMES = (Outcome.READ, Outcome.CAST, Outcome.CHANGED_INSIDE)
"""A column with one of these has the values of a column of the file."""
_FIELD_ID = b"PARQUET:field_id"
_NOT_IN_PATHS = "?#"
# The only unit that Trino reads.
_UNIT_OF_ICEBERG = "us"

ArrowType = Any


def reason_to_rewrite(split: RealtimeFileSplit, base: StoredBaseFile, columns: Columns) -> str | None:
    """Why the base file has to be rewritten for all Iceberg clients; None if some can read it directly.

    Columns whose values come from the partition path are not compared with the values in the file. Lists and maps are
    judged by ``reason_unopened`` and ``reason_nested_misread``.
    """
    if any(sign in base.path for sign in _NOT_IN_PATHS):
        return "its path holds a sign that ends the path of a URI"
    if (reason := base.reason_unreadable()) is not None:
        return reason
    in_file = dict(base.fields())
    if any(field.metadata and _FIELD_ID in field.metadata for field in in_file.values()):
        return "its columns have ids of their own"
    by_hudi, reason = _read_by_hudi(split, base, in_file, columns)
    if reason is not None:
        return reason
    by_client = names_to_ids(columns.mapping, columns.schema)
    for path in _iter_mapped(in_file, by_client):
        if by_client.get(path) != by_hudi.get(path):
            return f"the name {path} means another column"
    return _why_cases_differ(in_file, by_client, by_hudi)


def _why_cases_differ(paths: Iterable[str], by_client: Ids, by_hudi: Ids) -> str | None:
    """Why a client that finds names ignoring case, as Trino does, would not read the file as Hudi; None if it would.

    Columns of the table that differ in nothing but case are left to clients that tell them apart.
    """
    ids_without_case: dict[str, set[int]] = {}
    for path, id_ in by_client.items():
        ids_without_case.setdefault(path.lower(), set()).add(id_)
    paths_without_case: dict[str, str] = {}
    for path in paths:
        other = paths_without_case.setdefault(path.lower(), path)
        if len(ids_without_case.get(path.lower(), ())) > 1:
            continue
        if other != path:
            return f"the names {other} and {path} differ in nothing but case"
        if not ids_without_case.get(path.lower(), set()) <= {by_hudi.get(path)}:
            return f"the name {path} means another column where case is ignored"
    return None


def _read_by_hudi(
    split: RealtimeFileSplit, base: StoredBaseFile, in_file: "Mapping[str, pa.Field[Any]]", columns: Columns
) -> tuple[Ids, str | None]:
    """The column id that Hudi reads each path of the file as, and why a client would read other values, if so."""
    in_query = dict(iter_fields(split.context.schema))
    by_hudi: dict[str, int] = {}
    for column in base.columns:
        if column.outcome in (Outcome.REFUSED, Outcome.MILLISECONDS, Outcome.NO_FIELD, Outcome.REBUILT):
            return by_hudi, str(column)
        if column.file_column is None or column.column is None or column.outcome not in READ_OUTCOMES:
            continue
        by_hudi[column.file_column] = columns.ids[column.column]
        source, target = in_file[column.file_column].type, in_query[column.column].type
        if not _same_values(source, target, split.context.float_widening):
            return by_hudi, f"column {column.column} is stored as {source}, not as {target}"
    return by_hudi, None


def reason_unopened(base: StoredBaseFile) -> str | None:
    """Why Trino opens the base file for no query, whatever columns are asked for; None if it does."""
    for path, field in base.fields():
        if pa.types.is_list(field.type) and has_two_levels(field.type) and pa.types.is_map(field.type.value_type):
            return f"the list {path} has two levels, and its elements are maps"
    return None


def reason_nested_misread(base: StoredBaseFile) -> str | None:
    """Why some clients misread lists or maps of the base file; None if all read them.

    Spark with Iceberg fails on lists of two levels, which parquet-avro writes by default. DuckDB finds elements, keys
    and values by the names that Iceberg gives to the groups: elsewhere (``bag`` in Spark's legacy format, ``array`` in
    two levels, ``map`` before Parquet 1.12) they are null.

    Source: the Iceberg specification, "Parquet"; Parquet's ``LogicalTypes.md``, "Lists" and "Maps".
    """
    leaves = [base.footer.schema.column(position).path.split(".") for position in range(base.footer.num_columns)]
    stored = {".".join(leaf[:end]) for leaf in leaves for end in range(1, len(leaf) + 1)}
    return next((reason for field in base.schema for reason in _iter_misnamed(field.name, field.type, stored)), None)


def _iter_misnamed(path: str, kind: ArrowType, stored: set[str]) -> Iterator[str]:
    """What is not named as in Iceberg at a path of a file and within it; ``stored`` has all paths of the file."""
    within: Sequence[tuple[str, ArrowType]] = ()
    if pa.types.is_struct(kind):
        within = [(f"{path}.{child.name}", child.type) for child in kind]
    elif pa.types.is_map(kind):
        within = [(f"{path}.key_value.key", kind.key_type), (f"{path}.key_value.value", kind.item_type)]
        if any(name not in stored for name, _ in within):
            yield "maps without key_value, key and value"
            return
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        within = [(f"{path}.list.{kind.value_field.name}", kind.value_type)]
        if within[0][0] not in stored:
            yield "lists of two levels" if has_two_levels(kind) else "lists without the group list"
            return
    for inner, inner_kind in within:
        yield from _iter_misnamed(inner, inner_kind, stored)


def _same_values(source: ArrowType, target: ArrowType, float_widening: FloatWidening) -> bool:
    """Whether a client that reads ``source`` as ``target`` gets the same values as Hudi."""
    if pa.types.is_fixed_size_list(target):
        return False
    if pa.types.is_nested(target):
        return True
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        return source.unit == _UNIT_OF_ICEBERG and (source.tz is None) == (target.tz is None)
    if pa.types.is_decimal128(source) and pa.types.is_decimal128(target):
        return bool(source.scale == target.scale and source.precision <= target.precision)
    if pa.types.is_time32(source):
        return False
    if (source, target) == (pa.float32(), pa.float64()):
        return float_widening is FloatWidening.EXACT
    return bool(source == target) or (source, target) == (pa.int32(), pa.int64())


def _iter_mapped(paths: Iterable[str], by_client: Ids) -> Iterator[str]:
    """The paths without those inside fields that are not in the name mapping: clients skip such fields whole."""
    for path in paths:
        parents = path.split(".")[:-1]
        if all(".".join(parents[: end + 1]) in by_client for end in range(len(parents))):
            yield path


_READ_FIELD = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_MOST_DIGITS_IN_64_BITS = 18
"""Presto holds longer decimals in another type."""


def schema_for_presto(schema: pa.Schema, *, cut_times: bool) -> pa.Schema:
    """The schema with the types that a table for Presto has.

    Times of day are numbers of microseconds; timestamps are of type ``timestamp``, in UTC, if they are stored in
    milliseconds, and otherwise numbers of microseconds since 1970. With ``cut_times``, all are of type ``timestamp``.

    Raises:
        UnsupportedTableError: names of columns differ in nothing but case, or fields of structs have names that Presto
            does not read.
    """
    within = [(path, field.type) for path, field in iter_fields(schema) if pa.types.is_struct(field.type)]
    fields = [(path, struct.field(position).name) for path, struct in within for position in range(struct.num_fields)]
    if unread := [f"{path}.{name}" for path, name in fields if not _READ_FIELD.fullmatch(name)]:
        raise UnsupportedTableError("fields for Presto", ", ".join(unread), "names of ASCII letters, digits and _")
    names = [path for path, _ in iter_fields(schema)]
    counts = Counter(name.lower() for name in names)
    if twins := [name for name in names if counts[name.lower()] > 1]:
        raise UnsupportedTableError("columns for Presto", ", ".join(twins), "names that differ in more than case")

    def in_presto(kind: ArrowType) -> ArrowType:
        if pa.types.is_time(kind) or (_has_microseconds(kind) and not cut_times):
            return pa.int64()
        return pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) else kind

    return with_types(schema, in_presto)


def why_presto_misreads(base: StoredBaseFile, columns: Columns) -> str | None:
    """Why Presto gets other rows from a base file than clients that know the name mapping; None if it does not."""
    in_file = dict(base.fields())
    by_lower_case = {path.lower(): path for path in in_file}
    if len(by_lower_case) < len(in_file):
        return "the file has names that differ in nothing but case"
    by_hudi = {column.column: column.file_column for column in base.columns if column.outcome in READ_OUTCOMES}
    for path, field in iter_fields(columns.arrow):
        stored = by_lower_case.get(path.lower())
        if stored != by_hudi.get(path):
            return f"column {path} is {by_hudi.get(path) or 'not'} in the file"
        if stored is not None and (reason := _why_misread(path, in_file[stored].type, field.type)) is not None:
            return reason
    return None


def _why_misread(path: str, stored: ArrowType, shown: ArrowType) -> str | None:
    if pa.types.is_timestamp(stored) and not pa.types.is_timestamp(shown):
        return f"the file has timestamps in {path}"
    if pa.types.is_decimal128(stored) and stored.precision <= _MOST_DIGITS_IN_64_BITS < shown.precision:
        return f"column {path} has {stored.precision} digits in the file"
    return None


def misread_types(schema: pa.Schema) -> Iterator[str]:
    """What Presto makes of columns of a table that was not written for it."""
    if zoned := _paths(schema, lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None):
        yield f"reads no table with a timestamp with time zone ({zoned})"
    elif cut := _paths(schema, _has_microseconds):
        yield f"cuts timestamps to milliseconds ({cut})"
    if times := _paths(schema, pa.types.is_time):
        yield f"misreads times of day ({times})"


def types_for_presto(schema: pa.Schema, *, cut_times: bool) -> Iterator[str]:
    """Notes on columns that a table for Presto has in another form; ``schema`` is Hudi's."""
    if cut := _paths(schema, _has_microseconds):
        if cut_times:
            yield f"Presto cuts these timestamps to milliseconds: {cut}"
        else:
            yield f"for Presto, these timestamps are numbers of microseconds since 1970 (--cut-times): {cut}"
    if times := _paths(schema, pa.types.is_time):
        yield f"for Presto, these times of day are numbers of microseconds: {times}"


def _has_microseconds(kind: ArrowType) -> bool:
    return pa.types.is_timestamp(kind) and kind.unit == "us"


def _paths(schema: pa.Schema, is_meant: Callable[[ArrowType], bool]) -> str:
    return ", ".join(path for path, field in iter_fields(schema) if is_meant(field.type))


_PERCENT = 100


class IcebergClient(StrEnum):
    """A client that tables can be written for, because it misreads them otherwise."""

    PRESTO = "presto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting:
    """Which slices are rewritten, and for whom.

    Base files whose lists or maps some clients misread are copied. ``lists_as_stored``: only those that Trino does not
    open. ``above``: slices are rewritten whose logs delete or replace more than this share of the base rows, from 0 to
    1, so that clients need not look up deletes for each row; None for no slice. ``client``: those that this client
    misreads; its table has the types that it reads right. ``cut_times``: for ``client``, timestamps are of type
    ``timestamp`` although it cuts their microseconds.
    """

    lists_as_stored: bool = False
    above: float | None = None
    client: IcebergClient | None = None
    cut_times: bool = False

    @classmethod
    def of(
        cls,
        *,
        lists_as_stored: bool,
        above_percent: float | None,
        client: str | None = None,
        cut_times: bool = False,
    ) -> Self:
        """The options of a user.

        Raises:
            QueryError: ``above_percent`` is not between 0 and 100, ``client`` is not known, or ``cut_times`` is without
                ``client``.
        """
        if above_percent is not None and not 0 <= above_percent <= _PERCENT:
            raise QueryError("--rewrite-above", str(above_percent), "a number from 0 to 100")
        if client is not None and client not in set(IcebergClient):
            raise QueryError("--for", client, ", ".join(IcebergClient))
        if cut_times and client is None:
            raise QueryError("--cut-times", "no --for", "--for presto, whose timestamps have milliseconds")
        above = None if above_percent is None else above_percent / _PERCENT
        known_client = None if client is None else IcebergClient(client)
        return cls(lists_as_stored=lists_as_stored, above=above, client=known_client, cut_times=cut_times)

    def is_due(self, deleted: int, rows: int) -> bool:
        """Whether ``deleted`` of the ``rows`` of a base file are too many."""
        return self.above is not None and deleted > self.above * rows


class Misreader(StrEnum):
    """Clients that misread some base files, as a note names them."""

    OF_LISTS = "DuckDB 1.5 or Spark"
    PRESTO = "Presto 0.287"


_REMEDIES = {Misreader.OF_LISTS: "leaving out --lists-as-stored", Misreader.PRESTO: "--for presto"}


def misread_by(base: StoredBaseFile, columns: Columns) -> Misread:
    """Which clients misread a base file that others read as Hudi does; its footer is read already."""
    reasons: dict[str, str] = {}
    if (lists := reason_nested_misread(base)) is not None:
        reasons[Misreader.OF_LISTS] = lists
    if (reason := why_presto_misreads(base, columns)) is not None:
        reasons[Misreader.PRESTO] = reason
    return reasons


def notes_on(
    schema: pa.Schema, slices: Sequence[SliceFiles], partition_columns: Sequence[str], rewriting: Rewriting
) -> tuple[str, ...]:
    """What to say about a snapshot with this schema of Hudi, these files and these columns of partitions."""
    copied = notes_on_copies(slices, rewriting)
    if rewriting.client is IcebergClient.PRESTO:
        return (*copied, *types_for_presto(schema, cut_times=rewriting.cut_times))
    reports: dict[Misreader, list[str]] = {client: [] for client in Misreader}
    reports[Misreader.PRESTO] += misread_types(schema)
    outside = sum(file.partition is None for files in slices for file in files.data)
    if partition_columns and outside:
        reports[Misreader.PRESTO].append(
            f"reads {', '.join(partition_columns)} as null in {_files(outside, 'data file')}"
        )
    for client in Misreader:
        if reasons := [files.misread[client] for files in slices if client in files.misread]:
            reports[client].append(f"misreads {_files(len(reasons), 'base file')} ({min(reasons)})")
    misread = (
        f"{client}: {'; '.join(what)}; {_REMEDIES[client]} mends this" for client, what in reports.items() if what
    )
    return (*copied, *misread)


def notes_on_copies(slices: Sequence[SliceFiles], rewriting: Rewriting) -> tuple[str, ...]:
    """What to say of base files that were written anew because of their lists or maps, if there are any."""
    copies = sum(files.base_copy is not None for files in slices)
    if not copies or rewriting.lists_as_stored:
        return ()
    reason = f"{_files(copies, 'base file')} written anew, as {Misreader.OF_LISTS} would misread lists or maps"
    return (f"{reason}; --lists-as-stored leaves those that Trino and PyIceberg read",)


def _files(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class FormatVersion(IntEnum):
    """A version of the table format: ``V2`` has position-delete files, ``V3`` deletion vectors and ids of rows."""

    V2 = 2
    V3 = 3

    @classmethod
    def of(cls, number: int, client: IcebergClient | None = None) -> Self:
        """The version of a number, for all clients or one.

        Raises:
            QueryError: there is no such version here, or the client cannot read it.
        """
        if number not in set(cls):
            raise QueryError("--format-version", str(number), "2 or 3")
        if client is not None and number != cls.V2:
            raise QueryError("--format-version", f"{number} with --for {client}", f"2, which is what {client} reads")
        return cls(number)
