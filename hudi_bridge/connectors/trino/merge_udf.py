"""A Trino function that merges a contested record: it returns which fields of the row come from the log.

The source text of this module runs after that of ``merge.ordering`` in Trino's Python, which has no packages. The
function gets the ordering values and the unset fields of the base row and the log record; field values stay in SQL.

Source: ``HoodieMergedLogRecordScanner`` and ``PartialUpdateHandler`` of Hudi.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any

from hudi_bridge.merge.ordering import Outcomes, Version, field_from_log, log_replaces_base

_MOST_DIGITS = 18
_ALL_BITS = 0x7FFFFFFFFFFFFFFF


def comparable(values: Sequence[Any], zeros: Sequence[bool], *, sequences: bool) -> tuple[object, ...]:
    """Ordering values in a form that compares as in Hudi; ``zeros`` marks those that are 0 if missing.

    ``sequences`` is for texts of a file number, a dot and a position, which compare as numbers.
    """
    found: list[object] = []
    for value, is_zero in zip(values, zeros, strict=True):
        if sequences:
            found += sequence_parts(value or "")
        elif value is None:
            found.append(0 if is_zero else None)
        elif isinstance(value, float):
            found.append(float_rank(value))
        else:
            found.append(value)
    return tuple(found)


def sequence_parts(text: str) -> list[int | None]:
    """The file number and the position in a text like ``000005.1234``; both None for a text of another form."""
    file, _, position = text.partition(".")
    if not all(part.isascii() and part.isdigit() and len(part) <= _MOST_DIGITS for part in (file, position)):
        return [None, None]
    return [int(file), int(position)]


def float_rank(value: float) -> int:
    """An integer that compares as the float does in Java: -0.0 below 0.0, and NaN above all."""
    bits: int
    (bits,) = struct.unpack(">q", struct.pack(">d", math.nan if math.isnan(value) else value))
    return bits if bits >= 0 else bits ^ _ALL_BITS


def contested_fields(
    over_base_row: Outcomes,
    zeros: Sequence[bool],
    newest: Sequence[bool],
    *,
    sequences: bool,
    flags: Sequence[bool],
    unset: Sequence[Sequence[bool] | None],
    ordering: Sequence[Any],
) -> list[bool] | None:
    """For each field of a contested record, whether it comes from the log; None if the record is deleted.

    ``over_base_row`` is that of the rule's precedence. ``flags`` are whether the log version deletes, whether it is
    compared as a delete, and whether as one without an ordering value. ``unset`` holds the unset fields of the base row
    and of the log version, ``ordering`` the ordering values of the base row, then those of the log version.
    """
    is_delete, is_explicit, always_deletes = flags
    sides = ordering[: len(zeros)], ordering[len(zeros) :]
    base, log = (comparable(values, zeros, sequences=sequences) for values in sides)
    if sequences:
        # If they are equal, the base row wins.
        base, log = (*base, 1), (*log, 0)
    base_unset, log_unset = (of_side or [False] * len(newest) for of_side in unset)
    return fields_from_log(
        over_base_row,
        base,
        (log, is_explicit, always_deletes),
        is_delete=is_delete,
        base_unset=base_unset,
        log_unset=log_unset,
        newest=newest,
    )


def fields_from_log(
    over_base_row: Outcomes,
    base_ordering: tuple[object, ...],
    log: Version,
    *,
    is_delete: bool,
    base_unset: Sequence[bool],
    log_unset: Sequence[bool],
    newest: Sequence[bool],
) -> list[bool] | None:
    """For each field, whether it comes from the log; None if the record is deleted.

    ``log`` is the surviving log version, ``is_delete`` whether it removes the record if it wins. ``newest`` marks
    fields that come from the log even if it loses.
    """
    wins = log_replaces_base(over_base_row, base_ordering, log)
    if is_delete:
        return None if wins else [False] * len(base_unset)
    return [
        follows or field_from_log(log_wins=wins, base_unset=of_base, log_unset=of_log)
        for follows, of_base, of_log in zip(newest, base_unset, log_unset, strict=True)
    ]
