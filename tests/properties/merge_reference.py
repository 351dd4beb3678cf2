"""Tables of random versions under any merge rule, and what the plain rules make of them, key by key."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from hudi_bridge.merge import ordering, rules
from hudi_bridge.merge.fold import fills_earlier
from hudi_bridge.merge.ordering import Version
from hudi_bridge.merge.rules import FieldFill, MergeRule, PayloadRule
from hudi_bridge.releases import Release
from tests.support.table_writer import Row, TableWriter, at

DEFAULTS = {"b": "-"}
CHANGED = ("ts", "a")
"""The fields of a partial update."""

PAYLOAD = "hoodie.compaction.payload.class"
PACKAGE = "org.apache.hudi.common.model."
OF_RELEASE: Mapping[Release, tuple[int, Mapping[str, str]]] = {
    Release.V0: (6, {}),
    Release.V1_0: (8, {}),
    Release.V1_1: (8, {"hoodie.table.format": "native"}),
}
"""The version of a table that a release maintains, and what tells the release."""
SEQUENCE = "_event_seq"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What a table says of its merging: ``marker`` is a column that deletes, with its value."""

    version: int
    options: Mapping[str, str]
    ordering_fields: tuple[str, ...] = ("ts",)
    marker: tuple[str, str] | None = None
    texts: tuple[str, ...] = field(default=())
    """Values that its columns of text may have beside others."""

    @property
    def fields(self) -> tuple[tuple[str, Any], ...]:
        """The fields with their types in Avro."""
        ordered = ((name, "string" if name == SEQUENCE else "long") for name in self.ordering_fields)
        marker = ((self.marker[0], "string"),) if self.marker else ()
        deleted = ("_hoodie_is_deleted", "boolean")
        return ("id", "string"), *ordered, ("a", "string"), ("b", "string"), *marker, deleted

    @property
    def defaults(self) -> Mapping[str, str]:
        """The defaults that readers know: those of Hudi 1.0 know none."""
        is_of_10 = self.version == OF_RELEASE[Release.V1_0][0] and "hoodie.table.format" not in self.options
        return {} if is_of_10 else DEFAULTS

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(name for name, _ in self.fields)


def table_of(entry: PayloadRule, release: Release) -> Table:
    """The table of an entry of the table of rules."""
    version, options = OF_RELEASE[release]
    rule = entry.rule
    return Table(
        version=version,
        options={**options, PAYLOAD: PACKAGE + entry.payload},
        ordering_fields=entry.ordered_by or rule.ordering_fields or ("ts",),
        marker=rule.delete_marker,
        texts=(rule.unavailable_value,) if rule.fill is FieldFill.UNAVAILABLE else (),
    )


_COMMIT_TIME = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
_EVENT_TIME = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
_IGNORE_DEFAULTS = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
_FILL_UNAVAILABLE = {
    "hoodie.table.partial.update.mode": "FILL_UNAVAILABLE",
    "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value": "?",
}

OF_MODES: Mapping[str, Table] = {
    "commit time": Table(version=9, options=_COMMIT_TIME),
    "event time": Table(version=9, options=_EVENT_TIME),
    "commit time, defaults ignored": Table(version=9, options=_COMMIT_TIME | _IGNORE_DEFAULTS),
    "event time, defaults ignored": Table(version=9, options=_EVENT_TIME | _IGNORE_DEFAULTS),
    "event time, unavailable filled": Table(version=9, options=_EVENT_TIME | _FILL_UNAVAILABLE, texts=("?",)),
}
"""Tables of version 9, which state a merge mode."""


