"""Measures what lists in an older form cost to publish for Iceberg clients: ``python -m benchmarks.iceberg_lists``.

One base file with a list column is copied once, or stays as stored; each commit after that updates one row in 100. For
comparison, ``--rewrite-above 0`` writes the merged rows of the slice with each commit. CPU time is that of the process.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import facts
from hudi_bridge.connectors.iceberg.compatibility import Rewriting
from tests.connectors.iceberg.publishing import publish, rename_in_footer
from tests.support.table_writer import TableWriter, at

_WAYS: Mapping[str, Rewriting] = {
    "as stored": Rewriting(lists_as_stored=True),
    "copied": Rewriting(),
    "merged with each commit": Rewriting(above=0.0),
}
_LIST = {"type": "array", "items": ["null", "long"]}
_FIELDS = (("id", "string"), ("ts", "long"), ("city", "string"), ("fare", "double"), ("tags", _LIST))
_EVERY = 100
_MOST_TAGS = 5


def write_table(folder: Path, rows: int) -> TableWriter:
    """A base file with lists of up to five numbers, whose groups DuckDB does not find."""
    table = TableWriter(folder=folder, fields=_FIELDS).create()
    path = table.base_file(at(1), [{"id": "a", "ts": 1, "city": "x", "fare": 1.0, "tags": [1]}])
    schema, chance = pq.read_schema(path), np.random.default_rng(1)
    ends = np.concatenate([[0], np.cumsum(chance.integers(0, _MOST_TAGS + 1, rows))])
    offsets: Any = pa.array(ends).cast(pa.int32())
    tags: Any = pa.array(chance.integers(0, 1000, ends[-1]))
    keys = [_key(number) for number in range(rows)]
    columns: dict[str, Any] = {
        "_hoodie_commit_time": [at(1)] * rows,
        "_hoodie_commit_seqno": [f"{at(1)}_0_{number}" for number in range(rows)],
        "_hoodie_record_key": keys,
        "_hoodie_partition_path": [""] * rows,
        "_hoodie_file_name": [path.name] * rows,
        "id": keys,
        "ts": np.ones(rows, dtype=np.int64),
        "city": np.array(["bonn", "oslo", "paris", "rome"])[chance.integers(0, 4, rows)],
        "fare": chance.random(rows) * 100,
        "tags": pa.ListArray.from_arrays(offsets, tags),
    }
    stored = pa.table([pa.array(columns[field.name]).cast(field.type) for field in schema], schema=schema)
    pq.write_table(stored, path, store_schema=False)
    rename_in_footer(path, {b"list": b"bags"})
    table.commit(at(1))
    return table


def measure(table: TableWriter, folder: Path, rows: int, commits: int) -> Iterator[dict[str, float]]:
    """CPU seconds of the first publication by each way, and of those after each commit."""
    yield {way: _published(table, folder / way, rewriting) for way, rewriting in _WAYS.items()}
    for commit in range(2, 2 + commits):
        changed = range(commit, rows, _EVERY)
        new = [{"id": _key(number), "ts": commit, "city": "new", "fare": 1.0, "tags": [commit]} for number in changed]
        table.log_file(at(commit), [table.data_block(at(commit), new)], number=commit)
        table.commit(at(commit))
        yield {way: _published(table, folder / way, rewriting) for way, rewriting in _WAYS.items()}


def _published(table: TableWriter, folder: Path, rewriting: Rewriting) -> float:
    started = time.process_time()
    publish(table.folder, folder, rewriting)
    return time.process_time() - started


def _key(number: int) -> str:
    return f"{number:08d}-{number * 2654435761 % 2**32:08x}"


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--commits", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5, help="of the first publication (default: 5)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve()
        table, first = write_table(folder / "table", given.rows), list[dict[str, float]]()
        for number in range(given.rounds):
            first += measure(table, folder / f"round {number}", given.rows, 0)
            shutil.rmtree(folder / f"round {number}")
        later = list(measure(table, folder / "commits", given.rows, given.commits))[1:]
    print("| way | the base file, CPU s | a commit, CPU s |\n|---|---:|---:|")
    for way in _WAYS:
        medians = (statistics.median(one[way] for one in measured) for measured in (first, later))
        print(f"| {way} | {' | '.join(f'{seconds:.3f}' for seconds in medians)} |")
    about = facts()
    print(f"\n{given.rows:,} rows, medians; {about['processor']}; commit {about['commit']}")


if __name__ == "__main__":
    main()
