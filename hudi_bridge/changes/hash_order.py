"""The iteration order of hash maps in Java and Scala, which determines the order of map entries in Hudi's JSON."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions = npt.NDArray[np.int64]

_WORD = 0xFFFFFFFF
_SCALA_SMALL_MAP = 4
_SCALA_BITS = 5
_SCALA_LEVELS = 7


def java_map_order(keys: "pa.Array[Any]", lengths: Positions) -> Positions:
    """Positions of the entries of concatenated maps, with these ``lengths``, in the order of ``java.util.HashMap``.

    The order is by bucket, then by insertion. The bucket is the low bits of the key's hash, mixed with its high half.
    Keys are Avro's ``Utf8``, whose hash is that of the UTF-8 bytes, each signed.
    """
    capacities = np.maximum(1, 2 ** np.ceil(np.log2(np.maximum(lengths, 1)))).astype(np.int64)
    # Java doubles the capacity of a map when it is more than three quarters full.
    capacities = np.where(lengths > capacities * 3 // 4, capacities * 2, capacities)
    hashes = _by_distinct(keys, _utf8_hash)
    buckets = (hashes ^ (hashes >> 16)) & (np.repeat(capacities, lengths) - 1)
    return np.lexsort((np.arange(len(keys)), buckets, np.repeat(np.arange(len(lengths)), lengths)))


def scala_map_order(keys: "pa.Array[Any]", lengths: Positions) -> Positions:
    """Positions of the entries of concatenated maps, with these ``lengths``, in the order of Scala's immutable maps.

    The order of ``HashMap`` in Scala 2.12 is by the improved hash of the key, five bits at a time from the lowest on.
    Maps of up to four entries are of another class, which keeps the order of insertion.
    """
    ranks = _by_distinct(keys, _scala_rank)
    ranks = np.where(np.repeat(lengths, lengths) > _SCALA_SMALL_MAP, ranks, 0)
    return np.lexsort((np.arange(len(keys)), ranks, np.repeat(np.arange(len(lengths)), lengths)))


def _by_distinct(keys: "pa.Array[Any]", number_of: Callable[[str], int]) -> Positions:
    distinct: Any = keys.dictionary_encode()
    numbers = np.array([number_of(key) for key in distinct.dictionary.to_pylist()], dtype=np.int64)
    return numbers[distinct.indices.to_numpy(zero_copy_only=False)] if len(keys) else np.zeros(0, dtype=np.int64)


def _utf8_hash(text: str) -> int:
    value = 0
    for byte in text.encode():
        value = (31 * value + byte - (byte >= 1 << 7) * 256) & _WORD
    return value


def _scala_rank(text: str) -> int:
    units = text.encode("utf-16-be")
    value = 0
    for place in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[place : place + 2])) & _WORD
    value = (value + ~(value << 9)) & _WORD
    value ^= value >> 14
    value = (value + (value << 4)) & _WORD
    value ^= value >> 10
    rank = 0
    for level in range(_SCALA_LEVELS):
        rank = rank << _SCALA_BITS | (value >> level * _SCALA_BITS) & ((1 << _SCALA_BITS) - 1)
    return rank
