"""Merge rules as SQL expressions: record keys of base rows, comparisons of ordering values, and unset fields.

Numbers, dates and strings compare in SQL as in Hudi; strings by their bytes. A missing value is below all others,
except that Hudi 1.x reads a missing number as 0. Floats compare by their bits, with functions of Trino and Presto.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from hudi_bridge.connectors.trino.compatibility import LogColumns, why_keys_unreadable
from hudi_bridge.connectors.trino.sql_types import ArrowType, Dialect, identifier, literal, stored_type
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge.arrays import is_number
from hudi_bridge.merge.fold import unset_value
from hudi_bridge.merge.ordering import EARLIER, HIGHER, LATER, Outcomes, OverBase
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.splits.split import ReadContext

_SIGN = 0x7FFFFFFFFFFFFFFF
_SEQUENCE = r"\A[0-9]{1,18}\.[0-9]{1,18}\z"
"""The file number and the position of a change in the log of a database, which compare as numbers."""


def why_not_in_plain_sql(rule: MergeRule | None, *, merges_fields: bool) -> str | None:
    """Why plain SQL cannot merge contested rows; None if it can. The SQL of Trino and Presto can, but for payloads.

    ``merges_fields`` is whether the logs have partial updates.
    """
    if rule is None:
        return None
    if rule.payload is not None:
        return f"the payload {rule.payload_class}"
    if rule.fill is not None:
        return f"merging of fields, {rule.fill} taken from the row that loses"
    if merges_fields:
        return "merging of fields, of partial updates in the logs"
    if rule.sequences_against_base:
        return "ordering values of a file number, a dot and a position"
    return None


def base_key(context: ReadContext, row: str) -> str:
    """The SQL expression of a base row's record key; ``row`` is the alias of the base rows."""
    return key_of(context, {name: f"{row}.{identifier(name)}" for name in context.key_columns})


def key_of(context: ReadContext, values: Mapping[str, str]) -> str:
    """The SQL expression of a record key, of those of the key columns.

    Source: ``KeyGenUtils`` of Hudi.
    """
    names = context.key_columns
    if context.populates_meta_fields:
        return values[names[0]]
    if why_keys_unreadable(context) is not None:
        # Slices with logs are published whole, or not at all.
        return "CAST(NULL AS varchar)"
    texts = [f"CAST({values[name]} AS varchar)" for name in names]
    if len(names) == 1:
        return texts[0]
    parts = (
        f"{literal(name + ':')} || CASE WHEN {text} IS NULL THEN '__null__' WHEN {text} = '' THEN '__empty__'"
        f" ELSE {text} END"
        for name, text in zip(names, texts, strict=True)
    )
    return " || ',' || ".join(parts)


def log_wins(rule: MergeRule, columns: LogColumns, dialect: Dialect, base: list[str], log: list[str]) -> str:
    """The SQL condition that the contested log record ``l`` replaces its base row.

    ``base`` and ``log`` are the SQL expressions of their ordering values.

    Raises:
        UnsupportedTableError: the dialect cannot compare values of a type.
    """
    outcomes = rule.precedence.over_base_row
    kinds = [columns.schema.field(name).type for name in columns.ordering]
    compared = compares_not_lower(rule, kinds, dialect, base, log) if HIGHER in outcomes else "FALSE"
    if outcomes[0] == HIGHER and EARLIER not in outcomes:
        return compared  # what always wins is contested only if its fields are merged, which are those of rows
    if outcomes == (LATER, LATER, LATER):
        return "TRUE"
    row, delete, unordered_delete = (
        {EARLIER: "FALSE", LATER: "TRUE", HIGHER: compared}[outcome] for outcome in outcomes
    )
    return f"CASE WHEN l.is_always THEN {unordered_delete} WHEN l.is_explicit THEN {delete} ELSE {row} END"


def outcome(outcomes: Outcomes | OverBase, what: str, not_lower: str) -> str:
    """The SQL condition that a version wins; ``what`` is the SQL expression of its kind, as in ``merge.ordering``."""
    conditions = {EARLIER: "FALSE", LATER: "TRUE", HIGHER: not_lower}
    if len(set(outcomes)) == 1:
        return conditions[outcomes[0]]
    cases = " ".join(f"WHEN {kind} THEN {conditions[outcome]}" for kind, outcome in enumerate(outcomes))
    return f"CASE {what} {cases} END"


def later_replaces(rule: MergeRule, kinds: Sequence[ArrowType], earlier: str, later: str) -> str:
    """The SQL condition that the later of two log versions of a key replaces the earlier.

    Both are rows with the kind ``what``, as in ``merge.ordering``, and the ordering values ``o0``, ``o1``, of these
    types.
    """
    sides = ([f"{side}.o{position}" for position in range(len(kinds))] for side in (earlier, later))
    not_lower = compares_not_lower(rule, kinds, Dialect.TRINO, *sides, in_logs=True) if rule.ranks_logs else "TRUE"
    cases = [outcome(outcomes, f"{later}.what", not_lower) for outcomes in rule.precedence.in_logs]
    if len(set(cases)) == 1:
        return cases[0]
    return f"CASE {earlier}.what {' '.join(f'WHEN {kind} THEN {case}' for kind, case in enumerate(cases))} END"


