"""What a Trino function does with a contested record: it says which fields of the row come from the log.

The text of this module runs behind that of ``merge.ordering`` in Trino's Python, where no package is installed. It is
called once for each record that both the base file and the logs hold, with their ordering values and the fields that
either lacks; the values of the fields stay in SQL.

Source: ``HoodieMergedLogRecordScanner`` and ``PartialUpdateHandler`` of Hudi.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any

from hudi_bridge.merge.ordering import Version, field_from_log, log_replaces_base

_MOST_DIGITS = 18
_ALL_BITS = 0x7FFFFFFFFFFFFFFF


def comparable(values: Sequence[Any], zeros: Sequence[bool], *, sequences: bool) -> tuple[object, ...]:
    """Ordering values as they are compared: ``zeros`` says which count as 0 where they are missing.

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
    """The file number and the position in a text like ``000005.1234``; None for a text of another form."""
    file, _, position = text.partition(".")
    if not all(part.isascii() and part.isdigit() and len(part) <= _MOST_DIGITS for part in (file, position)):
        return [None, None]
    return [int(file), int(position)]


def float_rank(value: float) -> int:
    """A number that compares as a float does in Java: -0.0 below 0.0, and NaN above all."""
    bits: int
    (bits,) = struct.unpack(">q", struct.pack(">d", math.nan if math.isnan(value) else value))
    return bits if bits >= 0 else bits ^ _ALL_BITS


def contested_fields(
    rule: str,
    zeros: Sequence[bool],
    newest: Sequence[bool],
    *,
    sequences: bool,
    flags: Sequence[bool],
    lacks: Sequence[Sequence[bool] | None],
    ordering: Sequence[Any],
) -> list[bool] | None:
    """For each field of a contested record whether it comes from the log; None if there is no row.

    ``flags`` say of the log version whether it deletes, is a delete that was never a row, and has no ordering value.
    ``lacks`` are the fields that the base row and the log version lack, ``ordering`` the values of the base row, then
    those of the log version.
    """
    is_delete, is_explicit, always_deletes = flags
    sides = ordering[: len(zeros)], ordering[len(zeros) :]
    base, log = (comparable(values, zeros, sequences=sequences) for values in sides)
    if sequences:
        # Of equal ones, the base row wins.
        base, log = (*base, 1), (*log, 0)
    base_lacks, log_lacks = (of_side or [False] * len(newest) for of_side in lacks)
    return fields_from_log(
        rule,
        base,
        (log, is_explicit, always_deletes),
        is_delete=is_delete,
        base_lacks=base_lacks,
        log_lacks=log_lacks,
        newest=newest,
    )


def fields_from_log(
    rule: str,
    base_ordering: tuple[object, ...],
    log: Version,
    *,
    is_delete: bool,
    base_lacks: Sequence[bool],
    log_lacks: Sequence[bool],
    newest: Sequence[bool],
) -> list[bool] | None:
    """For each field whether it comes from the log; None if there is no row.

    ``log`` is the surviving version, ``is_delete`` whether it removes the record if it wins. ``newest`` marks fields
    that follow the log, whichever wins.
    """
    wins = log_replaces_base(rule, base_ordering, log)
    if is_delete:
        return None if wins else [False] * len(base_lacks)
    return [
        follows or field_from_log(log_wins=wins, base_lacks=of_base, log_lacks=of_log)
        for follows, of_base, of_log in zip(newest, base_lacks, log_lacks, strict=True)
    ]
