"""Measures one read in a process of its own; prints the result as JSON.

``time`` reports the seconds of one read, and its peak of resident memory above that of the interpreter after its
imports. ``check`` reports a checksum of the same rows, in another process, so that the timed one does nothing but read.
"""

import argparse
import itertools
import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import duckdb
import pyarrow as pa

from benchmarks.scenarios import SCENARIOS, Delivery, Read


class Reader(Protocol):
    """A package under test; each call opens the table anew."""

    def table(self, path: str, read: Read) -> pa.Table:
        """All rows, in memory."""

    def batches(self, path: str, read: Read) -> Iterator[pa.RecordBatch]:
        """The same rows, one batch after another."""


def _resident_bytes() -> int:
    resident_pages = int(Path("/proc/self/statm").read_text().split()[1])
    return resident_pages * resource.getpagesize()


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _delivered_rows(reader: Reader, path: str, read: Read) -> int:
    match read.delivery:
        case Delivery.TABLE:
            return reader.table(path, read).num_rows
        case Delivery.STREAM:
            return sum(batch.num_rows for batch in reader.batches(path, read))
        case Delivery.FIRST_BATCH:
            return next(reader.batches(path, read)).num_rows


def time_read(reader: Reader, path: str, read: Read) -> dict[str, float]:
    """The seconds from opening the table to the delivery, the peak memory, and the number of rows."""
    resident = _resident_bytes()
    start = time.perf_counter()
    rows = _delivered_rows(reader, path, read)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_bytes": _peak_bytes() - resident, "rows": rows}


def check_read(reader: Reader, path: str, read: Read) -> dict[str, object]:
    """The number of rows, the columns and a checksum, whatever the order of rows and columns."""
    if read.delivery is Delivery.TABLE:
        answer = reader.table(path, read).to_reader()
    else:
        batches = reader.batches(path, read)
        first = next(batches)
        answer = pa.RecordBatchReader.from_batches(first.schema, itertools.chain((first,), batches))
    names = sorted(answer.schema.names)
    columns = ", ".join(f'"{name}"' for name in names)
    # a sum of row hashes does not depend on the order and, unlike an exclusive or, sees duplicate rows
    query = f"SELECT count(*), coalesce(sum(hash({columns})::HUGEINT), 0)::VARCHAR FROM answer"
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("answer", answer)
    rows, checksum = connection.execute(query).fetchall()[0]
    return {"rows": rows, "columns": names, "checksum": checksum}


def main(reader: Reader) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=("time", "check"))
    parser.add_argument("path")
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("read")
    arguments = parser.parse_args()
    reads = {read.name: read for read in SCENARIOS[arguments.scenario].reads}
    task = time_read if arguments.task == "time" else check_read
    json.dump(task(reader, arguments.path, reads[arguments.read]), sys.stdout)
