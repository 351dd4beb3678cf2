"""The readers that are compared, each with the process that answers for it."""

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as ds

from benchmarks.measurement import checksum
from benchmarks.reader_hudi_rs_0_6 import RustReads
from benchmarks.reader_process import ReaderProcess, ReadFailedError, reader_process
from benchmarks.readings import BUNDLE, DUCKDB, FLOOR, FLOOR_WITH_KEY, NEWEST_PEER, OURS, PEER
from benchmarks.rust_programs import READER, built
from benchmarks.scenarios import Delivery, Read
from benchmarks.spark_answers import spark_answers


class Reads(Protocol):
    """What answers for a reader: a process, or one for each read."""

    def read(self, task: str, path: str, read: Read) -> dict[str, Any]:
        """The answer of ``measurement``: ``time`` or ``check`` of a read."""


class Contender:
    """A reader in a process; it is asked for one measurement at a time.

    ``reads_base_files`` is whether its answer is that of the base files alone, and so is not compared.
    """

    most_rounds: int | None = None
    """How often it is timed, where that is less than the others are."""

    def __init__(self, name: str, process: Reads, *, reads_base_files: bool = False) -> None:
        self.name = name
        self.reads_base_files = reads_base_files
        self._process = process

    def takes_part(self, read: Read) -> bool:
        """Whether the read says anything that another reader of this kind does not."""
        return self.name != FLOOR_WITH_KEY or (read.columns is not None and read.where is None)

    def check(self, path: str, read: Read) -> dict[str, Any]:
        """Rows, columns and checksum of the answer; raises a ``ReadFailedError`` if there is none."""
        return self._process.read("check", path, read)

    def time(self, path: str, read: Read) -> dict[str, Any]:
        """The fields of a ``Reading``, and the number of rows, None where nobody has counted them."""
        return self._process.read("time", path, read)


class SparkContender(Contender):
    """Hudi's bundle in a session that goes on; its first read of each kind is a check, which is not timed.

    It takes seconds where others take tenths, so it is timed once.
    """

    most_rounds = 1
    _process: ReaderProcess

    def check(self, path: str, read: Read) -> dict[str, Any]:
        """The answer, through Parquet files."""
        with tempfile.TemporaryDirectory(prefix="hudi-bridge-") as folder:
            self._ask(path, read, into=folder)
            answer = ds.dataset(folder, format="parquet").scanner().to_reader()
            return checksum(pa.RecordBatchReader.from_batches(answer.schema, answer))

    def time(self, path: str, read: Read) -> dict[str, Any]:
        """The fields of a ``Reading``; rows go nowhere and are not counted."""
        return self._ask(path, read)

    def _ask(self, path: str, read: Read, **more: str) -> dict[str, Any]:
        if "://" in path:
            raise ReadFailedError("Spark needs the jars of hadoop-aws for a store")
        if read.delivery is Delivery.FIRST_BATCH:
            raise ReadFailedError("Spark has no stream of batches")
        columns = None if read.columns is None else list(read.columns)
        return self._process.ask(folder=path, columns=columns, where=read.where_sql, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    process: AbstractContextManager[Reads]
    contender: type[Contender] = Contender
    reads_base_files: bool = False


NAMES = (OURS, PEER, NEWEST_PEER, FLOOR, FLOOR_WITH_KEY, DUCKDB, BUNDLE)
"""All readers; ours is always the first to be asked."""


@contextmanager
def running_contender(name: str) -> Iterator[Contender]:
    """A reader whose process runs until the end of the context.

    Raises:
        NotBuiltError: the reader is a program that cannot be built here.
    """
    kind = {
        OURS: lambda: _Kind(process=reader_process("benchmarks.reader_hudi_bridge")),
        PEER: lambda: _Kind(process=reader_process("benchmarks.reader_hudi_rs")),
        NEWEST_PEER: lambda: _Kind(process=nullcontext(RustReads(built(READER)))),
        FLOOR: lambda: _Kind(process=reader_process("benchmarks.reader_pyarrow"), reads_base_files=True),
        FLOOR_WITH_KEY: lambda: _Kind(
            process=reader_process("benchmarks.reader_pyarrow", "with-key"), reads_base_files=True
        ),
        DUCKDB: lambda: _Kind(process=reader_process("benchmarks.reader_duckdb"), reads_base_files=True),
        BUNDLE: lambda: _Kind(process=spark_answers(), contender=SparkContender),
    }[name]()
    with kind.process as process:
        yield kind.contender(name, process, reads_base_files=kind.reads_base_files)
