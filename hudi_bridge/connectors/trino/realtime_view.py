"""The query behind the realtime view of a publication.

It is the union of two parts:

* the base rows, joined with their log records. Rows without a log record are not changed; rows whose log record always
  wins are left out. The others are contested: SQL compares ordering values and picks the side of each field, or a
  Python function calls a user's payload for batches of rows. In that case, the base files are read three times.
* the log records that are not contested, and the rows of slices that are published whole.

Two more parts have no rows. They fail if a file of the publication is missing, whose rows would otherwise be left out
silently.

Within the query, columns are named by position (``c0``, ``c1``), so that they cannot clash with names of the query.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from hudi_bridge.common.caching import cached_property
from hudi_bridge.connectors.trino.compatibility import LogColumns
from hudi_bridge.connectors.trino.conditions import base_key, base_unset, log_wins
from hudi_bridge.connectors.trino.functions import (
    MERGE,
    passed_pair_type,
    passed_schema,
    passed_value,
)
from hudi_bridge.connectors.trino.publication import LOG, SLICES, Publication, PublishedSlice, path_columns
from hudi_bridge.connectors.trino.slice_content import batch
from hudi_bridge.connectors.trino.sql_types import (
    Dialect,
    ObjectNames,
    from_returned,
    identifier,
    literal,
    shown,
    stored_type,
)
from hudi_bridge.merge.arrays import ordering_path
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.merge.fold import fills_earlier
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.schema.meta_columns import META_COLUMNS

BASE = "base"
PARTITION_PATH = "_hoodie_partition_path"
_PATH = identifier("$path")
_SAME_RECORD = "l.place = b.place AND l.record_key = b.record_key"
_FLAGS = ("contested", "delete", "explicit", "always")
MOST_NAMES_LENGTH = 800_000
"""The longest list of file names in a view, in characters. Presto's ``query.max-length`` is a million by default."""


HEEDED_BY_VIEW = frozenset(
    {
        "after_row",
        "after_delete",
        "after_unordered_delete",
        "over_base_row",
        "nulls_as_zero",
        "marked_in_logs",
        "flag_deletes_base",
        "orders_as_0x",
        "ordering_fields",
        "delete_marker",
        "fill",
        "fills_in_logs",
        "newest_meta",
        "payload",
        "sequences_against_base",
        "equal_sequences_keep_base",
        "sequences_in_logs",
    }
)
"""The behaviours of rules that the query heeds; among log records, the publication has merged them."""


