"""The query behind the realtime view of a publication.

It is the union of two parts, of which none looks at rows of the other:

* base rows, each beside its log record if it has one. Those without one are as they are, those whose record wins in any
  case are left out. The others are contested: where an ordering decides, SQL compares it; where fields are merged, or a
  payload of the user's own decides, a Python function does.
* log records, and rows of slices that are published whole, in which no base row has a say.

Two more parts have no rows: they fail where a file of the publication is gone, whose rows would be missing without a
word.

Within the query, columns are called after their places, so that no name of the table's can meet another.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from hudi_bridge.connectors.trino.conditions import base_key, base_unset, log_wins
from hudi_bridge.connectors.trino.functions import MERGE, row_type
from hudi_bridge.connectors.trino.log_columns import LogColumns
from hudi_bridge.connectors.trino.publication import LOG, SLICES, Publication, path_columns
from hudi_bridge.connectors.trino.sql_text import Dialect, ObjectNames, identifier, literal
from hudi_bridge.connectors.trino.sql_types import shown, stored_type
from hudi_bridge.engines import MergeRule, ordering_path

BASE = "base"
PARTITION_PATH = "_hoodie_partition_path"
_PATH = identifier("$path")
_FLAGS = ("contested", "delete", "explicit", "always")


@dataclass(frozen=True, kw_only=True)
class RealtimeView:
    """Writes the query.

    ``base_table`` is a table of the rows of the latest base files, None for the external table over all base files, of
    which the publication says which are the latest. ``calls_function`` is whether a function decides on contested rows.
    """

    publication: Publication
    names: ObjectNames
    dialect: Dialect
    base_table: str | None
    calls_function: bool

    @cached_property
    def _columns(self) -> LogColumns:
        return LogColumns.of(self.publication.context)

    @cached_property
    def _schema(self) -> pa.Schema:
        return self.publication.context.schema

    def query(self) -> str:
        """The text."""
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
        return _named("slice", columns, published)

    def _base(self) -> str:
        """The base rows."""
        context = self.publication.context
        key = base_key(context, "b") if context.merge_rule is not None else "CAST(NULL AS varchar)"
        if self.base_table is None:
            from_path = path_columns(context)
            place, source = "slice.number", f"{self.names.of_part(BASE)} b JOIN slice ON b.{_PATH} = slice.base_uri"
        else:
            from_path = {}
            place, source = f"b.{identifier(PARTITION_PATH)}", f"{self.base_table} b"
        columns = (
            f"slice.{from_path[name]} AS c{position}" if name in from_path else f"b.{identifier(name)} AS c{position}"
            for position, name in enumerate(self._schema.names)
        )
        return _named("base", (f"{place} AS place", f"{key} AS record_key", *columns), source)

    def _log(self) -> str:
        """The published rows."""
        own = self._columns
        place = "slice.number" if self.base_table is None else f"l.{identifier(own.partition)}"
        columns = [f"{place} AS place", f"l.{identifier(own.key)} AS record_key"]
        columns += [f"l.{identifier(getattr(own, name))} AS is_{name}" for name in _FLAGS]
        columns.append(f"l.{identifier(own.unset)} AS unset")
        columns += [f"l.{identifier(name)} AS o{position}" for position, name in enumerate(own.ordering)]
        columns += [f"l.{identifier(name)} AS c{position}" for position, name in enumerate(self._schema.names)]
        met = f"l.{_PATH} = slice.log_uri" if self.base_table is None else f"l.{identifier(own.file)} = slice.log_file"
        return _named("log", columns, f"{self.names.of_part(LOG)} l JOIN slice ON {met}")

    def _shown(self, alias: str) -> str:
        """The columns that the view shows, of rows that have them as they are stored."""
        return ",\n  ".join(
            f"{shown(f'{alias}.c{position}', field.type, self.dialect)} AS {identifier(field.name)}"
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
        """The base rows, of which the contested ones are merged with their log records."""
        if rule.payload is not None:
            return self._combined()
        return self._merged(rule) if self.calls_function else self._compared(rule)

    def _compared(self, rule: MergeRule) -> str:
        """Of contested rows SQL says which side wins."""
        base, log = self._ordering(rule)
        wins = f"l.record_key IS NOT NULL AND {log_wins(rule, self._columns, self.dialect, base, log)}"
        picked = (self._pick(position, "m.wins") for position in self._places)
        return (
            f"SELECT\n  {self._of_both(picked)}\nFROM (\n"
            f"  SELECT\n    {self._sides()},\n    l.is_delete,\n    {wins} AS wins\n  {self._meeting()}\n) m\n"
            "WHERE NOT (m.wins AND m.is_delete)"
        )

    def _merged(self, rule: MergeRule) -> str:
        """Of contested rows a function says where each field comes from."""
        base, log = self._ordering(rule)
        unset = "CAST(NULL AS array(boolean))"
        if rule.fill is not None:
            defaults = self.publication.context.defaults
            each = (
                base_unset(field.name, f"b.c{position}", field.type, rule, defaults.get(field.name))
                for position, field in enumerate(self._schema)
            )
            unset = f"ARRAY[{', '.join(each)}]"
        arguments = ", ".join(("l.is_delete", "l.is_explicit", "l.is_always", unset, "l.unset", *base, *log))
        picked = (self._pick(position, f"m.from_log[{position + 1}]") for position in self._places)
        return (
            f"SELECT\n  {self._of_both(picked)}\nFROM (\n"
            f"  SELECT\n    {self._sides()},\n    {self._asked(arguments, 'from_log')}"
        )

    def _combined(self) -> str:
        """Of contested rows a function makes one row."""
        kind = row_type(self._schema)
        sides = (
            f"CAST(ROW({', '.join(self._shown_values(alias))}) AS {kind})"  # a row has no names of its own
            for alias in ("b", "l")
        )
        columns = ",\n  ".join(
            f"CASE WHEN m.record_key IS NULL THEN {shown(f'm.b{position}', field.type, self.dialect)}"
            f" ELSE m.made.c{position} END AS {identifier(field.name)}"
            for position, field in enumerate(self._schema)
        )
        own = ",\n    ".join(f"b.c{position} AS b{position}" for position in self._places)
        return f"SELECT\n  {columns}\nFROM (\n  SELECT\n    {own},\n    {self._asked(', '.join(sides), 'made')}"

    def _asked(self, arguments: str, answer: str) -> str:
        """The end of a query that calls the function for contested rows; without an answer, the row is deleted."""
        call = f"CASE WHEN l.record_key IS NOT NULL THEN {self.names.of_part(MERGE)}({arguments}) END"
        return (
            f"l.record_key,\n    {call} AS {answer}\n"
            f"  {self._meeting()}\n) m\nWHERE m.record_key IS NULL OR m.{answer} IS NOT NULL"
        )

    def _missing_publication(self) -> str:
        """No rows, and an error if the slices of the publication are gone."""
        counted = "(SELECT count(*) AS slices FROM slice) n"
        wanted = self.publication.slices
        what = f"CAST(n.slices AS varchar) || {literal(f' of {wanted} file slices')}"
        return self._failing(f"n.slices < {wanted}", what, counted, {})

    def _missing_files(self) -> str:
        """No rows, and an error that names a file of the publication that is gone; all of them have rows."""
        bases, logs = (f"SELECT {_PATH} AS path FROM {self.names.of_part(part)}" for part in (BASE, LOG))
        groups = path_columns(self.publication.context)
        columns = ", ".join(("u.uri", *(f"slice.{name}" for name in groups.values())))
        # Which files to look for comes from the right side, as a dynamic filter.
        files = (
            f"(\n    SELECT DISTINCT path FROM ({bases} UNION ALL {logs})\n  ) found\n  RIGHT JOIN (\n"
            f"    SELECT {columns}\n    FROM slice CROSS JOIN UNNEST(ARRAY[slice.base_uri, slice.log_uri]) AS u(uri)\n"
            "    WHERE u.uri IS NOT NULL\n  ) wanted ON found.path = wanted.uri"
        )
        return self._failing("found.path IS NULL", "wanted.uri", files, groups)

    def _failing(self, condition: str, what: str, source: str, groups: Mapping[str, str]) -> str:
        """A part without rows, which ends the query where the condition holds; ``what`` names what is gone then.

        Its columns are such that no condition on them keeps this one from being asked. Only those that have a column of
        ``groups`` may leave out what it is asked of.
        """
        gone = f"fail({literal('gone, so that the table has to be published again: ')} || {what})"
        failure = f"max(CASE WHEN {condition} THEN CAST({gone} AS bigint) END)"
        columns = ",\n  ".join(
            f"{shown(self._of_nothing(field, groups), field.type, self.dialect)} AS {identifier(field.name)}"
            for field in self._schema
        )
        of_group = "".join(f"{name}, " for name in groups.values())
        grouped = f"\n  GROUP BY {', '.join(groups.values())}" if groups else ""
        return (
            f"SELECT\n  {columns}\nFROM (\n  SELECT {of_group}{failure} AS failure\n  FROM {source}{grouped}\n) f\n"
            "WHERE f.failure IS NOT NULL"
        )

    def _of_nothing(self, field: "pa.Field[Any]", groups: Mapping[str, str]) -> str:
        if field.name in groups:
            return f"f.{groups[field.name]}"
        return f"element_at(ARRAY[CAST(NULL AS {stored_type(field.type, self.dialect, field.name)})], f.failure)"

    @property
    def _places(self) -> range:
        return range(len(self._schema))

    def _shown_values(self, alias: str) -> list[str]:
        return [shown(f"{alias}.c{position}", field.type, self.dialect) for position, field in enumerate(self._schema)]

    def _of_both(self, picked: Iterable[str]) -> str:
        """The columns that the view shows, of values that were picked from either side."""
        return ",\n  ".join(
            f"{shown(f'({value})', field.type, self.dialect)} AS {identifier(field.name)}"
            for value, field in zip(picked, self._schema, strict=True)
        )

    def _sides(self) -> str:
        sides = (f"b.c{position} AS b{position}, l.c{position} AS l{position}" for position in self._places)
        return ",\n    ".join(sides)

    def _pick(self, position: int, condition: str) -> str:
        """A column of the log record, if the condition holds, or else of the base row.

        Where both have the same value, it is that of the base row, so that conditions on it reach the base files.
        """
        context, name = self.publication.context, self._schema.field(position).name
        is_same = name in context.path_columns or (context.populates_meta_fields and name in context.key_columns)
        return f"m.b{position}" if is_same else f"CASE WHEN {condition} THEN m.l{position} ELSE m.b{position} END"

    def _ordering(self, rule: MergeRule) -> tuple[list[str], list[str]]:
        """The ordering values of both sides."""
        fields = rule.ordering_fields if rule.orders_base else ()
        paths = [ordering_path(name) for name in fields]
        base = [
            ".".join([f"b.c{self._schema.get_field_index(column)}", *map(identifier, inner)])
            for column, *inner in paths
        ]
        return base, [f"l.o{position}" for position in range(len(fields))]

    def _meeting(self) -> str:
        """Base rows with their log records, but those whose log record takes their place in any case."""
        met = "LEFT JOIN log l ON l.place = b.place AND l.record_key = b.record_key"
        return f"FROM base b {met}\n  WHERE l.record_key IS NULL OR l.is_contested"


def _named(name: str, columns: Iterable[str], source: str) -> str:
    """A named query of a ``WITH`` clause."""
    inner = ",\n    ".join(columns)
    return f"{name} AS (\n  SELECT\n    {inner}\n  FROM {source}\n)"
