"""Parses and queries the Bloom filters of base files.

They are Base64 of the bytes of Hadoop's ``Filter.write``, big-endian:

    offset  width  meaning
    0       4      version of the encoding, -1
    4       4      number of hash functions
    8       1      hash: 0 Jenkins, 1 Murmur
    9       4      number of bits, n
    13      ...    simple filter: (n + 7) / 8 bytes; bit i is bit i % 8 of byte i / 8
    13      4      dynamic filter: maximum number of keys in a row
    17      4      number of keys in the last row
    21      4      number of rows, each a whole simple filter

Source: ``SimpleBloomFilter``, ``InternalDynamicBloomFilter``, ``InternalBloomFilter`` and ``MurmurHash``.
"""

import base64
import binascii
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from hudi_bridge.common.caching import cached_property
from hudi_bridge.errors import CorruptBaseFileError

SIMPLE = "SIMPLE"
DYNAMIC = "DYNAMIC_V0"

_HEAD = struct.Struct(">iibi")
_ROWS_HEAD = struct.Struct(">iii")
_VERSION = -1
_MURMUR = 1
# Hudi uses at most 30; the count of a damaged file must not start a long loop.
_MAX_HASHES = 1000
_SATURATED_RATE = 0.5
# Up to so many keys, looking at single bits is faster than moving arrays.
_FEW_KEYS = 16
_KEYS_AT_ONCE = 1024

_UINT32 = 0xFFFFFFFF
_MURMUR_FACTOR = 0x5BD1E995
_MURMUR_SHIFT = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleFilter:
    """A Bloom filter of ``size`` bits."""

    hashes: int
    size: int
    bits: npt.NDArray[np.uint8]

    @property
    def false_positive_rate(self) -> float:
        """The probability that the filter may hold a key that was never added."""
        whole, rest = divmod(self.size, 8)
        set_bits = int.from_bytes(self.bits[:whole].tobytes()).bit_count()
        if rest:
            set_bits += (int(self.bits[whole]) & ((1 << rest) - 1)).bit_count()
        return float((set_bits / self.size) ** self.hashes)

    def may_hold(self, hashes: Iterable[int]) -> bool:
        """False if the key with these hashes was certainly never added."""
        bits, size = self.bits.data, self.size
        # Java takes the absolute value of a remainder that has the sign of the hash.
        return all(bits[(bit := abs(hashed) % size) >> 3] >> (bit & 7) & 1 for hashed in islice(hashes, self.hashes))

    def may_hold_any(self, keys: "HashedKeys", start: int, end: int) -> bool:
        """False if none of the keys from ``start`` up to ``end`` was ever added."""
        left = np.arange(start, end)
        for number in range(self.hashes):
            bit = np.abs(keys.hashes(number)[left]) % self.size
            left = left[(self.bits[bit >> 3] >> (bit & 7).astype(np.uint8) & 1).astype(np.bool_)]
            if not len(left):
                return False
        return bool(len(left))


@dataclass(frozen=True, kw_only=True)
class BloomFilter:
    """The Bloom filter of a base file; a simple one has a single row, a dynamic one grows by rows."""

    rows: tuple[SimpleFilter, ...]

    @property
    def size_bytes(self) -> int:
        """The memory of all rows."""
        return sum(row.bits.nbytes for row in self.rows)

    @cached_property
    def false_positive_rate(self) -> float:
        """The probability that the filter may hold a key that was never added."""
        return 1.0 - prod(1.0 - row.false_positive_rate for row in self.rows)

    @property
    def is_saturated(self) -> bool:
        """Whether the filter may hold more than half of the keys that were never added, so that a query is pointless.

        This happens because a dynamic filter has a maximum number of rows, but takes further keys.
        """
        return self.false_positive_rate > _SATURATED_RATE

    def may_hold(self, record_key: str) -> bool:
        """False if the key was certainly never added."""
        key = record_key.encode("utf-8", "surrogatepass")
        return any(row.may_hold(_hashes(key)) for row in self.rows)

    def may_hold_any(self, keys: "HashedKeys", start: int, end: int) -> bool:
        """False if none of the keys from ``start`` up to ``end`` was ever added."""
        if end - start <= _FEW_KEYS:
            return any(row.may_hold(keys.hashes_of(key, row.hashes)) for key in range(start, end) for row in self.rows)
        # Most keys are in few files; if one may be there, the others need not be checked.
        return any(
            row.may_hold_any(keys, first, min(end, first + _KEYS_AT_ONCE))
            for first in range(start, end, _KEYS_AT_ONCE)
            for row in self.rows
        )


