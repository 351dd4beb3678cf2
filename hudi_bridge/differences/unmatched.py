"""Rows that have no counterpart in their file group: in memory, or beyond a limit in temporary files, by record key."""

from collections.abc import Iterator
from threading import Lock
from typing import Any

import pyarrow as pa

from hudi_bridge.changes.slice_rows import SliceRows, all_rows
from hudi_bridge.merge.log_records import key_hashes
from hudi_bridge.readers.parts_on_disk import PartsOnDisk

_PARTS = 64


class UnmatchedRows:
    """Rows of two states, of several threads; those with equal keys are in the same part."""

    def __init__(self, schema: pa.Schema, memory_bytes: int) -> None:
        """No rows yet; ``schema`` is that of the rows, without their keys and labels."""
        self._schema = schema
        self._memory_bytes = memory_bytes
        self._held: tuple[list[SliceRows], list[SliceRows]] = ([], [])
        self._held_bytes = 0
        self._on_disk: tuple[PartsOnDisk, PartsOnDisk] | None = None
        self._lock = Lock()

    def add(self, before: SliceRows | None, after: SliceRows | None) -> None:
        """Add rows of the states.

        Raises:
            OSError: a temporary file cannot be written.
        """
        with self._lock:
            for state, rows in enumerate((before, after)):
                if rows is not None and rows.rows.num_rows:
                    self._add(state, rows)

    def parts(self) -> Iterator[tuple[SliceRows, SliceRows]]:
        """All rows of both states, in parts; call it once, at the end.

        Raises:
            OSError: a temporary file cannot be written or read.
        """
        if self._on_disk is None:
            before, after = (all_rows(held, self._schema) for held in self._held)
            yield before, after
            return
        for number in range(_PARTS):
            before, after = (all_rows(map(_restored, state.of_part(number)), self._schema) for state in self._on_disk)
            yield before, after

    def _add(self, state: int, rows: SliceRows) -> None:
        if self._on_disk is not None:
            _store(self._on_disk[state], rows)
            return
        self._held[state].append(rows)
        self._held_bytes += rows.rows.nbytes + rows.keys.nbytes
        if self._held_bytes > self._memory_bytes:
            self._on_disk = (PartsOnDisk(_PARTS), PartsOnDisk(_PARTS))
            for held, parts in zip(self._held, self._on_disk, strict=True):
                while held:
                    _store(parts, held.pop())


def _store(parts: PartsOnDisk, rows: SliceRows) -> None:
    table = pa.Table.from_arrays(
        [rows.keys, rows.labels, *rows.rows.columns],
        schema=pa.schema([pa.field("", pa.string()), pa.field("", pa.string()), *rows.rows.schema]),
    )
    for batch in table.to_batches():
        keys: Any = batch.column(0)
        parts.add(batch, key_hashes(keys))


def _restored(stored: pa.RecordBatch) -> SliceRows:
    columns: Any = stored.columns
    schema = pa.schema(list(stored.schema)[2:])
    return SliceRows(
        keys=pa.chunked_array([columns[0]]),
        labels=pa.chunked_array([columns[1]]),
        rows=pa.Table.from_arrays(columns[2:], schema=schema),
    )
