r"""The functions of expression indexes whose results follow from a filter of Arrow's.

A filter names results by ``=`` or ``IN``, of Arrow's function of the same meaning or of the column itself. Spark, which
writes the index, and Arrow may differ in letters outside of ASCII, and Spark's result depends on the language of the
writer. A text in ASCII has the same result in both. A result in ASCII of Arrow's may be that of a text outside of it:
such a text has ``\u0130`` for ``i``, or ``\u0131`` for ``I``, which Spark may leave or turn into another letter.

Results that depend on the writer's time zone, as those of times and of ``from_unixtime``, do not follow from anything.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.merge.arrays import Column
from hudi_bridge.readers.filter_values import allowed_results, allowed_values

Range = tuple[Any, Any]
"""The least and the greatest result, both included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedFunction:
    """A function over a column of the type that ``takes`` says, whose results have a type.

    ``of_value`` is the result for a value, ``of_result`` the range of what the index may have for a result of one of
    the functions of ``arrow``; each is None if it is not known.
    """

    takes: Callable[[pa.DataType], bool]
    returns: pa.DataType
    arrow: tuple[str, ...]
    of_value: Callable[[Any], Any]
    of_result: Callable[[Any], Range | None]

    def wanted(self, row_filter: pc.Expression, column: str) -> Sequence[Range] | None:
        """The ranges among which is the result of every row passing the filter; None if they are not known."""
        values = allowed_values(row_filter, column)
        if values is not None:
            results = [self.of_value(value) for value in _plain(values)]
            return None if None in results else [(one, one) for one in results]
        for name in self.arrow:
            found = allowed_results(row_filter, name, column)
            if found is not None:
                ranges = [self.of_result(value) for value in _plain(found)]
                return None if None in ranges else [one for one in ranges if one is not None]
        return None


def _plain(values: Column) -> list[Any]:
    try:
        return list(values.to_pylist())
    except (ValueError, OverflowError):
        # A date that Python does not have.
        return [None]


def _in_case(change: Callable[[str], str], letter: str, greatest: str) -> tuple[Callable[[Any], Any], Any]:
    """The results for values and for results; Spark may have up to ``greatest`` for a letter of Arrow's result."""

    def of_value(value: object) -> str | None:
        return change(value) if isinstance(value, str) and value.isascii() else None

    def of_result(value: object) -> Range | None:
        return (value, value.replace(letter, greatest)) if isinstance(value, str) and value.isascii() else None

    return of_value, of_result


def _part_of_date(name: str) -> IndexedFunction:
    return IndexedFunction(
        takes=pa.types.is_date32,
        returns=pa.int32(),
        arrow=(name,),
        of_value=lambda value: getattr(value, name, None),
        of_result=_number,
    )


def _number(value: object) -> Range | None:
    return (value, value) if isinstance(value, int) and not isinstance(value, bool) else None


def _text_function(arrow: tuple[str, ...], functions: tuple[Callable[[Any], Any], Any]) -> IndexedFunction:
    of_value, of_result = functions
    return IndexedFunction(
        takes=pa.types.is_string, returns=pa.string(), arrow=arrow, of_value=of_value, of_result=of_result
    )


FUNCTIONS: Mapping[str, IndexedFunction] = {
    "lower": _text_function(("utf8_lower", "ascii_lower"), _in_case(str.lower, "i", "\u0131")),
    "upper": _text_function(("utf8_upper", "ascii_upper"), _in_case(str.upper, "I", "\u0130")),
    "year": _part_of_date("year"),
    "month": _part_of_date("month"),
    "day": _part_of_date("day"),
}
"""The functions by Hudi's names."""