class HashedKeys:
    """Record keys with their hashes, which are computed once for all filters and only as far as filters ask."""

    def __init__(self, record_keys: Sequence[str]) -> None:
        self._keys = [key.encode("utf-8", "surrogatepass") for key in record_keys]
        self._by_number: list[npt.NDArray[np.int64]] = []
        self._by_key: dict[int, list[int]] = {}

    def hashes_of(self, index: int, count: int) -> list[int]:
        """At least ``count`` hashes of one key."""
        hashes = self._by_key.get(index)
        if hashes is None or len(hashes) < count:
            hashes = self._by_key[index] = list(islice(_hashes(self._keys[index]), count))
        return hashes

    def hashes(self, number: int) -> npt.NDArray[np.int64]:
        """The hash of a number, from 0 on, of all keys."""
        while len(self._by_number) <= number:
            seeds = self._by_number[-1] if self._by_number else np.zeros(len(self._keys), dtype=np.int64)
            self._by_number.append(self._next(seeds))
        return self._by_number[number]

    def _next(self, seeds: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        hashes = np.empty(len(self._keys), dtype=np.int64)
        for positions, data in self._by_length:
            hashes[positions] = _murmur_hashes(data, seeds[positions])
        return hashes

    @cached_property
    def _by_length(self) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]]:
        """The keys of each length: their places, and their bytes as rows."""
        lengths = np.array([len(key) for key in self._keys], dtype=np.int64)
        groups = []
        for length in np.unique(lengths).tolist():
            positions = np.flatnonzero(lengths == length)
            data = np.frombuffer(b"".join(self._keys[position] for position in positions.tolist()), np.uint8)
            groups.append((positions, data.reshape(len(positions), length)))
        return groups


def parse_bloom_filter(text: bytes, type_code: str, path: str) -> BloomFilter | None:
    """The filter in the footer of a base file; None for a type or a hash function that Hudi does not write.

    Raises:
        CorruptBaseFileError: the text is not a filter of this type.
    """
    if type_code not in (SIMPLE, DYNAMIC):
        return None
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise CorruptBaseFileError(path, None, f"a Bloom filter that is not base64: {error}", "base64") from error
    if len(data) < _HEAD.size:
        _corrupt(path, f"{len(data)} bytes", f"at least {_HEAD.size}")
    version, _, hash_type, _ = _HEAD.unpack_from(data)
    if version != _VERSION or hash_type != _MURMUR:
        return None
    if type_code == SIMPLE:
        row, end = _simple(data, 0, path)
        rows = [row]
    else:
        rows, end = _dynamic(data, path)
    if end != len(data):
        _corrupt(path, f"{len(data)} bytes", f"{end}")
    return BloomFilter(rows=tuple(rows))


