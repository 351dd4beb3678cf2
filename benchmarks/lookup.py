"""Measures look-ups of 1, 100 and 10,000 keys, and a filter on 1 % of a column's range, in 100 and 1,000 file slices.

Beside ``hudi-bridge``, the ``hudi`` package and Hudi's bundle in PySpark 3.5 answer the same questions, in turns. The
tables are those of ``lookup_tables``: without indexes but the key ranges and Bloom filters of footers, or, with
``--written``, those that Hudi has written, with a record index and column stats, which have to be used. A first read
opens the table; a warm one follows others in the same process. With a delay, each request for a file or a folder takes
that long, as on an object store. ``hudi`` reads such a store too, of tables with up to ``--delayed-peer-slices``; Spark
is not delayed. CPU time is that of this process.
"""

import argparse
import io
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from fsspec.implementations.local import LocalFileSystem
from hudi import HudiReadOptions, HudiTableBuilder

from benchmarks.hudi_in_store import in_store
from benchmarks.lookup_tables import (
    KEYS_IN_LOG,
    ROWS_IN_SLICE,
    SLICES_WITH_LOG,
    make_with_indexes,
    write_without_indexes,
)
from benchmarks.make_tables import default_cache
from benchmarks.reader_process import ReaderProcess, ReadFailedError
from benchmarks.spark_answers import spark_answers
from benchmarks.spark_environment import PYTHON35
from benchmarks.store import Store, running_store
from hudi_bridge import HudiTable

KEYS = (1, 100, 10_000)
ROUNDS = 7
ONE_PERCENT = 100
COLUMNS = (
    "slices",
    "what",
    "first, s",
    "CPU, s",
    "warm, s",
    "CPU, s",
    "`hudi`, s",
    "`hudi` / warm",
    "Spark, s",
    "Spark / warm",
    "first, delayed, s",
    "requests",
    "warm, delayed, s",
    "requests",
    "`hudi`, delayed, s",
)


class SlowFileSystem(LocalFileSystem):  # type: ignore[misc]
    """The local files, with a delay of each request; ``requests`` counts them."""

    cachable = False
    protocol = "slow"

    def __init__(self, delay_seconds: float) -> None:
        super().__init__()
        self.delay_seconds, self.requests = delay_seconds, 0

    def wait(self) -> None:
        """One request."""
        self.requests += 1
        time.sleep(self.delay_seconds)

    def ls(self, path: str, **options: object) -> object:
        """The entries of a folder."""
        self.wait()
        return super().ls(path, **options)

    def open(self, path: str, mode: str = "rb", **options: object) -> object:
        """A file; opening it costs the request for its size."""
        self.wait()
        return _SlowFile(super().open(path, mode, **options), self)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: object) -> bytes:
        """A range of a file, which is one request."""
        self.wait()
        with Path(path).open("rb") as file:
            file.seek(start or 0)
            return file.read(-1 if end is None else end - (start or 0))


class _SlowFile:
    def __init__(self, file: io.BufferedIOBase, filesystem: SlowFileSystem) -> None:
        self._file, self._filesystem = file, filesystem

    def read(self, size: int = -1) -> bytes:
        self._filesystem.wait()
        return self._file.read(size)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A read of some rows of a table, in the words of each reader; ``index`` answers it if the table has one."""

    rows: int
    read: Callable[[HudiTable], int]
    filter: pc.Expression
    index: str
    of_hudi: tuple[tuple[str, str, str], ...]
    of_spark: str


Ask = Callable[[int], Question]
"""Another question of a kind for each seed."""


def chosen_keys(count: int, slices: int, seed: int) -> list[str]:
    """Keys of the table, each once."""
    places = np.random.default_rng(seed).choice(ROWS_IN_SLICE * slices, count, replace=False)
    return [f"key-{place:010d}" for place in places.tolist()]


def of_keys(count: int, slices: int, seed: int) -> Question:
    """A look-up of keys, all of which the table has."""
    keys = chosen_keys(count, slices, seed)
    column = "_hoodie_record_key"
    return Question(
        rows=count,
        read=lambda table: table.get(keys).num_rows,
        filter=pc.field(column).isin(keys),
        index="record index",
        of_hudi=((column, "=", keys[0]) if count == 1 else (column, "in", ",".join(keys)),),
        of_spark=f"{column} IN ({', '.join(map(repr, keys))})",
    )


def of_range(slices: int, seed: int) -> Question:
    """A filter on a hundredth of the values of a clustered column; logs have changed the first rows of some slices."""
    width = max(1, ROWS_IN_SLICE * slices // ONE_PERCENT)
    # Within the table, however small it is.
    first = (1 + 10 * seed) % max(1, slices - width // ROWS_IN_SLICE - 1)
    start = first * ROWS_IN_SLICE + KEYS_IN_LOG
    changed = sum(
        1
        for number in range(0, slices, SLICES_WITH_LOG)
        for place in range(KEYS_IN_LOG)
        if start <= number * ROWS_IN_SLICE + place < start + width
    )
    wanted = (pc.field("ts") >= start) & (pc.field("ts") < start + width)
    return Question(
        rows=width - changed,
        read=lambda table: table.snapshot().count_rows(wanted),
        filter=wanted,
        index="column stats",
        of_hudi=(("ts", ">=", str(start)), ("ts", "<", str(start + width))),
        of_spark=f"ts >= {start} AND ts < {start + width}",
    )


def require_index(folder: Path, question: Question) -> None:
    """Stops if the table has no index for a question, or one that is not used."""
    steps = HudiTable.open(str(folder)).snapshot().explain(question.filter).steps
    if not any(step.name == question.index and step.after is not None for step in steps):
        raise SystemExit(f"the {question.index} is not used: {steps}")


def checked(rows: int, question: Question) -> None:
    """Stops if the number of rows is wrong."""
    if rows != question.rows:
        raise SystemExit(f"{rows} rows instead of {question.rows}")


def seconds_of(read: Callable[[Question], int], ask: Ask, rounds: int) -> tuple[float, float]:
    """The median time of reads of other rows each, and their least CPU time."""
    times, of_cpu = [], []
    for seed in range(rounds):
        question = ask(seed)
        begun, used = time.perf_counter(), time.process_time()
        rows = read(question)
        times.append(time.perf_counter() - begun)
        of_cpu.append(time.process_time() - used)
        checked(rows, question)
    return statistics.median(times), min(of_cpu)


def read_by_hudi(folder: Path, question: Question) -> int:
    """The rows by ``hudi``, with its own filter."""
    options = HudiReadOptions().with_filters(list(question.of_hudi))
    return sum(batch.num_rows for batch in HudiTableBuilder.from_base_uri(str(folder)).build().read(options))


def seconds_of_delayed_peer(delayed: Store, table: Path, question: Question) -> float:
    """The time in which ``hudi`` answers from an object store."""
    begun = time.perf_counter()
    read = in_store(delayed.endpoint(), f"{table.parent.name}/{table.name}").build()
    options = HudiReadOptions().with_filters(list(question.of_hudi))
    checked(sum(batch.num_rows for batch in read.read(options)), question)
    return time.perf_counter() - begun


def _read_by_spark(spark: ReaderProcess, folder: Path, question: Question) -> float:
    """The seconds of Hudi's bundle."""
    answer = spark.ask(folder=str(folder), where=question.of_spark, collect=True)
    checked(answer["rows"], question)
    return float(answer["seconds"])


