"""The record keys that a file slice may hold, by its own files: the footer of its base file and the keys of its logs.

The Parquet footer of a base file has the range of its record keys and a Bloom filter, but nothing of the log files. The
keys of all data blocks in log files are read and hashed. Both are read once for each file and cached by the storage.
``LookupKeys`` are the keys that are looked up, in the forms in which indexes need them.

Writers of Avro records order keys by UTF-16 code units, Spark's row writer by UTF-8 bytes: a key counts as outside of a
range only if it is so in both orders.

Source: ``HoodieBloomFilterWriteSupport``, ``HoodieAvroWriteSupport`` and ``BloomFilterTypeCode``.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.errors import CorruptBaseFileError, HudiReadError
from hudi_bridge.indexes.bloom_filter import SIMPLE, BloomFilter, HashedKeys, parse_bloom_filter
from hudi_bridge.indexes.record_kinds import FIRST_REORDERED
from hudi_bridge.logformat.parquet import PARQUET_ERRORS
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.merge.record_map import key_hashes
from hudi_bridge.readers.base_formats.footers import BaseFileFooter, text_range
from hudi_bridge.readers.base_formats.opening import open_base_file
from hudi_bridge.readers.block_decoder import BlockDecoder
from hudi_bridge.readers.log_scan import read_log_file, shorter_log_file
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

KeyHashes = npt.NDArray[np.uint64]
_LIKELY_BY_CHANCE = 0.5
_FILTERS = (b"org.apache.hudi.bloomfilter", b"com.uber.hoodie.bloomfilter")
_FILTER_TYPE = b"hoodie_bloom_filter_type_code"
_MIN_KEY = b"hoodie_min_record_key"
_MAX_KEY = b"hoodie_max_record_key"
_MOST_LOG_BYTES = 1 << 26
"""Keys of larger logs are not read ahead: their blocks would be decoded twice."""
_BYTES_OF_ANY = 512
"""What an entry counts in the cache besides its filter: about its key, its range and its objects."""


@dataclass(frozen=True, slots=True)
class LookupKeys:
    """Distinct record keys, ``texts``, in the order of their UTF-8 bytes.

    ``hashed`` has their hashes for Bloom filters in the same order; ``hashes`` are the ascending ``key_hashes``.
    ``is_ordered`` is whether they are also in the order of UTF-16 code units.
    """

    texts: list[str]
    hashed: HashedKeys
    hashes: KeyHashes
    is_ordered: bool

    @classmethod
    def of(cls, keys: Iterable[str]) -> "LookupKeys":
        """The given keys."""
        texts = sorted(set(keys))
        hashes = np.sort(key_hashes(pa.array(texts, pa.string())))
        return cls(texts, HashedKeys(texts), hashes, all(map(has_one_order, texts)))

    def any_in(self, hashes: KeyHashes) -> bool:
        """Whether one of the keys has one of the ascending hashes."""
        positions = np.searchsorted(hashes, self.hashes)
        inside = positions < len(hashes)
        return bool((hashes[positions[inside]] == self.hashes[inside]).any())


def has_one_order(text: str) -> bool:
    """Whether texts like this one have the same order by UTF-8 bytes as by UTF-16 code units."""
    return text.isascii() or max(text) < FIRST_REORDERED


class FooterAnswer(StrEnum):
    """The index's answer for a key."""

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

    def may_hold_any(self, keys: LookupKeys) -> bool:
        """Whether the base file may hold one of the keys.

        The Bloom filter is not used for so many keys that a false positive is likely.
        """
        start, end = self._in_range(keys)
        if start == end or self.bloom_filter is None:
            return start < end
        if (end - start) * self.bloom_filter.false_positive_rate > _LIKELY_BY_CHANCE:
            return True
        return self.bloom_filter.may_hold_any(keys.hashed, start, end)

    def _in_range(self, keys: LookupKeys) -> tuple[int, int]:
        """A range of indexes that includes all keys in the key range, and perhaps others."""
        texts = keys.texts
        if self.key_range is None:
            return 0, len(texts)
        minimum, maximum = self.key_range
        if keys.is_ordered and has_one_order(minimum) and has_one_order(maximum):
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


_NOTHING = FooterIndex(key_range=None, bloom_filter=None)