def _simple(data: bytes, start: int, path: str) -> tuple[SimpleFilter, int]:
    """The simple filter that begins at ``start``, and where it ends."""
    bits = start + _HEAD.size
    if bits > len(data):
        _corrupt(path, f"{len(data)} bytes", f"at least {bits}")
    version, hashes, hash_type, size = _HEAD.unpack_from(data, start)
    if version != _VERSION or hash_type != _MURMUR:
        _corrupt(path, f"a row of version {version} and hash {hash_type}", f"version {_VERSION} and hash {_MURMUR}")
    if not 1 <= hashes <= _MAX_HASHES:
        _corrupt(path, f"{hashes} hash functions", f"1 to {_MAX_HASHES}")
    if size < 1:
        _corrupt(path, f"{size} bits", "at least 1")
    end = bits + (size + 7) // 8
    if end > len(data):
        _corrupt(path, f"{len(data)} bytes", f"at least {end}")
    return SimpleFilter(hashes=hashes, size=size, bits=np.frombuffer(data[bits:end], np.uint8)), end


def _dynamic(data: bytes, path: str) -> tuple[list[SimpleFilter], int]:
    end = _HEAD.size + _ROWS_HEAD.size
    if end > len(data):
        _corrupt(path, f"{len(data)} bytes", f"at least {end}")
    _, _, count = _ROWS_HEAD.unpack_from(data, _HEAD.size)
    if count < 1:
        _corrupt(path, f"{count} rows", "at least 1")
    rows = []
    for _ in range(count):
        row, end = _simple(data, end, path)
        rows.append(row)
    return rows, end


def _corrupt(path: str, actual: str, expected: str) -> NoReturn:
    raise CorruptBaseFileError(path, None, f"a Bloom filter of {actual}", expected)


def _hashes(key: bytes) -> Iterator[int]:
    """The hashes of a key, without end; each is the seed of the next."""
    hashed = 0
    while True:
        hashed = murmur_hash(key, hashed)
        yield hashed


def _murmur_hashes(data: npt.NDArray[np.uint8], seeds: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """``murmur_hash`` of each row of ``data`` with its seed."""
    length = data.shape[1]
    factor, words = np.uint32(_MURMUR_FACTOR), length // 4
    hashed = seeds.astype(np.uint32) ^ np.uint32(length)
    columns = np.ascontiguousarray(data[:, : words * 4]).view(np.dtype("<u4")).T
    for word in columns:
        mixed = word * factor
        mixed = (mixed ^ (mixed >> np.uint32(_MURMUR_SHIFT))) * factor
        hashed = hashed * factor ^ mixed
    rest = data[:, words * 4 :].view(np.int8).astype(np.int32).view(np.uint32)
    if length % 4:
        for index in range(length % 4):
            # Java's bytes are signed: a negative one sets all higher bits.
            hashed = hashed ^ (rest[:, length % 4 - 1 - index] << np.uint32(8 * index))
        hashed = hashed * factor
    hashed = (hashed ^ (hashed >> np.uint32(13))) * factor
    hashed = hashed ^ (hashed >> np.uint32(15))
    signed: npt.NDArray[np.int64] = hashed.view(np.int32).astype(np.int64)
    return signed


def murmur_hash(data: bytes, seed: int) -> int:
    """Hadoop's 32-bit Murmur hash, as a signed integer; unlike the original, it takes the last bytes as signed."""
    words = len(data) // 4
    hashed = (seed ^ len(data)) & _UINT32
    for (word,) in struct.iter_unpack("<I", data[: words * 4]):
        mixed = word * _MURMUR_FACTOR & _UINT32
        mixed = (mixed ^ mixed >> _MURMUR_SHIFT) * _MURMUR_FACTOR & _UINT32
        hashed = hashed * _MURMUR_FACTOR & _UINT32 ^ mixed
    rest = data[words * 4 :]
    if rest:
        # Java's bytes are signed: a negative one sets all higher bits.
        for index, (value,) in enumerate(struct.iter_unpack("b", rest[::-1])):
            hashed ^= value << 8 * index & _UINT32
        hashed = hashed * _MURMUR_FACTOR & _UINT32
    hashed ^= hashed >> 13
    hashed = hashed * _MURMUR_FACTOR & _UINT32
    hashed ^= hashed >> 15
    return hashed - (1 << 32) if hashed >> 31 else hashed
