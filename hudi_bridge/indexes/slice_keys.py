"""What is known of the record keys in one file slice, read once for each file and kept with the storage.

Of a base file, that is its key range and Bloom filter; of log files, the hashes of the keys in their data blocks.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.errors import HudiReadError
from hudi_bridge.indexes.footer_index import FooterIndex, parse_footer_index
from hudi_bridge.indexes.wanted_keys import KeyHashes, WantedKeys
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.parquet import PARQUET_ERRORS
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.merge.log_records import key_hashes
from hudi_bridge.readers.base_file import OpenBaseFile
from hudi_bridge.readers.block_decoder import BlockDecoder
from hudi_bridge.readers.footers import BaseFileFooter, text_range
from hudi_bridge.readers.log_record_scanner import read_log_file
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage

_MOST_LOG_BYTES = 1 << 26
"""Keys of larger logs are not looked for ahead of reading them."""
_BYTES_OF_ANY = 512
_NOTHING = FooterIndex(key_range=None, bloom_filter=None)
_DATA = (BlockType.AVRO_DATA, BlockType.HFILE_DATA, BlockType.PARQUET_DATA)


def known_footer_index(storage: Storage, split: RealtimeFileSplit) -> FooterIndex | None:
    """The key range and Bloom filter of the base file, if they have been read before, or if there are none."""
    if split.base_path is None or not split.context.populates_meta_fields:
        # Without meta columns, keys in the footer may be spelled differently.
        return _NOTHING
    index: FooterIndex | None = storage.kept.get(_footer_key(split))
    return index


def footer_index(base: OpenBaseFile, split: RealtimeFileSplit) -> FooterIndex:
    """The key range and Bloom filter in the footer of an open base file.

    Raises:
        CorruptBaseFileError: one of them is damaged.
    """
    if not split.context.populates_meta_fields:
        # Keys in the footer may be spelled differently.
        return _NOTHING
    return parse_footer_index(base.arrow_schema.metadata or {}, base.path)


def read_footer_index(storage: Storage, split: RealtimeFileSplit, wanted: WantedKeys) -> FooterIndex:
    """The key range and Bloom filter of a Parquet base file, as far as it has them and they can be read without keys.

    If the base file may hold one of the wanted keys, its footer is kept as well, for the read that follows.
    """
    path = split.base_path or ""
    if not path.endswith(".parquet") or storage.decryption is not None:
        storage.kept.put(_footer_key(split), _NOTHING, _BYTES_OF_ANY)
        return _NOTHING
    try:
        footer = BaseFileFooter(storage, split, path)
        index = parse_footer_index(footer.content.metadata or {}, path).without_full_filter()
        if index.key_range is None:
            index = replace(index, key_range=_range_of_statistics(footer.content))
        if index.may_hold_any(wanted):
            footer.keep()
    except (HudiReadError, *PARQUET_ERRORS):
        # Whoever reads the file will say what is wrong with it.
        return _NOTHING
    size_bytes = index.bloom_filter.size_bytes if index.bloom_filter else 0
    storage.kept.put(_footer_key(split), index, size_bytes + _BYTES_OF_ANY)
    return index


def _range_of_statistics(footer: pq.FileMetaData) -> tuple[str, str] | None:
    ranges = [text_range(footer, group, RECORD_KEY_COLUMN) for group in range(footer.num_row_groups)]
    known = [one for one in ranges if one is not None]
    if not known or len(known) < len(ranges):
        return None
    return min(least for least, _ in known), max(greatest for _, greatest in known)


def known_log_keys(storage: Storage, split: RealtimeFileSplit) -> KeyHashes | None:
    """The ascending hashes of the keys in the logs, if they have been read before."""
    hashes: KeyHashes | None = storage.kept.get(_log_key(split))
    return hashes


def read_log_keys(storage: Storage, split: RealtimeFileSplit) -> KeyHashes | None:
    """The ascending hashes of the keys in the logs; None if they cannot be read, or only at great cost."""
    rule = split.context.merge_rule
    if rule is None or split.log_size_bytes > _MOST_LOG_BYTES:
        return None
    decoder = BlockDecoder(split, rule, ())
    hashes, size_bytes = [np.zeros(0, dtype=np.uint64)], 0
    try:
        for path, size in split.log_files:
            file = read_log_file(storage, split, path, size, on_disk=False)
            size_bytes += file.size
            # Blocks that do not count are included, so that the keys are those of the files at any instant.
            blocks = scan_blocks(file, path).blocks
            hashes += [key_hashes(decoder.keys(one).cast(pa.string())) for one in blocks if one.block_type in _DATA]
    except HudiReadError:
        return None
    if size_bytes < split.log_size_bytes:
        # A file is incomplete, which whoever reads it will say.
        return None
    found = np.unique(np.concatenate(hashes))
    storage.kept.put(_log_key(split), found, found.nbytes + _BYTES_OF_ANY)
    return found


def _footer_key(split: RealtimeFileSplit) -> tuple[object, ...]:
    return ("key index", split.base_path, split.base_size_bytes)


def _log_key(split: RealtimeFileSplit) -> tuple[object, ...]:
    # Files only grow, and no longer where their names have instants of their own.
    return ("log keys", split.log_paths, split.log_size_bytes)
