"""The index in the Parquet footer of a base file: the range of its record keys, and a Bloom filter.

It says nothing of the log files of the slice.

Source: ``HoodieBloomFilterWriteSupport``, ``HoodieAvroWriteSupport`` and ``BloomFilterTypeCode``.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from hudi_bridge.errors import CorruptBaseFileError
from hudi_bridge.indexes.bloom_filter import SIMPLE, BloomFilter, parse_bloom_filter
from hudi_bridge.indexes.wanted_keys import WantedKeys, has_one_order

_LIKELY_BY_CHANCE = 0.5
_FILTERS = (b"org.apache.hudi.bloomfilter", b"com.uber.hoodie.bloomfilter")
_FILTER_TYPE = b"hoodie_bloom_filter_type_code"
_MIN_KEY = b"hoodie_min_record_key"
_MAX_KEY = b"hoodie_max_record_key"


class FooterAnswer(StrEnum):
    """What the index tells of a key."""

    OUT_OF_RANGE = "outside of the key range"
    NOT_IN_FILTER = "not in the Bloom filter"
    MAY_HOLD = "may hold the key"


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterIndex:
    """The key range, both ends included, and the Bloom filter of a base file; each None if the footer lacks it."""

    key_range: tuple[str, str] | None
    bloom_filter: BloomFilter | None

    def ask(self, record_key: str) -> FooterAnswer:
        """Whether the base file may hold a key, and if not, why."""
        if self.key_range is not None and _is_outside(record_key, *self.key_range):
            return FooterAnswer.OUT_OF_RANGE
        bloom_filter = self.bloom_filter
        if bloom_filter is not None and not bloom_filter.is_saturated and not bloom_filter.may_hold(record_key):
            return FooterAnswer.NOT_IN_FILTER
        return FooterAnswer.MAY_HOLD

    def without_full_filter(self) -> "FooterIndex":
        """The same index, without its Bloom filter if that is saturated."""
        if self.bloom_filter is None or not self.bloom_filter.is_saturated:
            return self
        return FooterIndex(key_range=self.key_range, bloom_filter=None)

    def may_hold_any(self, wanted: WantedKeys) -> bool:
        """Whether the base file may hold one of the wanted keys.

        The Bloom filter is not asked about so many keys that one of them is likely to be found by chance.
        """
        start, end = self._in_range(wanted)
        if start == end or self.bloom_filter is None:
            return start < end
        if (end - start) * self.bloom_filter.false_positive_rate > _LIKELY_BY_CHANCE:
            return True
        return self.bloom_filter.may_hold_any(wanted.hashed, start, end)

    def _in_range(self, wanted: WantedKeys) -> tuple[int, int]:
        """Which of the keys are in the key range: those from an index up to another, and perhaps others."""
        texts = wanted.texts
        if self.key_range is None:
            return 0, len(texts)
        minimum, maximum = self.key_range
        if wanted.is_ordered and has_one_order(minimum) and has_one_order(maximum):
            return bisect_left(texts, minimum), bisect_right(texts, maximum)
        inside = [index for index, key in enumerate(texts) if not _is_outside(key, minimum, maximum)]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)

    def possible(self, record_keys: Iterable[str]) -> list[str]:
        """The keys that the base file may hold."""
        key_range, bloom_filter = self.key_range, self.bloom_filter
        if bloom_filter is not None and bloom_filter.is_saturated:
            bloom_filter = None
        return [
            key
            for key in record_keys
            if (key_range is None or not _is_outside(key, *key_range))
            and (bloom_filter is None or bloom_filter.may_hold(key))
        ]


def parse_footer_index(footer: Mapping[bytes, bytes], path: str) -> FooterIndex:
    """The index in the key-value metadata of a Parquet footer.

    Raises:
        CorruptBaseFileError: a part of the index cannot be parsed.
    """
    bloom_filter = None
    stored = next((footer[name] for name in _FILTERS if name in footer), None)
    if stored is not None:
        type_code = _text(footer.get(_FILTER_TYPE, SIMPLE.encode()), path)
        bloom_filter = parse_bloom_filter(stored, type_code, path)
    key_range = None
    if _MIN_KEY in footer and _MAX_KEY in footer:
        key_range = (_text(footer[_MIN_KEY], path), _text(footer[_MAX_KEY], path))
    return FooterIndex(key_range=key_range, bloom_filter=bloom_filter)


def filter_in_footer(entries: Mapping[str, str]) -> tuple[str, bytes] | None:
    """The type and the text of the Bloom filter in the key-value metadata of a footer, None if there is none."""
    stored = next((entries[name.decode()] for name in _FILTERS if name.decode() in entries), None)
    return None if stored is None else (entries.get(_FILTER_TYPE.decode(), SIMPLE), stored.encode())


def _text(value: bytes, path: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise CorruptBaseFileError(path, None, f"a footer entry that is not text: {error.reason}", "UTF-8") from error


def _is_outside(key: str, minimum: str, maximum: str) -> bool:
    """Whether a key is outside of the range, whichever of two orders the writer used.

    Writers of Avro records compare Java strings, by UTF-16 code units; the row writer of Spark compares UTF-8 bytes.
    """
    return all(
        not minimum.encode(encoding, "surrogatepass")
        <= key.encode(encoding, "surrogatepass")
        <= maximum.encode(encoding, "surrogatepass")
        for encoding in ("utf-16-be", "utf-8")
    )