@dataclass(frozen=True, kw_only=True)
class RealtimeView:
    """Builds the query.

    ``base_table`` is a table of the rows of the latest base files; if it is None, the query reads the external table
    over all base files, and the publication selects the latest ones. ``merges_fields`` is whether contested rows may
    have fields of both sides, or ordering values within texts. ``slices`` are those of the publication for Presto, None
    for others.

    Trino learns from the publication's table which files to open. Presto opens all files of a table but those that a
    condition on their name leaves out: the text names the base files, and those of the log as far as there is room.
    """

    publication: Publication
    names: ObjectNames
    dialect: Dialect
    base_table: str | None
    merges_fields: bool
    slices: tuple[PublishedSlice, ...] | None = None

    parts_with_files: ClassVar[tuple[str, ...]] = (BASE, LOG)

    @cached_property
    def _columns(self) -> LogColumns:
        return self.publication.columns

    @cached_property
    def _schema(self) -> pa.Schema:
        return self.publication.context.schema

    def query(self) -> str:
        """The SQL text of the query."""
        rule = self.publication.context.merge_rule
        if rule is not None and self.publication.contested:
            base_rows = self._merged_base_rows(rule)
        else:
            base_rows = self._untouched(rule)
        parts = [base_rows, self._uncontested()]
        if self.base_table is None:
            parts += [self._missing_publication(), self._missing_files()]
        named = f"WITH\n{self._slice()},\n{self._base()},\n{self._log()}\n"
        return named + "\nUNION ALL\n".join(parts)

    def _slice(self) -> str:
        """The file slices of the publication."""
        columns = ["number", "base_uri", "log_uri", "log_file"]
        columns += path_columns(self.publication.context).values()
        published = f"{self.names.of_part(SLICES)}\n  WHERE publication = {literal(self.publication.publication)}"
        return named("slice", columns, published)

    def _base(self) -> str:
        """The base rows."""
        context = self.publication.context
        key = self._field_key("b") or base_key(context, "b") if context.merge_rule else "CAST(NULL AS varchar)"
        if self.base_table is None:
            from_path = {} if self._has_path_in_files else path_columns(context)
            partition, source = "slice.number", f"{self.names.of_part(BASE)} b JOIN slice ON b.{_PATH} = slice.base_uri"
            source += self._where_named("b", BASE)
        else:
            from_path = {}
            partition, source = f"b.{identifier(PARTITION_PATH)}", f"{self.base_table} b"
        columns = (
            f"slice.{from_path[name]} AS c{position}" if name in from_path else f"b.{identifier(name)} AS c{position}"
            for position, name in enumerate(self._schema.names)
        )
        return named("base", (f"{partition} AS place", f"{key} AS record_key", *self._path_of("b"), *columns), source)

    def _log(self) -> str:
        """The published rows."""
        own = self._columns
        partition = "slice.number" if self.base_table is None else f"l.{identifier(own.partition)}"
        key = self._field_key("l") or f"l.{identifier(own.key)}"
        columns = [f"{partition} AS place", f"{key} AS record_key", *self._path_of("l")]
        columns += [f"l.{identifier(getattr(own, name))} AS is_{name}" for name in _FLAGS]
        columns.append(f"l.{identifier(own.unset)} AS unset")
        columns += [f"l.{identifier(name)} AS o{position}" for position, name in enumerate(own.ordering)]
        columns += [f"l.{identifier(name)} AS c{position}" for position, name in enumerate(self._schema.names)]
        by_path, by_name = f"l.{_PATH} = slice.log_uri", f"l.{identifier(own.file)} = slice.log_file"
        of_slice = by_path if self.base_table is None else by_name
        return named(
            "log", columns, f"{self.names.of_part(LOG)} l JOIN slice ON {of_slice}{self._where_named('l', LOG)}"
        )

    def _field_key(self, alias: str) -> str | None:
        """The record key field to join by; None if it has to be the record key.

        That it finds the same log records is known of file slices; the place of a base table is a whole partition.
        """
        name = self.publication.key_field
        return None if name is None or self.base_table is not None else f"{alias}.{identifier(name)}"

    def _path_of(self, alias: str) -> tuple[str, ...]:
        return () if self.slices is None else (f"{alias}.{_PATH} AS path",)

    @property
    def _has_path_in_files(self) -> bool:
        """Whether base files hold the columns of the path: Presto then prunes by conditions on them."""
        return self.slices is not None and all(
            published.path_in_file for published in self.slices if published.base_uri is not None
        )

    @cached_property
    def _file_lists(self) -> Mapping[str, str]:
        """The lists of files that the text names, by part; a part without a list is read as far as a join finds it."""
        lists: dict[str, str] = {}
        for part in (BASE, LOG) if self.slices is not None else ():
            uris = [published.base_uri if part == BASE else published.log_uri for published in self.slices or ()]
            text = ", ".join(literal(uri) for uri in uris if uri is not None)
            if sum(map(len, lists.values())) + len(text) <= MOST_NAMES_LENGTH:
                lists[part] = text
        return lists

    def _where_named(self, alias: str, part: str) -> str:
        """The condition that leaves out all files that the text does not name."""
        names = self._file_lists.get(part)
        if names is None:
            return ""
        return f"\n  WHERE {alias}.{_PATH} IN ({names})" if names else "\n  WHERE FALSE"

    def _shown(self, alias: str) -> str:
        """The columns of the view, from rows in the stored types."""
        return ",\n  ".join(
            f"{self._shown_value(alias, position)} AS {identifier(field.name)}"
            for position, field in enumerate(self._schema)
        )

    def _untouched(self, rule: MergeRule | None) -> str:
        if rule is None:
            return f"SELECT\n  {self._shown('b')}\nFROM base b"
        return (
            f"SELECT\n  {self._shown('b')}\nFROM base b\n"
            "LEFT JOIN (SELECT place, record_key FROM log WHERE record_key IS NOT NULL) r\n"
            "  ON r.place = b.place AND r.record_key = b.record_key\n"
            "WHERE r.record_key IS NULL"
        )

    def _uncontested(self) -> str:
        return f"SELECT\n  {self._shown('l')}\nFROM log l\nWHERE NOT l.is_contested AND NOT l.is_delete"

    def _merged_base_rows(self, rule: MergeRule) -> str:
        """The base rows; contested ones are merged with their log records."""
        rule.require_heeded(HEEDED_BY_VIEW, "the SQL of a view")
        if rule.payload is not None:
            return f"{self._untouched(rule)}\nUNION ALL\n{self._combined(rule.payload)}"
        return self._merged(rule)

    def _merged(self, rule: MergeRule) -> str:
        """Base rows, where SQL compares ordering values to pick the side of contested ones, or of their fields."""
        base, log = self._ordering(rule)
        wins = f"l.record_key IS NOT NULL AND {log_wins(rule, self._columns, self.dialect, base, log)}"
        picked = (self._pick(position, self._from_log(rule, position)) for position in self._positions)
        needed = "l.record_key,\n    l.is_delete,\n    l.unset" if self.merges_fields else "l.is_delete"
        return (
            f"SELECT\n  {self._picked_columns(picked)}\nFROM (\n"
            f"  SELECT\n    {self._sides()},\n    {needed},\n    {wins} AS wins\n  {self._join()}\n) m\n"
            "WHERE NOT (m.wins AND m.is_delete)"
        )

    def _from_log(self, rule: MergeRule, position: int) -> str:
        """The condition that a field of a base row comes from its log record.

        If fields are merged, one that is unset in the winner comes from the loser, unless the log record is a delete.
        By some rules, a field of a base row that wins stays.

        Source: ``PartialUpdateHandler`` of Hudi 1.x.
        """
        if not self.merges_fields:
            return "m.wins"
        field = self._schema.field(position)
        if rule.newest_meta and field.name in META_COLUMNS:
            return "NOT m.is_delete AND m.record_key IS NOT NULL"
        unset = "FALSE"
        if rule.fill is not None and fills_earlier(rule):
            default = self.publication.context.defaults.get(field.name)
            unset = base_unset(field, f"m.b{position}", rule, default, self._columns, self.dialect)
        is_set = f"NOT COALESCE(m.unset[{position + 1}], FALSE)"
        if unset == "FALSE":
            return f"NOT m.is_delete AND m.wins AND {is_set}"
        return f"NOT m.is_delete AND CASE WHEN m.wins THEN {is_set} ELSE m.record_key IS NOT NULL AND {unset} END"

    def _combined(self, payload: RecordPayload) -> str:
        """The merged rows of contested ones, where a function merges both sides of a batch of rows.

        The function gets the columns that the payload touches, and says of the others which side they are from. These
        are read again and joined with its answers, so that batches hold no others, and none that a query does not need.
        """
        passed = passed_schema(self._schema, payload)
        places = [self._schema.get_field_index(name) for name in passed.names]
        rows = (
            f"ROW({', '.join(passed_value(value, field.type) for value, field in zip(values, passed, strict=True))})"
            for values in ([self._shown_value(alias, index) for index in places] for alias in ("b", "l"))
        )
        pair = f"CAST(ROW({', '.join(rows)}) AS {passed_pair_type(passed)})"
        columns = ",\n  ".join(
            f"{value} AS {identifier(field.name)}"
            for value, field in zip(self._from_payload(places), self._schema, strict=True)
        )
        contested = f"base b JOIN log l ON {_SAME_RECORD}"
        merged = (
            "(\n  SELECT u.place, u.record_key, u.sides, u.merged\n  FROM (\n"
            f"    SELECT array_agg(ROW(b.place, b.record_key, {pair})) AS rows\n"
            f"    FROM {contested}\n    WHERE l.is_contested\n"
            f"    GROUP BY {batch(self._schema, passed, self.publication.contested)}\n"
            f"  ) g CROSS JOIN UNNEST(\n    g.rows,\n"
            f"    {self.names.of_part(MERGE)}(transform(g.rows, r -> r[3]))\n"
            "  ) AS u(place, record_key, pair, sides, merged)\n  WHERE u.sides IS NOT NULL\n) m"
        )
        if len(passed) == len(self._schema):
            return f"SELECT\n  {columns}\nFROM {merged}"
        return (
            f"SELECT\n  {columns}\nFROM {contested}\nJOIN {merged} ON m.place = b.place AND m.record_key = b.record_key"
        )

    def _from_payload(self, passed: list[int]) -> Iterator[str]:
        """The values of the columns, where those at the positions ``passed`` are given by the function."""
        mark = 0
        for position in self._positions:
            if position in passed:
                yield from_returned(f"m.merged.c{passed.index(position)}", self._schema.field(position).type)
                continue
            mark += 1
            sides = (f"WHEN {literal(side)} THEN {self._shown_value(side, position)}" for side in ("b", "l"))
            yield f"CASE substr(m.sides, {mark}, 1) {' '.join(sides)} END"

    def _missing_publication(self) -> str:
        """No rows, and an error if slices of the publication are missing."""
        counted = "(SELECT count(*) AS slices FROM slice) n"
        expected = self.publication.slices
        what = f"CAST(n.slices AS varchar) || {literal(f' of {expected} file slices')}"
        return self._failing(f"n.slices < {expected}", what, counted, {})

    def _missing_files(self) -> str:
        """No rows, and an error that names a missing file of the publication.

        A file is found by the paths of its rows: each file has rows.
        """
        if self.slices is None:
            paths = [f"SELECT {_PATH} AS path FROM {self.names.of_part(part)}" for part in self.parts_with_files]
        else:
            paths = ["SELECT path FROM base", "SELECT path FROM log"]
        every = " UNION ALL ".join(paths)
        groups = path_columns(self.publication.context)
        columns = ", ".join(("u.uri", *(f"slice.{name}" for name in groups.values())))
        # The right side becomes a dynamic filter on the paths, so that no other files are read.
        files = (
            f"(\n    SELECT DISTINCT path FROM ({every})\n  ) found\n  RIGHT JOIN (\n"
            f"    SELECT {columns}\n    FROM slice CROSS JOIN UNNEST(ARRAY[slice.base_uri, slice.log_uri]) AS u(uri)\n"
            "    WHERE u.uri IS NOT NULL\n  ) wanted ON found.path = wanted.uri"
        )
        return self._failing("found.path IS NULL", "wanted.uri", files, groups)

    def _failing(self, condition: str, what: str, source: str, groups: Mapping[str, str]) -> str:
        """A part without rows that fails if the condition holds; ``what`` is the SQL text of what is missing.

        Its columns are computed from the failure, so that filters on the view cannot skip the check. Only filters on
        columns of ``groups`` may skip the check for files whose partition they exclude.
        """
        call = f"fail({literal('gone, so that the table has to be published again: ')} || {what})"
        failure = f"max(CASE WHEN {condition} THEN CAST({call} AS bigint) END)"
        columns = ",\n  ".join(
            f"{shown(self._null_column(field, groups), field.type, self.dialect)} AS {identifier(field.name)}"
            for field in self._schema
        )
        of_group = "".join(f"{name}, " for name in groups.values())
        grouped = f"\n  GROUP BY {', '.join(groups.values())}" if groups else ""
        return (
            f"SELECT\n  {columns}\nFROM (\n  SELECT {of_group}{failure} AS failure\n  FROM {source}{grouped}\n) f\n"
            "WHERE f.failure IS NOT NULL"
        )

    def _null_column(self, field: "pa.Field[Any]", groups: Mapping[str, str]) -> str:
        if field.name in groups:
            return f"f.{groups[field.name]}"
        stored = stored_type(self._columns.schema.field(field.name).type, self.dialect, field.name)
        return f"element_at(ARRAY[CAST(NULL AS {stored})], f.failure)"

    @property
    def _positions(self) -> range:
        return range(len(self._schema))

    def _shown_value(self, alias: str, position: int) -> str:
        return shown(f"{alias}.c{position}", self._schema.field(position).type, self.dialect)

    def _picked_columns(self, picked: Iterable[str]) -> str:
        """The columns of the view, from values that were picked from either side."""
        return ",\n  ".join(
            f"{shown(f'({value})', field.type, self.dialect)} AS {identifier(field.name)}"
            for value, field in zip(picked, self._schema, strict=True)
        )

    def _sides(self) -> str:
        sides = (f"b.c{position} AS b{position}, l.c{position} AS l{position}" for position in self._positions)
        return ",\n    ".join(sides)

    def _pick(self, position: int, condition: str) -> str:
        """A column of the log record if the condition holds, or else of the base row.

        If both always have the same value, it is that of the base row, so that filters reach the base files.
        """
        context, name = self.publication.context, self._schema.field(position).name
        is_joined = self._field_key("b") is not None and name == self.publication.key_field
        is_key = is_joined or (context.populates_meta_fields and name in context.key_columns)
        is_same = name in context.path_columns or is_key
        return f"m.b{position}" if is_same else f"CASE WHEN {condition} THEN m.l{position} ELSE m.b{position} END"

    def _ordering(self, rule: MergeRule) -> tuple[list[str], list[str]]:
        """The SQL expressions of the ordering values of the base row and of the log record."""
        fields = rule.ordering_fields if rule.orders_base else ()
        paths = [ordering_path(name) for name in fields]
        base = [
            ".".join([f"b.c{self._schema.get_field_index(column)}", *map(identifier, inner)])
            for column, *inner in paths
        ]
        return base, [f"l.o{position}" for position in range(len(fields))]

    def _join(self) -> str:
        """Base rows with their log records, without those whose log record always wins."""
        join = f"LEFT JOIN log l ON {_SAME_RECORD}"
        return f"FROM base b {join}\n  WHERE l.record_key IS NULL OR l.is_contested"


def named(name: str, columns: Iterable[str], source: str) -> str:
    """A named query of a ``WITH`` clause."""
    inner = ",\n    ".join(columns)
    return f"{name} AS (\n  SELECT\n    {inner}\n  FROM {source}\n)"
