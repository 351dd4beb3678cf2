"""Where two answers to one query differ: records of one side only, and values that are not the same.

Types are taken leniently: integers of any width are numbers, floats are compared by their bits as doubles, times by
their instants, decimals by their values, maps whatever the order of their entries. A null equals only a null.
"""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Codes = npt.NDArray[np.int64]
"""For each row, a number for its value; rows with equal values have equal numbers."""
KEY_COLUMNS = ("_hoodie_partition_path", "_hoodie_record_key")
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One record, by its key or all of its values: on one side only, or with other values in some columns.

    ``columns`` maps a column to its value here and its value there.
    """

    record: Record
    side: str
    columns: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """How many records differ, the first of them, and the columns that only one side has."""

    only_here: int = 0
    only_there: int = 0
    changed: int = 0
    examples: tuple[Difference, ...] = ()
    columns_here: tuple[str, ...] = ()
    columns_there: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.only_here or self.only_there or self.changed or self.columns_here or self.columns_there)


def compare_rows(here: pa.Table, there: pa.Table, most: int) -> Differences:
    """The differences between two answers, with at most ``most`` examples of each kind.

    Records are matched by record key and partition, or by all of their values where keys repeat or are not there.
    """
    columns = [name for name in here.column_names if name in there.column_names]
    columns_here = tuple(name for name in here.column_names if name not in columns)
    columns_there = tuple(name for name in there.column_names if name not in columns)
    codes = {name: _codes(here[name], there[name]) for name in columns}
    keys = [name for name in KEY_COLUMNS if name in columns]
    rows = _by_key(here, there, codes, keys, most) if keys else None
    if rows is None:
        rows = _by_value(here, there, codes, columns, most)
    only_here, only_there, changed, examples = rows
    return Differences(
        only_here=only_here,
        only_there=only_there,
        changed=changed,
        examples=tuple(examples),
        columns_here=columns_here,
        columns_there=columns_there,
    )


_Found = tuple[int, int, int, list[Difference]]


def _by_key(
    here: pa.Table, there: pa.Table, codes: Mapping[str, Codes], keys: Sequence[str], most: int
) -> _Found | None:
    """The differences by key; None if keys repeat on a side."""
    size = here.num_rows
    number = _numbered([codes[name] for name in keys], size + there.num_rows)
    ours, theirs = number[:size], number[size:]
    if len(np.unique(ours)) < len(ours) or len(np.unique(theirs)) < len(theirs):
        return None
    _, at_here, at_there = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    unequal = {name: code[:size][at_here] != code[size:][at_there] for name, code in codes.items()}
    changed = np.flatnonzero(np.logical_or.reduce(list(unequal.values())))
    only_here = np.flatnonzero(~np.isin(ours, theirs))
    only_there = np.flatnonzero(~np.isin(theirs, ours))
    examples = [
        Difference(
            record=_record(here, keys, int(at_here[place])),
            side="both",
            columns={
                name: (here[name][int(at_here[place])].as_py(), there[name][int(at_there[place])].as_py())
                for name, differs in unequal.items()
                if differs[place]
            },
        )
        for place in changed[:most].tolist()
    ]
    examples += _of_one_side(here, keys, only_here[:most], "here")
    examples += _of_one_side(there, keys, only_there[:most], "there")
    return len(only_here), len(only_there), len(changed), examples


def _by_value(here: pa.Table, there: pa.Table, codes: Mapping[str, Codes], columns: Sequence[str], most: int) -> _Found:
    """The differences of whole rows, each counted as often as one side has it more often."""
    size = here.num_rows
    number = _numbered([codes[name] for name in columns], size + there.num_rows)
    kinds = int(number.max(initial=-1)) + 1
    balance = np.bincount(number[:size], minlength=kinds) - np.bincount(number[size:], minlength=kinds)
    more_here = np.flatnonzero(np.isin(number[:size], np.flatnonzero(balance > 0)))
    more_there = np.flatnonzero(np.isin(number[size:], np.flatnonzero(balance < 0)))
    examples = _of_one_side(here, columns, more_here[:most], "here")
    examples += _of_one_side(there, columns, more_there[:most], "there")
    return int(balance[balance > 0].sum()), int(-balance[balance < 0].sum()), 0, examples


def _of_one_side(table: pa.Table, columns: Sequence[str], places: Codes, side: str) -> list[Difference]:
    return [Difference(record=_record(table, columns, place), side=side, columns={}) for place in places.tolist()]


def _record(table: pa.Table, columns: Iterable[str], place: int) -> Record:
    return {name: table[name][place].as_py() for name in columns}


def _numbered(codes: Sequence[Codes], rows: int) -> Codes:
    """A number for each row, the same for rows with the same codes in all columns."""
    number = np.zeros(rows, dtype=np.int64)
    for code in codes:
        number = np.unique(np.stack([number, code], axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    return number


def _codes(here: Any, there: Any) -> Codes:  # noqa: ANN401 - chunked arrays of any type
    one, other = _comparable(here), _comparable(there)
    if one.type != other.type:
        one, other = _texts(here), _texts(there)
    both = pa.concat_arrays([one, other]).dictionary_encode(null_encoding="encode")
    return np.asarray(both.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _comparable(column: Any) -> Any:  # noqa: ANN401 - arrays of any type
    """The column in a type in which equal values of lenient types are equal."""
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_floating(kind):
        return _float_bits(array.cast(pa.float64()))
    if pa.types.is_integer(kind):
        return array.cast(pa.int64())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return array.cast(pa.large_string())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return array.cast(pa.large_binary())
    if pa.types.is_boolean(kind) or pa.types.is_date32(kind):
        return array
    return _texts(column)


def _float_bits(array: Any) -> Any:  # noqa: ANN401 - an array
    values = array.fill_null(0.0).to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    # Durations, so that floats are never equal to whole numbers.
    return pa.array(bits, mask=array.is_null().to_numpy(zero_copy_only=False)).view(pa.duration("ns"))


def _texts(column: Any) -> Any:  # noqa: ANN401 - arrays of any type
    values = column.to_pylist()
    return pa.array([None if value is None else _text(value) for value in values], pa.large_string())


def _text(value: Any) -> str:  # noqa: ANN401 - a value of any column
    """A text of a value that equal values share, whatever the types that hold them."""
    match value:
        case dict():
            return "{" + ",".join(f"{name!r}:{_text(value[name])}" for name in sorted(value)) + "}"
        case list() if value and all(isinstance(item, tuple) for item in value):
            return "map" + ",".join(sorted(f"{_text(key)}:{_text(item)}" for key, item in value))
        case list():
            return "[" + ",".join(map(_text, value)) + "]"
        case dt.datetime():
            moment = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
            return f"time {moment.isoformat()}"
        case Decimal():
            return f"decimal {value.normalize():f}" if value else "decimal 0"
        case _:
            return repr(value)
