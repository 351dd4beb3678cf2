"""The query behind the view of a publication whose log blocks are not merged: Trino decodes and merges them itself.

It decodes each chunk of a data block by one call of a function, adds the keys of delete blocks, and folds the versions
of each record key in the order in which they were written. The survivors meet the base rows in one full join, so that
the log is decoded once. Conditions apply to the merged rows.

Source: ``merge.rules``, whose tables of outcomes become SQL here; ``merge.record_map`` for what is a delete.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from hudi_bridge.common.caching import cached_property
from hudi_bridge.connectors.trino.conditions import compares_not_lower, key_of, later_replaces, outcome
from hudi_bridge.connectors.trino.functions import ROWS
from hudi_bridge.connectors.trino.publication import BLOCKS, path_columns
from hudi_bridge.connectors.trino.realtime_view import BASE, RealtimeView, named
from hudi_bridge.connectors.trino.sql_types import (
    ArrowType,
    Dialect,
    decoded_type,
    from_decoded,
    identifier,
    literal,
    stored_type,
)
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge.arrays import ordering_path, ordering_type
from hudi_bridge.merge.ordering import DELETE, LATER, MARKED, ROW, UNORDERED_DELETE
from hudi_bridge.merge.rules import IS_DELETED_COLUMN, MergeRule
from hudi_bridge.schema.meta_columns import OPERATION_COLUMN
from hudi_bridge.splits.split import ReadContext

_RECORDS_IN_BLOCK = 1 << 32
"""More than a block can have, so that a number tells the order of records of all blocks."""
_MARKER_TYPES = (pa.string(), pa.int32(), pa.int64())
HEEDED_BY_UNMERGED_VIEW = frozenset(
    {
        "after_row",
        "after_delete",
        "after_unordered_delete",
        "over_base_row",
        "nulls_as_zero",
        "marked_in_logs",
        "orders_as_0x",
        "ordering_fields",
        "delete_marker",
    }
)
"""The behaviours of rules that the query heeds."""


def check_mergeable(context: ReadContext) -> None:
    """Refuse a table whose log blocks Trino cannot merge, whatever they hold.

    Raises:
        UnsupportedTableError: the table has such a merge rule or a column of such a type.
    """
    for field in context.schema:
        decoded_type(field.type, field.name)
    rule = context.merge_rule
    if rule is None:
        return
    unsupported = None
    if rule.payload is not None:
        unsupported = f"the payload {rule.payload_class}"
    elif rule.fill is not None:
        unsupported = f"merging of fields, {rule.fill} taken from the row that loses"
    elif rule.sequences_against_base or rule.sequences_in_logs:
        unsupported = "ordering values of a file number, a dot and a position"
    elif rule.delete_marker is not None and rule.delete_marker[0] in context.schema.names:
        name, kind = rule.delete_marker[0], context.schema.field(rule.delete_marker[0]).type
        unsupported = f"a delete marker in column {name} of type {kind}" if kind not in _MARKER_TYPES else None
    if unsupported is not None:
        raise UnsupportedTableError("merge rule in Trino", unsupported, "rules by commit time and by ordering values")
    rule.require_heeded(HEEDED_BY_UNMERGED_VIEW, "the SQL of an unmerged view")


@dataclass(frozen=True, kw_only=True)
class UnmergedView(RealtimeView):
    """Builds the query."""

    parts_with_files = (BASE,)

    def query(self) -> str:
        """The SQL text of the query."""
        rule = self.publication.context.merge_rule
        queries = [self._slice(), self._base()]
        if rule is None:
            rows = self._untouched(rule)
        else:
            queries += [self._decoded(), self._version(rule), self._survivor(rule)]
            rows = self._joined(rule)
        parts = [rows, self._missing_publication(), self._missing_files(), self._missing_blocks()]
        return "WITH\n" + ",\n".join(queries) + "\n" + "\nUNION ALL\n".join(parts)

    @property
    def _blocks(self) -> str:
        return f"{self.names.of_part(BLOCKS)} b"

    @cached_property
    def _ordering_types(self) -> tuple[ArrowType, ...]:
        """The types of the values that log versions are ordered by."""
        rule = self.publication.context.merge_rule
        fields = rule.ordering_fields if rule is not None and rule.uses_ordering else ()
        return tuple(ordering_type(name, self._schema) for name in fields)

    def _decoded(self) -> str:
        """The records of the blocks that count; delete blocks have keys and ordering values alone."""
        from_path = path_columns(self.publication.context)
        orderings = range(len(self._ordering_types))
        columns = [
            "b.place AS place",
            f"b.turn * {_RECORDS_IN_BLOCK} + b.first + u.number AS number",
            "b.block_type = 'delete' AS is_of_delete_block",
            "u.deleted_key AS deleted_key",
            "u.is_always AS is_always",
            *(f"u.d{position} AS d{position}" for position in orderings),
        ]
        columns += [
            f"slice.{from_path[field.name]} AS c{position}"
            if field.name in from_path
            else f"{from_decoded(f'u.c{position}', field.type)} AS c{position}"
            for position, field in enumerate(self._schema)
        ]
        names = [
            *(f"c{position}" for position in self._positions),
            *("deleted_key", "is_always"),
            *(f"d{position}" for position in orderings),
            "number",
        ]
        source = (
            f"{self._blocks} JOIN slice ON slice.number = b.place\n"
            f"  CROSS JOIN UNNEST({self.names.of_part(ROWS)}(b.chunk, b.layout), b.deletes)\n"
            f"    WITH ORDINALITY AS u({', '.join(names)})\n"
            f"  WHERE b.publication = {literal(self.publication.publication)} AND b.turn IS NOT NULL"
        )
        return named("decoded", columns, source)

    def _version(self, rule: MergeRule) -> str:
        """The log versions, with their keys and what they are."""
        context = self.publication.context
        missing = f"fail({literal('a log record has no record key, in file slice ')} || CAST(r.place AS varchar))"
        key = key_of(context, {name: self._column(name) for name in context.key_columns})
        key = f"COALESCE({key}, CAST({missing} AS varchar))"
        marked = " OR ".join(self._marks(rule)) or "FALSE"
        what = f"CASE WHEN r.is_of_delete_block THEN CASE WHEN r.is_always THEN {UNORDERED_DELETE} ELSE {DELETE} END"
        if rule.uses_ordering and not rule.precedence.orders_as_0x:
            what += f" WHEN ({marked}) AND {self._is_unordered(rule)} THEN {UNORDERED_DELETE}"
        if rule.precedence.marked_in_logs:
            what += f" WHEN {marked} THEN {MARKED}"
        what += f" ELSE {ROW} END"
        columns = [
            "r.place AS place",
            "r.number AS number",
            f"CASE WHEN r.is_of_delete_block THEN r.deleted_key ELSE {key} END AS record_key",
            f"{what} AS what",
            f"{marked} AS is_marked",
            *(
                f"CASE WHEN r.is_of_delete_block THEN r.d{position} ELSE {self._field(name)} END AS o{position}"
                for position, name in enumerate(rule.ordering_fields if rule.uses_ordering else ())
            ),
            *(f"r.c{position} AS c{position}" for position in self._positions),
        ]
        return named("version", columns, "decoded r")

    def _survivor(self, rule: MergeRule) -> str:
        """The surviving version of each record key."""
        values = ["what", "is_marked", *(f"o{position}" for position in range(len(self._ordering_types)))]
        values += [f"c{position}" for position in self._positions]
        kind = f"row({', '.join(f'{name} {of_value}' for name, of_value in zip(values, self._types, strict=True))})"
        version = f"CAST(ROW({', '.join(values)}) AS {kind})"
        if all(outcome == LATER for outcomes in rule.precedence.in_logs for outcome in outcomes):
            fold = f"max_by({version}, number)"
        else:
            replaces = later_replaces(rule, self._ordering_types, "s", "v")
            fold = (
                f"reduce(\n      array_agg({version} ORDER BY number), CAST(NULL AS {kind}),\n"
                f"      (s, v) -> CASE WHEN s IS NULL OR {replaces} THEN v ELSE s END, s -> s\n    )"
            )
        # Over base rows, a marked row is a delete as others are.
        what = f"CASE k.kept.what WHEN {MARKED} THEN {DELETE} ELSE k.kept.what END"
        columns = [
            "k.place AS place",
            "k.record_key AS record_key",
            f"{what} AS what",
            f"k.kept.what <> {ROW} OR k.kept.is_marked AS is_delete",
            *(f"k.kept.{name} AS {name}" for name in values[2:]),
        ]
        grouped = f"SELECT place, record_key, {fold} AS kept\n    FROM version\n    GROUP BY place, record_key"
        return named("log", columns, f"(\n    {grouped}\n  ) k")

    @property
    def _types(self) -> tuple[str, ...]:
        """The stored types of a version's values."""
        stored = (stored_type(field.type, Dialect.TRINO, field.name) for field in self._schema)
        ordering = (stored_type(kind, Dialect.TRINO, "") for kind in self._ordering_types)
        return ("integer", "boolean", *ordering, *stored)

    def _joined(self, rule: MergeRule) -> str:
        """Base rows and survivors; where both have a key, SQL picks the winner."""
        base, log = self._ordering(rule)
        kinds = [ordering_type(name, self._schema) for name in (rule.ordering_fields if rule.orders_base else ())]
        not_lower = compares_not_lower(rule, kinds, Dialect.TRINO, base, log)
        wins = outcome(rule.precedence.over_base_row, "l.what", not_lower)
        is_from_log = f"CASE WHEN b.place IS NULL THEN TRUE WHEN l.place IS NULL THEN FALSE ELSE {wins} END"
        picked = (f"CASE WHEN m.is_from_log THEN m.l{position} ELSE m.b{position} END" for position in self._positions)
        return (
            f"SELECT\n  {self._picked_columns(picked)}\nFROM (\n"
            f"  SELECT\n    {self._sides()},\n    l.is_delete,\n    {is_from_log} AS is_from_log\n"
            "  FROM base b FULL JOIN log l ON l.place = b.place AND l.record_key = b.record_key\n"
            ") m\nWHERE NOT (m.is_from_log AND m.is_delete)"
        )

    def _missing_blocks(self) -> str:
        """No rows, and an error if blocks of the publication are missing."""
        expected = self.publication.block_rows
        published = literal(self.publication.publication)
        counted = f"(SELECT count(*) AS found FROM {self._blocks} WHERE b.publication = {published}) n"
        what = f"CAST(n.found AS varchar) || {literal(f' of {expected} rows of log blocks')}"
        return self._failing(f"n.found < {expected}", what, counted, {})

    def _column(self, name: str) -> str:
        return f"r.c{self._schema.get_field_index(name)}"

    def _field(self, name: str) -> str:
        """An ordering field of a decoded record."""
        column, *inner = ordering_path(name)
        return ".".join([self._column(column), *map(identifier, inner)])

    def _marks(self, rule: MergeRule) -> Iterator[str]:
        """The conditions that a decoded record is marked as a delete: the flag, the operation, the delete marker."""
        names = self._schema.names
        if IS_DELETED_COLUMN in names and pa.types.is_boolean(self._schema.field(IS_DELETED_COLUMN).type):
            yield f"COALESCE({self._column(IS_DELETED_COLUMN)}, FALSE)"
        if OPERATION_COLUMN in names:
            operations = ", ".join(map(literal, rule.precedence.delete_operations))
            yield f"COALESCE({self._column(OPERATION_COLUMN)} IN ({operations}), FALSE)"
        if rule.delete_marker is not None and rule.delete_marker[0] in names:
            name, marker = rule.delete_marker
            yield f"COALESCE(CAST({self._column(name)} AS varchar) = {literal(marker)}, FALSE)"

    def _is_unordered(self, rule: MergeRule) -> str:
        """The condition that a decoded delete has no ordering value: null, or Java's Integer 0."""
        if len(self._ordering_types) != 1:
            return "FALSE" if self._ordering_types else "TRUE"
        value = self._field(rule.ordering_fields[0])
        return f"COALESCE({value}, 0) = 0" if pa.types.is_int32(self._ordering_types[0]) else f"{value} IS NULL"
