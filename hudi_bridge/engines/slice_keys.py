"""Finds the record keys that a file slice holds.

Source: ``HoodieKeyLookupHandle`` of Hudi.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.dispatch import open_reader_in
from hudi_bridge.indexes.footer_index import FooterIndex
from hudi_bridge.indexes.slice_keys import footer_index, known_footer_index
from hudi_bridge.merge.arrays import Column
from hudi_bridge.readers.base_formats.opening import open_base_file
from hudi_bridge.readers.log_record_scanner import LogScan, log_memory_bytes
from hudi_bridge.readers.split_columns import record_keys
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage


def base_key_range(storage: Storage, split: RealtimeFileSplit) -> tuple[str, str] | None:
    """The lowest and highest record key of the base file; None without a base file or if its footer has no range."""
    return _footer_index(storage, split).key_range


def log_record_keys(storage: Storage, split: RealtimeFileSplit, *, at_once: int = 1) -> Iterator[Column]:
    """The keys of the records that the logs of a slice insert or update, a part at a time.

    ``at_once`` slices that are read at the same time share the memory for logs.
    """
    rule = split.context.merge_rule
    if rule is None or not split.log_paths:
        return
    scan = LogScan(storage, split, rule, (), log_memory_bytes(split.context, at_once))
    for records in [scan.records()] if scan.parts == 1 else map(scan.records_of_part, range(scan.parts)):
        yield records.keys.slice(0, records.rows.num_rows).cast(pa.string())


def held_keys(storage: Storage, split: RealtimeFileSplit, keys: Sequence[str], *, at_once: int = 1) -> Iterator[Column]:
    """The keys among ``keys`` for which a snapshot has a row in this slice.

    The base file is not read if its footer, with its key range and Bloom filter, rules out all keys.
    """
    context = split.context
    if split.base_path is not None and not _footer_index(storage, split).possible(keys):
        if not split.log_paths:
            return
        # Any rows of these keys are in the logs.
        split = replace(split, base_path=None, base_size_bytes=0)
    wanted = pa.array(keys, pa.string())
    row_filter = pc.field(RECORD_KEY_COLUMN).isin(wanted) if context.populates_meta_fields else None
    reader = open_reader_in(storage, split, context.key_columns, row_filter, use_threads=False, at_once=at_once)
    for batch in reader.batches():
        found: Any = record_keys(batch, context).cast(pa.string())
        yield pc.unique(found.filter(pc.is_in(found, value_set=wanted)))


def _footer_index(storage: Storage, split: RealtimeFileSplit) -> FooterIndex:
    """The key range and Bloom filter in the footer of the base file; those that are known need not be read."""
    known = known_footer_index(storage, split)
    if known is not None or split.base_path is None:
        return known or FooterIndex(key_range=None, bloom_filter=None)
    with open_base_file(storage, split, split.base_path, use_threads=False) as base:
        return footer_index(base, split)
