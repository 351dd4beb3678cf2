"""Rows in a temporary file, divided into parts by the hash of their record keys; each part can be read by itself."""

import json
import tempfile
import weakref
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_bridge.merge.arrays import Booleans, as_booleans
from hudi_bridge.merge.record_map import LogRecords, key_hashes

Hashes = npt.NDArray[np.uint64]

_WAITING_BYTES = 1 << 22
"""Rows are buffered up to this size, because each write costs one read for each part later."""
_MARKS = 1 << 22
_MARK_SHIFT = np.uint64(40)
_ABSENT = b"absent"


class PartsOnDisk:
    """Record batches of any schema, whose rows are divided into parts.

    The temporary file has no name, so it vanishes with this object or with the process.
    """

    def __init__(self, parts: int) -> None:
        """Creates the temporary file.

        Raises:
            OSError: temporary files cannot be created.
        """
        self.parts = parts
        self._file = tempfile.TemporaryFile(prefix="hudi-bridge-")  # noqa: SIM115 - closed with this object
        weakref.finalize(self, self._file.close)
        self._chunks: list[list[tuple[int, int]]] = [[] for _ in range(parts)]
        self._end = 0
        self._waiting: list[tuple[pa.RecordBatch, Hashes]] = []
        self._options = pa.ipc.IpcWriteOptions(compression="lz4")

    def add(self, rows: pa.RecordBatch, hashes: Hashes) -> None:
        """Adds rows with the hashes of their keys.

        Raises:
            OSError: the file cannot be written.
        """
        if self._waiting and not self._waiting[0][0].schema.equals(rows.schema, check_metadata=True):
            self._write()
        self._waiting.append((rows, hashes))
        if sum(waiting.nbytes for waiting, _ in self._waiting) > _WAITING_BYTES:
            self._write()

    def of_part(self, part: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one part, in the order in which they were added.

        Raises:
            OSError: the file cannot be written or read.
        """
        self._write()
        for start, size in self._chunks[part]:
            self._file.seek(start)
            with pa.ipc.open_stream(self._file.read(size)) as stream:
                yield stream.read_next_batch()

    def _write(self) -> None:
        if not self._waiting:
            return
        rows: pa.RecordBatch = pa.concat_batches([rows for rows, _ in self._waiting])  # type: ignore[attr-defined]
        part_of_row = np.concatenate([hashes for _, hashes in self._waiting]) % np.uint64(self.parts)
        self._waiting = []
        order = np.argsort(part_of_row, kind="stable")
        rows, part_of_row = rows.take(pa.array(order, pa.int64())), part_of_row[order]
        starts = np.flatnonzero(np.r_[np.ones(min(1, len(order)), dtype=np.bool_), np.diff(part_of_row) != 0])
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=False):
            content = pa.BufferOutputStream()
            with pa.ipc.new_stream(content, rows.schema, options=self._options) as stream:
                stream.write_batch(rows.slice(start, end - start))
            self._file.seek(self._end)
            size = self._file.write(content.getvalue())
            self._chunks[int(part_of_row[start])].append((self._end, size))
            self._end += size


class LogRecordsOnDisk:
    """Log records, divided into parts by their keys."""

    def __init__(self, parts: int) -> None:
        """Starts without records; raises like ``PartsOnDisk``."""
        self._parts = PartsOnDisk(parts)
        self._marks = np.zeros(_MARKS, dtype=np.bool_)
        self.is_partial = False
        """Whether some are partial updates."""

    def add(self, records: LogRecords) -> None:
        """Adds the next records; raises like ``PartsOnDisk``."""
        hashes = key_hashes(records.keys)
        self._marks[_mark_of(hashes)] = True
        self.is_partial = self.is_partial or bool(records.absent)
        self._parts.add(_stored(records), hashes)

    def may_hold(self, hashes: Hashes) -> Booleans:
        """A mask of the key hashes that may belong to a log record."""
        return self._marks[_mark_of(hashes)]

    def of_part(self, part: int) -> Iterator[LogRecords]:
        """Yields the records of one part, in their order; raises like ``PartsOnDisk``."""
        return map(_restored, self._parts.of_part(part))


def _mark_of(hashes: Hashes) -> npt.NDArray[np.int64]:
    return ((hashes >> _MARK_SHIFT) % np.uint64(_MARKS)).astype(np.int64)


def _stored(records: LogRecords) -> pa.RecordBatch:
    columns = {
        "keys": records.keys,
        "is_delete": pa.array(records.is_delete),
        "always_deletes": pa.array(records.always_deletes),
        "marked": pa.array(records.marked),
    }
    if records.base_positions is not None:
        columns["base_positions"] = pa.array(records.base_positions)
    columns |= {f"ordering {number}": column for number, column in enumerate(records.ordering)}
    if records.rows is not None:
        columns["rows"] = records.rows.to_struct_array()
    stored = pa.RecordBatch.from_pydict(columns)
    return stored.replace_schema_metadata({_ABSENT: json.dumps(sorted(records.absent))})


def _restored(stored: pa.RecordBatch) -> LogRecords:
    names = stored.schema.names
    rows = pa.RecordBatch.from_struct_array(stored.column("rows")) if "rows" in names else None  # type: ignore[arg-type]
    return LogRecords(
        keys=stored.column("keys"),
        rows=rows,
        absent=frozenset(json.loads((stored.schema.metadata or {})[_ABSENT])),
        ordering=tuple(stored.column(name) for name in names if name.startswith("ordering ")),
        is_delete=as_booleans(stored.column("is_delete")),
        always_deletes=as_booleans(stored.column("always_deletes")),
        marked=as_booleans(stored.column("marked")),
        base_positions=stored.column("base_positions").to_numpy() if "base_positions" in names else None,
    )
