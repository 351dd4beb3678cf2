"""The text of values as Java's ``toString`` returns it, especially of floating-point values in Java 17.

Hudi turns floats into text, and by way of text into decimals. Before Java 19 the text is not always the shortest that
reads back as the same value (JDK-4511638): 2^-44 is ``5.6843418860808015E-14``, one digit more than needed.

Source: ``jdk.internal.math.FloatingDecimal``.
"""

import math
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_DOUBLE_FRACTION_BITS = 52
_FLOAT_FRACTION_BITS = 23

# Integers with a larger binary exponent do not fit a long.
_LARGEST_LONG_EXPONENT = 62

# Java has a table with the lengths of the powers of five up to 5^26.
_EXACT_FIVES = 27

# Java writes numbers from 10^-3 up to 10^7 without an exponent. From these bounds up to 10^7, the older rule finds the
# shortest text too: no word of the division overflows, and no shortest text lies exactly between two values.
_SHORTEST_FROM = {pa.float64(): 0.1, pa.float32(): 1.0}
_SHORTEST_TO = 1e7
_CELLS_AT_ONCE = 1 << 22
"""Keys are hashed in parts, each a matrix of about this many characters, so that one long key costs no gigabytes."""

_TIMES = ("ms", "us")

INT32 = 0xFFFFFFFF
"""Java's ints wrap around: all results of ``string_hash`` and of sums made from them are taken in these bits."""


def string_hash(text: str) -> int:
    """The result of ``String.hashCode``, over UTF-16 code units, as an unsigned number."""
    hashed = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = 31 * hashed + (high << 8 | low) & INT32
    return hashed


def double_text(value: float) -> str:
    """The result of ``Double.toString`` of Java 17."""
    bits = int.from_bytes(struct.pack(">d", value))
    return _text(value, bits & ((1 << 52) - 1), (bits >> 52) & 0x7FF, _DOUBLE_FRACTION_BITS)


def float_text(value: float) -> str:
    """The result of ``Float.toString`` of Java 17; the value must be a 32-bit float."""
    bits = int.from_bytes(struct.pack(">f", value))
    return _text(value, bits & ((1 << 23) - 1), (bits >> 23) & 0xFF, _FLOAT_FRACTION_BITS)


def floating_text(array: "pa.Array[Any]") -> pa.StringArray:
    """The text of each value of a float or double array; null for null.

    Vectorized for numbers of moderate size; each other number takes some ten microseconds.
    """
    text_of = double_text if pa.types.is_float64(array.type) else float_text
    rare = pa.array(~_is_shortest(array))
    texts = pc.replace_substring_regex(array.cast(pa.string()), "^([^.]*)$", r"\1.0")
    rare_texts = [None if value is None else text_of(value) for value in array.filter(rare).to_pylist()]
    all_texts: pa.StringArray = pc.replace_with_mask(texts, rare, pa.array(rare_texts, pa.string()))
    return all_texts


def has_value_text(kind: pa.DataType) -> bool:
    """Whether ``value_text`` supports values of a type: the ``toString`` of other types does not
    depend on the value.
    """
    is_time = pa.types.is_timestamp(kind) and kind.unit in _TIMES
    is_number = pa.types.is_integer(kind) or pa.types.is_decimal(kind) or _is_float(kind)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return is_text or is_number or is_time or pa.types.is_date32(kind) or pa.types.is_boolean(kind)


def value_text(array: "pa.Array[Any]") -> pa.StringArray:
    """The ``toString`` of each value as Spark holds it within itself; null for null.

    Dates are numbers of days since 1970, and times, of milliseconds or microseconds, numbers of microseconds.

    Source: ``UTF8String``, ``Decimal`` and the boxed numbers of Spark's ``InternalRow``.
    """
    kind = array.type
    if _is_float(kind):
        return floating_text(array)
    values: Any = array
    if pa.types.is_date32(kind):
        values = array.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        values = array.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    texts: pa.StringArray = values.cast(pa.string())
    return texts


def _is_float(kind: pa.DataType) -> bool:
    return pa.types.is_float32(kind) or pa.types.is_float64(kind)