def compares_not_lower(
    rule: MergeRule,
    kinds: Sequence[ArrowType],
    dialect: Dialect,
    base: list[str],
    log: list[str],
    *,
    in_logs: bool = False,
) -> str:
    """The SQL condition that the log record's ordering values, of these types, are not lower than the base row's.

    With ``in_logs``, those of an earlier log record are in the place of the base row's.

    Raises:
        UnsupportedTableError: the dialect cannot compare values of a type.
    """
    compared = [
        (of_base, of_log, rule.precedence.nulls_as_zero and is_number(kind))
        for kind, base_value, log_value in zip(kinds, base, log, strict=True)
        for of_base, of_log in zip(
            *(_comparables(value, kind, rule, dialect, in_logs=in_logs) for value in (base_value, log_value)),
            strict=True,
        )
    ]
    condition = "FALSE" if rule.equal_sequences_keep_base else ""
    for of_base, of_log, is_never_null in reversed(compared):
        above, equal = f"{of_log} > {of_base}", f"{of_log} = {of_base}"
        if not is_never_null:
            above = f"({of_log} IS NOT NULL AND ({of_base} IS NULL OR {above}))"
            equal = f"({equal} OR ({of_log} IS NULL AND {of_base} IS NULL))"
        condition = f"({above} OR ({equal} AND {condition}))" if condition else f"({above} OR {equal})"
    return f"COALESCE({condition}, FALSE)" if condition else "TRUE"


def _comparables(value: str, kind: ArrowType, rule: MergeRule, dialect: Dialect, *, in_logs: bool) -> tuple[str, ...]:
    """The SQL expressions that an ordering value is compared by, one after the other; see ``merge.fold``."""
    if rule.sequences_against_base:
        parts = (f"CAST(split_part({value}, '.', {number}) AS bigint)" for number in (1, 2))
        return tuple(f"(CASE WHEN regexp_like({value}, {literal(_SEQUENCE)}) THEN {part} END)" for part in parts)
    if not in_logs and not rule.compares_with_base(kind):
        return ()
    if in_logs and rule.precedence.orders_as_0x and pa.types.is_decimal(kind):
        return f"({value} < 0)", value
    return (_comparable(value, kind, rule, dialect),)


def _comparable(value: str, kind: ArrowType, rule: MergeRule, dialect: Dialect) -> str:
    if pa.types.is_floating(kind):
        if dialect is Dialect.ANSI:
            raise UnsupportedTableError("ordering field in ansi SQL", "a floating-point number", "other types")
        return _float_rank(value, nulls_as_zero=rule.precedence.nulls_as_zero)
    if rule.precedence.orders_as_0x and pa.types.is_binary(kind):
        if dialect is Dialect.ANSI:
            raise UnsupportedTableError(
                "ordering field in ansi SQL", "bytes that compare as signed ones", "other types"
            )
        return _signed_bytes(value)
    return f"COALESCE({value}, 0)" if rule.precedence.nulls_as_zero and is_number(kind) else value


def _signed_bytes(value: str) -> str:
    """A text that compares like the signed bytes: each has two digits, and a 0 before them if it is below 0."""
    sign = "CASE WHEN pair[1] >= '8' THEN '0' ELSE '1' END"
    return f"regexp_replace(to_hex({value}), '(.)(.)', pair -> {sign} || pair[1] || pair[2])"


def _float_rank(value: str, *, nulls_as_zero: bool) -> str:
    number = f"CAST({value} AS double)"
    number = f"COALESCE({number}, DOUBLE '0')" if nulls_as_zero else number
    bits = f"from_big_endian_64(to_ieee754_64(CASE WHEN is_nan({number}) THEN nan() ELSE {number} END))"
    return f"(CASE WHEN {bits} < 0 THEN bitwise_xor({bits}, {_SIGN}) ELSE {bits} END)"


def base_unset(
    field: "pa.Field[Any]",
    value: str,
    rule: MergeRule,
    default: "pa.Scalar[Any] | None",
    columns: LogColumns,
    dialect: Dialect,
) -> str:
    """The SQL condition that a field of a base row is unset: it is filled from the log record even if that loses.

    ``value`` is the SQL expression of its stored value.
    """
    unset = unset_value(rule, field.name, field.type, default)
    if unset is None:
        return "FALSE"
    if not unset.is_valid:
        return f"{value} IS NULL"
    published = columns.schema.field(field.name).type
    constant = _constant(unset.cast(published), stored_type(published, dialect, field.name), field.name)
    return f"COALESCE({value} = {constant}, FALSE)"


def _constant(scalar: "pa.Scalar[Any]", stored: str, name: str) -> str:
    """The SQL text of a value, in the stored type of its column."""
    value, kind = scalar.as_py(), scalar.type
    match value:
        case bool():
            return str(value).upper()
        case str():
            return literal(value)
        case bytes():
            return f"X'{value.hex()}'"
        case dt.datetime():
            text = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
            digits = "milliseconds" if kind.unit == "ms" else "microseconds"
            return f"CAST({literal(text.isoformat(sep=' ', timespec=digits))} AS {stored})"
        case dt.time():
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            return f"CAST({seconds * 1_000_000 + value.microsecond} AS {stored})"
        case int() | float() | Decimal() | dt.date():
            return f"CAST({literal(str(value))} AS {stored})"
    raise UnsupportedTableError("default in SQL", f"{value!r} of column {name}", "plain values")
