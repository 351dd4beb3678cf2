"""Answers questions about reads, each in a process of its own, which is forked with all imports done.

A reader's module calls ``serve``. Questions and answers are lines of JSON, as ``reader_process`` sends them. ``time``
does nothing but read; ``check`` returns a checksum of the same rows.
"""

import ctypes
import gc
import itertools
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.process_tree import file_reads
from benchmarks.scenarios import Delivery, Read

TIMEOUT_SECONDS = 300
_POPULATE_READ, _POPULATE_WRITE = 22, 23
"""``MADV_POPULATE_READ`` and ``_WRITE`` of Linux 5.14.

Older kernels refuse them: memory then includes code as it is first run, and time the copies of pages.
"""
_PRESENT_BIT = 63
_PAGE_ENTRY_BYTES = 8


class Reader(Protocol):
    """A package under test; each call opens the table, given as a path or an S3 URI, anew."""

    def table(self, path: str, read: Read) -> pa.Table:
        """All rows, in memory."""

    def batches(self, path: str, read: Read) -> Iterator[pa.RecordBatch]:
        """The same rows, one batch after another."""


def _resident_bytes() -> int:
    resident_pages = int(Path("/proc/self/statm").read_text().split()[1])
    return resident_pages * resource.getpagesize()


def _own_memory() -> None:
    """Make memory of this process like that of a process that has not been forked.

    A fork begins without pages of libraries, and shares the others with its parent: the first write to each copies it.
    Neither is a part of a read. Pages that are not in memory yet stay so.
    """
    libc = ctypes.CDLL(None)
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split()
        start, end = (int(address, 16) for address in fields[0].split("-"))
        if len(fields) > 5 and fields[5].startswith("/") and fields[1].startswith("r"):
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _POPULATE_READ)
        if fields[1].startswith("rw-p"):
            for begin, size in _present_parts(start, end):
                libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(size), _POPULATE_WRITE)


def _present_parts(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Address and size of the parts of a mapping that are in memory."""
    page = resource.getpagesize()
    with Path("/proc/self/pagemap").open("rb", buffering=0) as pages:
        pages.seek(start // page * _PAGE_ENTRY_BYTES)
        entries = np.frombuffer(pages.read((end - start) // page * _PAGE_ENTRY_BYTES), np.uint64)
    present = np.concatenate([[False], entries >> np.uint64(_PRESENT_BIT) == 1, [False]])
    (edges,) = np.nonzero(present[1:] != present[:-1])
    for first, last in zip(edges[0::2].tolist(), edges[1::2].tolist(), strict=True):
        yield start + first * page, (last - first) * page


def _delivered_rows(reader: Reader, path: str, read: Read) -> int:
    match read.delivery:
        case Delivery.TABLE:
            return reader.table(path, read).num_rows
        case Delivery.STREAM:
            return sum(batch.num_rows for batch in reader.batches(path, read))
        case Delivery.FIRST_BATCH:
            return next(reader.batches(path, read)).num_rows


def time_read(reader: Reader, path: str, read: Read) -> dict[str, object]:
    """What a read took, as the fields of a ``Reading``, and its number of rows."""
    _own_memory()
    resident, (bytes_before, calls_before) = _resident_bytes(), file_reads(os.getpid())
    start, cpu_start = time.perf_counter(), time.process_time()
    rows = _delivered_rows(reader, path, read)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - resident
    read_bytes, calls = file_reads(os.getpid())
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "peak_bytes": peak_bytes,
        "read_bytes": read_bytes - bytes_before,
        "requests": calls - calls_before,
        "rows": rows,
    }


def check_read(reader: Reader, path: str, read: Read) -> dict[str, object]:
    """The number of rows, the columns and a checksum, whatever the order of rows and columns."""
    if read.delivery is Delivery.TABLE:
        return checksum(reader.table(path, read).to_reader())
    batches = reader.batches(path, read)
    first = next(batches)
    return checksum(pa.RecordBatchReader.from_batches(first.schema, itertools.chain((first,), batches)))


def checksum(answer: pa.RecordBatchReader) -> dict[str, object]:
    """The number of rows, the columns, and a sum of hashes, which sees duplicate rows."""
    names = sorted(answer.schema.names)
    columns = ", ".join(f'"{name}"' for name in names)
    query = f"SELECT count(*), coalesce(sum(hash({columns})::HUGEINT), 0)::VARCHAR FROM answer"
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("answer", answer)
    rows, found = connection.execute(query).fetchall()[0]
    return {"rows": rows, "columns": names, "checksum": found}


def serve(reader: Reader) -> None:
    """Answer the questions of standard input until it ends."""
    gc.freeze()
    for line in sys.stdin:
        question = json.loads(line)
        process = os.fork()
        if process == 0:
            signal.alarm(TIMEOUT_SECONDS)
            print(json.dumps(_answer(reader, question)), flush=True)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if status == -signal.SIGALRM:
            print(json.dumps({"error": f"no answer in {TIMEOUT_SECONDS} s"}), flush=True)
        elif status:
            print(json.dumps({"error": f"ended with status {status}"}), flush=True)


def _answer(reader: Reader, question: dict[str, Any]) -> dict[str, object]:
    task = {"time": time_read, "check": check_read}[question["task"]]
    try:
        return task(reader, question["path"], Read.from_json(question["read"]))
    except StopIteration:
        return {"error": "no rows"}
    except BaseException as error:  # noqa: BLE001 - panics of native code are no Exception
        return {"error": f"{type(error).__name__}: {error}"}