def _is_shortest(array: "pa.Array[Any]") -> npt.NDArray[np.bool_]:
    """Which values certainly have the shortest text: values of moderate size that are not powers of two."""
    values = array.to_numpy(zero_copy_only=False)
    magnitude = np.abs(values)
    moderate = (magnitude >= _SHORTEST_FROM[array.type]) & (magnitude < _SHORTEST_TO)
    shortest: npt.NDArray[np.bool_] = moderate & (np.frexp(magnitude)[0] != 0.5)  # noqa: PLR2004 - of a power of two
    return shortest


def _text(value: float, fraction: int, exponent: int, fraction_bits: int) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return sign + "0.0"
    digits, point = _digits(fraction, exponent, fraction_bits)
    return sign + _notation(digits, point)


def _notation(digits: str, point: int) -> str:
    """The digits as Java writes them, with the decimal point before the digit at index ``point``."""
    if 0 < point < 8:  # noqa: PLR2004 - up to 7 digits before the point
        return f"{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    if -3 < point <= 0:  # noqa: PLR2004 - up to 2 zeros after the point
        return f"0.{'0' * -point}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _digits(fraction: int, exponent: int, fraction_bits: int) -> tuple[str, int]:
    """The digits of a positive value and the index of its decimal point."""
    bias = 1023 if fraction_bits == _DOUBLE_FRACTION_BITS else 127
    if exponent == 0:
        significant_bits = fraction.bit_length()
        shift = fraction_bits + 1 - significant_bits
        fraction <<= shift
        binary_exponent = 1 - shift - bias
    else:
        significant_bits = fraction_bits + 1
        fraction |= 1 << fraction_bits
        binary_exponent = exponent - bias
    # From here on the value is fraction * 2^(binary_exponent - 52), for floats as well.
    fraction <<= _DOUBLE_FRACTION_BITS - fraction_bits
    tail_zeros = (fraction & -fraction).bit_length() - 1
    fraction_length = _DOUBLE_FRACTION_BITS + 1 - tail_zeros
    if fraction_length - 1 <= binary_exponent <= _LARGEST_LONG_EXPONENT:
        return _whole_number_digits(fraction, binary_exponent, significant_bits)
    estimate = _estimated_exponent(fraction, binary_exponent)
    return _divided_digits(fraction >> tail_zeros, fraction_length, binary_exponent, significant_bits, estimate)


def _whole_number_digits(fraction: int, binary_exponent: int, significant_bits: int) -> tuple[str, int]:
    """The digits of an integer below 2^63 that its significant bits determine."""
    shift = binary_exponent - _DOUBLE_FRACTION_BITS
    number = fraction << shift if shift >= 0 else fraction >> -shift
    dropped = 0
    if binary_exponent > significant_bits:
        dropped = len(str(1 << (binary_exponent - significant_bits - 1))) - 1
        number, rest = divmod(number, 10**dropped)
        number += dropped > 0 and rest >= 10**dropped // 2
    digits = str(number)
    return digits.rstrip("0"), len(digits) + dropped


def _estimated_exponent(fraction: int, binary_exponent: int) -> int:
    """The decimal exponent of the value, or one more: Java's linear estimate of log10."""
    mantissa: float = struct.unpack(">d", struct.pack(">Q", 0x3FF << 52 | fraction & ((1 << 52) - 1)))[0]
    return math.floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + binary_exponent * 0.301029995663981)


def _divided_digits(
    fraction: int, fraction_length: int, binary_exponent: int, significant_bits: int, decimal_exponent: int
) -> tuple[str, int]:
    """The digits of ``fraction * 2^(binary_exponent + 1 - fraction_length)``, enough to identify it."""
    tiny_bits = max(0, fraction_length - binary_exponent - 1)
    fives, s_fives = max(0, -decimal_exponent), max(0, decimal_exponent)
    s_twos = s_fives + tiny_bits
    twos = fives + tiny_bits + binary_exponent
    m_twos = twos - significant_bits - (fraction_length == 1)
    twos -= fraction_length - 1
    common = min(twos, s_twos)
    twos, s_twos, m_twos = twos - common, s_twos - common, m_twos - common
    if m_twos < 0:
        twos, s_twos, m_twos = twos - m_twos, s_twos - m_twos, 0
    return _long_division(
        fraction * 5**fives << twos,
        5**s_fives << s_twos,
        5**fives << m_twos,
        decimal_exponent,
        _word_bits(fraction_length + twos + _bits_of_five_to(fives), s_twos + 1 + _bits_of_five_to(s_fives + 1)),
    )


