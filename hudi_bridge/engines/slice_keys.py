"""Record keys and file slices: which keys a slice may hold, and which of some keys it holds.

Source: ``HoodieKeyLookupHandle`` of Hudi.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.dispatch import open_reader_in
from hudi_bridge.indexes.footer_index import FooterIndex, parse_footer_index
from hudi_bridge.merge.arrays import Column
from hudi_bridge.readers.base_file import OpenBaseFile
from hudi_bridge.readers.log_record_scanner import LogScan, log_memory_bytes
from hudi_bridge.readers.split_columns import record_keys
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage


def base_key_range(storage: Storage, split: RealtimeFileSplit) -> tuple[str, str] | None:
    """The least and the greatest record key of the base file; None without one, or where its footer does not tell."""
    index = _footer_index(storage, split)
    return None if index is None else index.key_range


def log_record_keys(storage: Storage, split: RealtimeFileSplit, *, at_once: int = 1) -> Iterator[Column]:
    """The keys of the records that the logs of a slice insert or update, a part of them at a time.

    Slices that are read ``at_once`` share the memory for logs.
    """
    rule = split.context.merge_rule
    if rule is None or not split.log_paths:
        return
    scan = LogScan(storage, split, rule, (), log_memory_bytes(split.context, at_once))
    for records in [scan.records()] if scan.parts == 1 else map(scan.records_of_part, range(scan.parts)):
        yield records.keys.slice(0, records.rows.num_rows).cast(pa.string())


def held_keys(storage: Storage, split: RealtimeFileSplit, keys: Sequence[str], *, at_once: int = 1) -> Iterator[Column]:
    """Those of some record keys that a snapshot has a row of in this slice.

    The footer of the base file, with its Bloom filter, tells whether the base file has to be read at all.
    """
    context = split.context
    index = _footer_index(storage, split)
    if index is not None and not index.possible(keys):
        if not split.log_paths:
            return
        # The rows of all keys are in the logs, if anywhere.
        split = replace(split, base_path=None, base_size_bytes=0)
    wanted = pa.array(keys, pa.string())
    row_filter = pc.field(RECORD_KEY_COLUMN).isin(wanted) if context.populates_meta_fields else None
    reader = open_reader_in(storage, split, context.key_columns, row_filter, use_threads=False, at_once=at_once)
    for batch in reader.batches():
        found: Any = record_keys(batch, context).cast(pa.string())
        yield pc.unique(found.filter(pc.is_in(found, value_set=wanted)))


def _footer_index(storage: Storage, split: RealtimeFileSplit) -> FooterIndex | None:
    """What the footer says of keys; without meta columns, it need not spell them as they are built from key fields."""
    if split.base_path is None or not split.context.populates_meta_fields:
        return None
    with OpenBaseFile.open(storage, split, split.base_path, use_threads=False) as base:
        return parse_footer_index(base.arrow_schema.metadata or {}, base.path)
