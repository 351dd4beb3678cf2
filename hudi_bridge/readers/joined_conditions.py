"""Conditions of Arrow joined by AND and OR, of no more parts than Arrow can take.

Arrow makes one chain of the parts that are joined, however they are nested, and goes along the chain by recursion. Ten
thousand parts overflow a stack of 8 MiB, which ends the process. So what would have too many parts is taken for true.

Source: ``Canonicalize`` in Arrow's ``compute/expression.cc``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.merge.arrays import Column

MOST_PARTS = 500
"""They take less than half a MiB, the smallest stack of a thread that is in use."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A condition, and how many were joined for it."""

    condition: pc.Expression
    parts: int = 1


Known: TypeAlias = Joined | None
"""None is a condition that every row may pass."""


def joined_by_and(conditions: Iterable[Known]) -> Known:
    """A condition that all rows meet which meet each condition; of too many, those with most parts are left out."""
    taken: list[Joined] = []
    left = MOST_PARTS
    for one in sorted((one for one in conditions if one is not None), key=lambda one: one.parts):
        if one.parts > left:
            break
        left -= one.parts
        taken.append(one)
    return _joined(reduce(and_, (one.condition for one in taken)), taken) if taken else None


def joined_by_or(conditions: Iterable[Known]) -> Known:
    """A condition that all rows meet which meet one of the conditions; None if they have too many parts."""
    taken: list[Joined] = []
    left = MOST_PARTS
    for one in conditions:
        if one is None or one.parts > left:
            return None
        left -= one.parts
        taken.append(one)
    if not taken:
        return Joined(pc.scalar(False))  # noqa: FBT003 - a literal of the expression language
    return _joined(reduce(or_, (one.condition for one in taken)), taken)


def one_of(column: pc.Expression, values: Column) -> pc.Expression:
    """A condition that is true where a column equals one of the values, and not null where it is null.

    The values have the column's type. They are no nulls, and no NaN.
    """
    if pa.types.is_floating(values.type):
        # In a list, numbers are found by their bits, which 0.0 and -0.0 do not share.
        zeros: Column = pa.array([0.0, -0.0] if 0.0 in values.to_pylist() else [], values.type)
        values = pa.concat_arrays([values, zeros])
    return column.isin(values)


def _joined(condition: pc.Expression, taken: Iterable[Joined]) -> Joined:
    return Joined(condition, sum(one.parts for one in taken))