def main() -> None:
    """Print a page of results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, nargs="*", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--delay-ms", type=float, default=30.0)
    parser.add_argument("--delayed-peer-slices", type=int, default=100)
    parser.add_argument("--written", action="store_true", help="tables that Hudi has written, with indexes")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="of these tables (default: %(default)s)")
    parser.add_argument("--no-spark", action="store_true", help="leave Spark out")
    parser.add_argument("--spark-python", type=Path, default=PYTHON35, help="default: %(default)s")
    options = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---:|' * len(COLUMNS)}")
    cores = os.cpu_count() or 1
    peer = nullcontext(None) if options.no_spark else spark_answers(options.spark_python)
    with (
        tempfile.TemporaryDirectory() as scratch,
        peer as spark,
        running_store(Path(scratch), options.delay_ms / 1000, None) as delayed,
    ):
        for slices in options.slices:
            folder = Path(scratch) / "lake" / f"t{slices}"
            store = delayed if slices <= options.delayed_peer_slices else None
            if options.written:
                make_with_indexes(folder, slices, options.cache.resolve())
            else:
                write_without_indexes(folder, slices)
            questions: dict[str, Ask] = {
                f"{count:,} key{'s' if count > 1 else ''}": partial(of_keys, count, slices) for count in KEYS
            }
            questions["1 % of `ts`"] = partial(of_range, slices)
            for what, ask in questions.items():
                if options.written:
                    require_index(folder, ask(0))
                _measure(folder, f"{slices:,} | {what}", ask, options, spark, store)
    load = os.getloadavg()[0]
    print(f"\n{platform.python_version()}, {cores} cores, load average {load:.1f}, {options.delay_ms:g} ms")


def _measure(
    folder: Path, title: str, ask: Ask, options: argparse.Namespace, spark: ReaderProcess | None, store: Store | None
) -> None:
    first, first_cpu = seconds_of(lambda question: question.read(HudiTable.open(str(folder))), ask, 2)
    table = HudiTable.open(str(folder))
    table.get("none")
    warm, warm_cpu = seconds_of(lambda question: question.read(table), ask, options.rounds)
    peer_rounds = 2 if first < 1 else 1
    peer, _ = seconds_of(partial(read_by_hudi, folder), ask, peer_rounds)
    of_spark = "| |"
    if spark is not None:
        # The first one is a warm-up.
        asked = [ask(seed) for seed in range(1 + peer_rounds)]
        try:
            by_spark = statistics.median([_read_by_spark(spark, folder, one) for one in asked][1:])
            of_spark = f"| {by_spark:.3f} | {by_spark / warm:.0f} x"
        except ReadFailedError as error:
            # Hudi 1.2 overflows its stack with 10,000 keys and a record index.
            of_spark = f"| fails: {str(error)[:100].replace('|', '/')} |"
    slow = SlowFileSystem(options.delay_ms / 1000)
    delayed: list[float] = []
    requests: list[int] = []
    remote = None
    for seed in range(2):
        question = ask(seed)
        begun, before = time.perf_counter(), slow.requests
        remote = HudiTable.open(str(folder), slow) if remote is None else remote
        checked(question.read(remote), question)
        delayed.append(time.perf_counter() - begun)
        requests.append(slow.requests - before)
    of_store = "" if store is None else f"{seconds_of_delayed_peer(store, folder, ask(0)):.2f}"
    print(
        f"| {title} | {first:.3f} | {first_cpu:.3f} | {warm:.4f} | {warm_cpu:.4f} | {peer:.3f} | {peer / warm:.1f} x "
        f"{of_spark} | {delayed[0]:.2f} | {requests[0]:,} | {delayed[1]:.2f} | {requests[1]:,} "
        f"| {of_store} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