def cached_footer_index(storage: Storage, split: RealtimeFileSplit) -> FooterIndex | None:
    """The key range and Bloom filter of the base file, if they have been read before, or if there are none."""
    if split.base_path is None or not split.context.populates_meta_fields:
        # Without meta columns, keys in the footer may be spelled differently.
        return _NOTHING
    index: FooterIndex | None = storage.cache.get(_footer_key(split))
    return index


def footer_index(storage: Storage, split: RealtimeFileSplit) -> FooterIndex:
    """The key range and Bloom filter in the footer of the base file, which is cached for the read that follows.

    Raises:
        CorruptBaseFileError: one of them is damaged, or raised like ``open_base_file``.
    """
    path = split.base_path or ""
    if not split.context.populates_meta_fields:
        # Keys in the footer may be spelled differently.
        return _NOTHING
    if path.endswith(".parquet") and storage.decryption is None:
        # Open files are without the filter. Opening the file raises the error.
        footer = None
        with suppress(HudiReadError, OSError, *PARQUET_ERRORS):
            footer = BaseFileFooter(storage, split, path)
        if footer is not None:
            footer.keep()
            return parse_footer_index(footer.content.metadata or {}, path)
    with open_base_file(storage, split, path, use_threads=False) as base:
        return parse_footer_index(base.arrow_schema.metadata or {}, path)


def read_footer_index(storage: Storage, split: RealtimeFileSplit, keys: LookupKeys) -> FooterIndex:
    """The key range and Bloom filter of a Parquet base file, as far as it has them and they can be read without keys.

    If the base file may hold one of the keys, its footer is cached as well, for the read that follows.
    """
    path = split.base_path or ""
    if not path.endswith(".parquet") or storage.decryption is not None:
        storage.cache.put(_footer_key(split), _NOTHING, _BYTES_OF_ANY)
        return _NOTHING
    try:
        footer = BaseFileFooter(storage, split, path)
        index = parse_footer_index(footer.content.metadata or {}, path).without_full_filter()
        if index.key_range is None:
            index = replace(index, key_range=_range_of_statistics(footer.content))
        if index.may_hold_any(keys):
            footer.keep()
    except (HudiReadError, *PARQUET_ERRORS):
        # Reading the file raises the error.
        return _NOTHING
    size_bytes = index.bloom_filter.size_bytes if index.bloom_filter else 0
    storage.cache.put(_footer_key(split), index, size_bytes + _BYTES_OF_ANY)
    return index


def _range_of_statistics(footer: pq.FileMetaData) -> tuple[str, str] | None:
    ranges = [text_range(footer, group, RECORD_KEY_COLUMN) for group in range(footer.num_row_groups)]
    present = [key_range for key_range in ranges if key_range is not None]
    if not present or len(present) < len(ranges):
        return None
    return min(least for least, _ in present), max(greatest for _, greatest in present)


def cached_log_keys(storage: Storage, split: RealtimeFileSplit) -> KeyHashes | None:
    """The ascending hashes of the keys in the logs, if they have been read before."""
    hashes: KeyHashes | None = storage.cache.get(_log_key(split))
    return hashes


def read_log_keys(storage: Storage, split: RealtimeFileSplit) -> KeyHashes | None:
    """The ascending hashes of the keys in the logs; None if they cannot be read, or only at great cost."""
    rule = split.context.merge_rule
    if rule is None or split.log_size_bytes > _MOST_LOG_BYTES:
        return None
    decoder = BlockDecoder(split, ())
    hashes, sizes = [np.zeros(0, dtype=np.uint64)], []
    try:
        for path, size in split.log_files:
            file = read_log_file(storage, split, path, size, on_disk=False)
            sizes.append(file.size)
            # Blocks that do not count are included, so that the keys are valid at any instant.
            blocks = scan_blocks(file, path).blocks
            hashes += [key_hashes(decoder.keys(block).cast(pa.string())) for block in blocks if block.is_data]
    except HudiReadError:
        return None
    if shorter_log_file(split, sizes):
        # Reading the file raises the error.
        return None
    distinct = np.unique(np.concatenate(hashes))
    storage.cache.put(_log_key(split), distinct, distinct.nbytes + _BYTES_OF_ANY)
    return distinct


def _footer_key(split: RealtimeFileSplit) -> tuple[object, ...]:
    return ("key index", split.base_path, split.base_size_bytes)


def _log_key(split: RealtimeFileSplit) -> tuple[object, ...]:
    # Files only grow, and no longer where their names have instants of their own.
    return ("log keys", split.log_paths, split.log_size_bytes)
