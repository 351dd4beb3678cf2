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
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import NoReturn

import numpy as np
import numpy.typing as npt

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
        """The probability that a key that was never added is found."""
        set_bits = int(np.unpackbits(self.bits, count=self.size, bitorder="little").sum())
        return float((set_bits / self.size) ** self.hashes)

    def may_hold(self, key: bytes) -> bool:
        """False if the key was certainly never added."""
        return all(self.bits[bit >> 3] >> (bit & 7) & 1 for bit in _bit_indices(key, self.hashes, self.size))


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomFilter:
    """The Bloom filter of a base file; a simple one has a single row, a dynamic one grows by rows."""

    rows: tuple[SimpleFilter, ...]

    @property
    def false_positive_rate(self) -> float:
        """The probability that a key that was never added is found."""
        return 1.0 - prod(1.0 - row.false_positive_rate for row in self.rows)

    @property
    def is_saturated(self) -> bool:
        """Whether more than half of the keys that were never added are found, so that a query is pointless.

        This happens because a dynamic filter has a maximum number of rows, but takes further keys.
        """
        return self.false_positive_rate > _SATURATED_RATE

    def may_hold(self, record_key: str) -> bool:
        """False if the key was certainly never added."""
        key = record_key.encode("utf-8", "surrogatepass")
        return any(row.may_hold(key) for row in self.rows)


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


def _corrupt(path: str, found: str, expected: str) -> NoReturn:
    raise CorruptBaseFileError(path, None, f"a Bloom filter of {found}", expected)


def _bit_indices(key: bytes, hashes: int, size: int) -> Iterator[int]:
    """The bits of a key. Each hash is the seed of the next."""
    hashed = 0
    for _ in range(hashes):
        hashed = murmur_hash(key, hashed)
        # Java takes the absolute value of a remainder that has the sign of the hash.
        yield abs(hashed) % size


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