def tables_of_entries() -> dict[str, Table]:
    """A table for each entry in each of its releases, by what they are called."""
    return {
        f"{entry.payload}, {release}{f', by {entry.ordered_by}' if entry.ordered_by else ''}": table_of(entry, release)
        for entry in rules.PAYLOAD_RULES
        for release in sorted(entry.releases)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One log record: a row, or a delete. ``cut`` says where it stands.

    0 in the block of the record before, 1 in a new block, 2 in a new file of the same write, 3 in a new write.
    """

    kind: str
    row: Row
    cut: int


KEYS = ("k0", "k1", "k2", "k3", "k4")


def rows_of(table: Table) -> st.SearchStrategy[Row]:
    """Rows, some of which are deletes."""
    values: dict[str, st.SearchStrategy[Any]] = {"id": st.sampled_from(KEYS)}
    for name in table.ordering_fields:
        if name == SEQUENCE:
            values[name] = st.sampled_from(["000001.5", "000001.10", "1.10", "000002.1", "000002.10"])
        else:
            number = st.integers(-1, 3)
            values[name] = number if len(table.ordering_fields) > 1 else st.one_of(st.none(), number)
    values["a"] = st.sampled_from([None, "a1", "a2", *table.texts])
    values["b"] = st.sampled_from([None, "-", "b1", "b2", *table.texts])
    if table.marker is not None:
        values[table.marker[0]] = st.sampled_from([None, "x", "x", table.marker[1]])
    values["_hoodie_is_deleted"] = st.sampled_from([None, None, None, False, True])
    return st.fixed_dictionaries(values)


def base_rows(table: Table, *, distinct: bool = False) -> st.SearchStrategy[list[Row]]:
    """Rows of a base file, which are no deletes; with ``distinct`` some, of one key each."""
    plain = {"_hoodie_is_deleted": None} | ({table.marker[0]: None} if table.marker else {})
    rows = rows_of(table).map(lambda row: {**row, **plain})
    if distinct:
        return st.lists(rows, min_size=1, max_size=5, unique_by=lambda row: row["id"])
    return st.lists(rows, max_size=7)


def changes(table: Table, *kinds: str) -> st.SearchStrategy[list[Change]]:
    """Log records, in the order of their arrival."""
    cuts = st.sampled_from([0, 0, 1, 2, 3])
    one = st.builds(Change, kind=st.sampled_from(kinds), row=rows_of(table), cut=cuts)
    return st.lists(one, min_size=1, max_size=14)


def write(folder: Path, table: Table, base: Sequence[Row], log: Sequence[Change]) -> TableWriter:
    """A table of one file slice."""
    writer = TableWriter(
        folder=folder,
        version=table.version,
        fields=table.fields,
        ordering_fields=table.ordering_fields,
        defaults=DEFAULTS,
        options=table.options,
    ).create()
    if base:
        writer.base_file(at(1), base, row_group_size=2)
    writer.commit(at(1))
    write_number, file_number = 2, 1
    blocks: list[bytes] = []
    for position, run in enumerate(_runs(log)):
        if position and run[0].cut >= 2:
            writer.log_file(at(write_number), blocks, base_instant=at(1), number=file_number)
            writer.commit(at(write_number))
            blocks = []
            write_number += int(run[0].cut == 3)
            file_number += 1
        blocks.append(_block(writer, at(write_number), run))
    writer.log_file(at(write_number), blocks, base_instant=at(1), number=file_number)
    writer.commit(at(write_number))
    return writer


def _runs(log: Sequence[Change]) -> list[list[Change]]:
    """The records of each block."""
    actual: list[list[Change]] = []
    for change in log:
        if not actual or change.cut or change.kind != actual[-1][-1].kind:
            actual.append([])
        actual[-1].append(change)
    return actual


def _block(writer: TableWriter, instant: str, run: Sequence[Change]) -> bytes:
    if run[0].kind == "delete":
        return writer.delete_block(instant, [(change.row["id"], _value_of_delete(writer, change)) for change in run])
    return writer.data_block(
        instant, [change.row for change in run], only=CHANGED if run[0].kind == "partial" else None
    )


def _value_of_delete(writer: TableWriter, change: Change) -> Any:
    values = tuple(change.row[name] for name in writer.ordering_fields)
    return values[0] if len(values) == 1 else values


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What becomes of a key: its rows, and the place of the version that wins, among its log versions; None for base.

    A key that a base file has more than once is merged at its first row.
    """

    rows: tuple[Row, ...]
    winner: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRules:
    """A rule, applied to one record at a time."""

    rule: MergeRule
    table: Table

    def merged(self, base: Sequence[Row], log: Sequence[Change]) -> dict[str, Merged]:
        """What becomes of each key."""
        is_partial = any(change.kind == "partial" for change in log)
        of_base: dict[str, list[Row]] = {}
        of_log: dict[str, list[Change]] = {}
        for row in base:
            of_base.setdefault(row["id"], []).append(row)
        for change in log:
            of_log.setdefault(change.row["id"], []).append(change)
        return {
            key: self._merged(of_base.get(key, []), of_log.get(key, []), is_partial=is_partial)
            for key in {**of_base, **of_log}
        }

    def _merged(self, base: Sequence[Row], log: Sequence[Change], *, is_partial: bool) -> Merged:
        if not log:
            return Merged(rows=tuple(base), winner=None)
        kept, fields, unset = self._survivor(log, is_partial=is_partial)
        survivor = log[kept]
        # A mark is merged as any field is.
        is_marked = survivor.kind != "delete" and self._is_marked(fields)
        deletes = self._is_delete(survivor) or is_marked
        if not base:
            return Merged(rows=() if deletes else (fields,), winner=kept)
        first, *others = base
        precedence = self.rule.precedence
        is_flagged = is_marked and fields["_hoodie_is_deleted"] is True
        kind = ordering.what_is(
            is_delete=self._is_delete(survivor) or (precedence.flag_deletes_base and is_flagged),
            always_deletes=self._always_deletes(survivor),
            marked=False,
        )
        version = (self._ordering(survivor.row, against_base=True, is_base=False), kind)
        of_base = self._ordering(first, against_base=True, is_base=True)
        wins = ordering.log_replaces_base(precedence.over_base_row, of_base, version)
        winner = kept if wins else None
        if deletes:
            return Merged(rows=tuple(others) if wins else tuple(base), winner=winner)
        if self.rule.fill is not None or is_partial:
            fills = fills_earlier(self.rule)
            from_log = {
                name: not unset[name] if wins else fills and self._is_unset(first, name) for name in self.table.names
            }
        else:
            from_log = dict.fromkeys(self.table.names, wins)
        row = {name: fields[name] if from_log[name] else first[name] for name in self.table.names}
        return Merged(rows=(row, *others), winner=winner)

    def _survivor(self, log: Sequence[Change], *, is_partial: bool) -> tuple[int, dict[str, Any], dict[str, bool]]:
        """The place of the version that survives, its fields, and which of them are unset."""
        in_logs = self.rule.precedence.in_logs
        merges_fields = is_partial or (self.rule.fill is not None and self.rule.fills_in_logs)
        versions: list[Version] = [(self._ordering(change.row), self._kind(change)) for change in log]
        kept = ordering.survivor(in_logs, versions)
        fields, unset = {}, {}
        for name in self.table.names:
            all_unset = [change.kind != "delete" and self._is_unset_in(change, name) for change in log]
            filled = ordering.field_source(
                in_logs, versions, all_unset, newest=False, fills_earlier=fills_earlier(self.rule)
            )
            source = filled if merges_fields else kept
            left_out = log[source].kind == "partial" and name not in CHANGED
            fields[name] = None if left_out else log[source].row[name]
            unset[name] = all_unset[source]
        return kept, fields, unset

    def _kind(self, change: Change) -> int:
        return ordering.what_is(
            is_delete=self._is_delete(change),
            always_deletes=self._always_deletes(change),
            marked=change.kind != "delete",
        )

    def _is_delete(self, change: Change) -> bool:
        is_marked = change.kind == "upsert" and self._is_marked(change.row)
        is_unordered = not self.rule.precedence.orders_as_0x and self._has_no_ordering(change.row)
        return change.kind == "delete" or (is_marked and (self.rule.precedence.marked_in_logs or is_unordered))

    def _has_no_ordering(self, row: Row) -> bool:
        return self.rule.uses_ordering and [row[name] for name in self.rule.ordering_fields] == [None]

    def _is_marked(self, row: Row) -> bool:
        column, value = self.rule.delete_marker or ("_hoodie_is_deleted", True)
        return row["_hoodie_is_deleted"] is True or bool(row[column] == value)

    def _always_deletes(self, change: Change) -> bool:
        values = [change.row[name] for name in self.rule.ordering_fields]
        is_text = change.kind == "delete" and any(isinstance(value, str) for value in values)
        if is_text and self.rule.precedence.orders_as_0x:
            return True
        return self._is_delete(change) and values == [None]

    def _ordering(self, row: Row, *, against_base: bool = False, is_base: bool = False) -> tuple[object, ...]:
        values = [row[name] for name in self.rule.ordering_fields]
        if self.rule.sequences_against_base if against_base else self.rule.sequences_in_logs:
            (text,) = values
            return *map(int, text.split(".")), int(is_base and self.rule.equal_sequences_keep_base)
        zero = 0 if self.rule.precedence.nulls_as_zero else None
        return tuple(zero if value is None else value for value in values)

    def _is_unset_in(self, change: Change, name: str) -> bool:
        return (change.kind == "partial" and name not in CHANGED) or self._is_unset(change.row, name)

    def _is_unset(self, row: Row, name: str) -> bool:
        match self.rule.fill:
            case None:
                return False
            case FieldFill.UNAVAILABLE | FieldFill.UNAVAILABLE_TEXTS:
                return bool(row[name] == self.rule.unavailable_value)
            case FieldFill.DEFAULTS:
                return bool(row[name] == self.table.defaults.get(name))
            case FieldFill.IDENTICAL_DEFAULTS:
                # The defaults here are texts, of which Java has an object for each value.
                return row[name] is None and name not in self.table.defaults
            case FieldFill.NULLS:
                return row[name] is None


def in_order(table: Table, rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """The rows' own fields, for comparing."""
    return sorted((tuple(row[name] for name in table.names) for row in rows), key=repr)