def _bits_of_five_to(power: int) -> int:
    """Java's bound for the bits of 5^power: exact up to 26, then three bits per power."""
    if power == 0:
        return 0
    return (5**power).bit_length() if power < _EXACT_FIVES else 3 * power


def _word_bits(value_bits: int, divisor_bits: int) -> int | None:
    """The width of the integers of Java's division; None if they are ``FDBigInteger``s."""
    return next((bits for bits in (32, 64) if value_bits < bits and divisor_bits < bits), None)


def _long_division(b: int, s: int, m: int, decimal_exponent: int, word_bits: int | None) -> tuple[str, int]:
    """The digits of b / s, up to the first after which less than m is left on either side.

    ``m`` is half a unit in the last place. As in Java, the bound is too strict below powers of two. The integers
    of ``word_bits`` overflow, which changes the digits of some values.
    """
    tens = 10 * s
    quotient, b, m = b // s, 10 * (b % s), _wrapped(10 * m, word_bits)
    low, high = b < m, _is_high(b, m, tens, word_bits)
    digits = []
    if quotient == 0 and not high:
        decimal_exponent -= 1
    else:
        digits.append(quotient)
    if decimal_exponent < -3 or decimal_exponent >= 8:  # noqa: PLR2004 - E notation shows at least two digits
        low = high = False
    while not (low or high):
        quotient, b, m = b // s, 10 * (b % s), _wrapped(10 * m, word_bits)
        # Once m has overflowed its word, no further digit matters.
        low, high = (b < m, _is_high(b, m, tens, word_bits)) if m > 0 else (True, True)
        digits.append(quotient)
    above_middle = 2 * b - tens
    if high and (not low or above_middle > 0 or (above_middle == 0 and digits[-1] % 2)):
        number = str(int("".join(map(str, digits))) + 1)
        carried = len(number) > len(digits)
        return (number[:-1] if carried else number), decimal_exponent + 1 + carried
    return "".join(map(str, digits)), decimal_exponent + 1


def _is_high(b: int, m: int, tens: int, word_bits: int | None) -> bool:
    return b + m >= tens if word_bits is None else _wrapped(b + m, word_bits) > tens


def _wrapped(value: int, word_bits: int | None) -> int:
    """The value as a two's complement integer of that many bits."""
    if word_bits is None:
        return value
    half = 1 << (word_bits - 1)
    return (value + half) % (2 * half) - half


def string_hashes(keys: pa.StringArray) -> npt.NDArray[np.int32]:
    """``string_hash`` of many keys at once, as signed numbers."""
    if not len(keys):
        return np.zeros(0, np.int32)
    longest = pc.max(pc.binary_length(keys)).as_py()
    rows = max(1, _CELLS_AT_ONCE // max(1, longest))
    parts = [_hashes_of_part(keys.slice(start, rows)) for start in range(0, len(keys), rows)]
    return np.concatenate(parts)


def _hashes_of_part(keys: pa.StringArray) -> npt.NDArray[np.int32]:
    units = [(key or "").encode("utf-16-le", "surrogatepass") for key in keys.to_pylist()]
    lengths = np.fromiter(map(len, units), np.int64, len(units)) // 2
    width = int(lengths.max(initial=0))
    matrix = np.frombuffer(b"".join(unit.ljust(2 * width, b"\0") for unit in units), "<u2").reshape(len(units), width)
    hashes = np.zeros(len(units), np.uint32)
    for position in range(width):
        grown = hashes * np.uint32(31) + matrix[:, position]
        hashes = np.where(position < lengths, grown, hashes)
    return hashes.astype(np.int32)
