"""The readers that ``compare`` asks beside this one: the package ``hudi`` (hudi-rs), and Hudi on Spark."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.errors import QueryError

Answer = pa.Table | str
"""The rows, or why there are none."""
_WORKER = Path(__file__).with_name("compare_spark_worker.py")
_QUERY_TYPE = "hoodie.datasource.query.type"
_READ_OPTIMIZED_BY_HUDI_RS = "hoodie.read.use.read_optimized.mode"
_MOST_OF_A_REASON = 200
_NOISE = re.compile(r"^(\s+at |Caused by: |JVM stacktrace|py4j\.)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query that all readers can be asked: a snapshot, one as of an instant, base files only, or a range."""

    as_of: str | None = None
    read_optimized: bool = False
    after: str | None = None
    up_to: str | None = None

    @property
    def name(self) -> str:
        """What is shown of it."""
        if self.after is not None:
            return f"after {self.after}" + (f" up to {self.up_to}" if self.up_to else "")
        if self.read_optimized:
            return "read optimized"
        return "snapshot" if self.as_of is None else f"as of {self.as_of}"

    def for_spark(self) -> dict[str, str]:
        """The options of Hudi's data source."""
        if self.after is not None:
            range_end = {"hoodie.datasource.read.end.instanttime": self.up_to} if self.up_to else {}
            return {
                _QUERY_TYPE: "incremental",
                "hoodie.datasource.read.begin.instanttime": self.after,
                **range_end,
            }
        if self.read_optimized:
            return {_QUERY_TYPE: "read_optimized"}
        return {} if self.as_of is None else {"as.of.instant": self.as_of}


class Peer(Protocol):
    """A reader to compare with."""

    name: str

    def answers(self, table: str, queries: Sequence[Query]) -> list[Answer]:
        """An answer for each query to the table in a folder."""
        ...


class HudiRs:
    """The package ``hudi``, in this process."""

    def __init__(self) -> None:
        """Raises QueryError: the package is not installed."""
        if find_spec("hudi") is None:
            raise QueryError("--with", "hudi, which is not installed", "pip install hudi")
        self.name = f"hudi {version('hudi')}"

    def answers(self, table: str, queries: Sequence[Query]) -> list[Answer]:
        """An answer for each query."""
        return [_answer(lambda query=query: _read_by_hudi_rs(table, query)) for query in queries]  # type: ignore[misc]


def _answer(read: Callable[[], pa.Table]) -> Answer:
    try:
        return read()
    # The Rust reader panics with an exception that derives from BaseException.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return reason(str(error) or type(error).__name__)


def _read_by_hudi_rs(table: str, query: Query) -> pa.Table:
    import hudi  # noqa: PLC0415 - only where it is asked

    options = hudi.HudiReadOptions()
    if query.after is not None:
        options = options.with_query_type(hudi.HudiQueryType.Incremental).with_start_timestamp(query.after)
        if query.up_to is not None:
            options = options.with_end_timestamp(query.up_to)
    if query.as_of is not None:
        options = options.with_as_of_timestamp(query.as_of)
    if query.read_optimized:
        options = options.with_hudi_option(_READ_OPTIMIZED_BY_HUDI_RS, "true")
    opened = hudi.HudiTableBuilder.from_base_uri(table).build()
    batches = [pa.record_batch(batch) for batch in opened.read(options)]
    if batches:
        return pa.Table.from_batches(batches)
    return pa.schema(opened.get_schema_with_meta_fields()).empty_table()


class Spark:
    """Hudi on Spark, in a process of a Python that has PySpark."""

    def __init__(self, python: str | None, bundle: str | None) -> None:
        """Raises QueryError: the bundle is not there."""
        self._python = python or sys.executable
        self._bundle = bundle or os.environ.get("HUDI_SPARK_BUNDLE") or ""
        if self._bundle and not Path(self._bundle).is_file():
            raise QueryError("--bundle", self._bundle, "the jar of Hudi's bundle for the Spark of PySpark")
        found = re.search(r"-(\d[\w.]*)\.jar$", self._bundle)
        self.name = f"spark, hudi {found[1]}" if found else "spark"

    def answers(self, table: str, queries: Sequence[Query]) -> list[Answer]:
        """An answer for each query."""
        with tempfile.TemporaryDirectory(prefix="hudi-bridge-compare-") as folder:
            jobs = [
                {"table": table, "options": query.for_spark(), "answer": str(number)}
                for number, query in enumerate(queries)
            ]
            command = [self._python, str(_WORKER), self._bundle, folder]
            ended = subprocess.run(command, input=json.dumps(jobs), text=True, capture_output=True, check=False)  # noqa: S603 - of the user's own Python
            if ended.returncode:
                failed = reason("\n".join(reversed(ended.stderr.strip().splitlines())))
                raise QueryError("--with", f"spark, which does not start: {failed}", "a Python with PySpark and Java")
            return [_stored(Path(folder), str(number)) for number in range(len(queries))]


def _stored(folder: Path, name: str) -> Answer:
    error = folder / f"{name}.error"
    return reason(error.read_text()) if error.exists() else pq.read_table(folder / name)


def reason(text: str) -> str:
    """The first line of an error that says something, cut to a line's length."""
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip() and not _NOISE.match(line)]
    found = next((line for line in lines if not line.startswith("An error occurred while calling")), "no reason given")
    return found if len(found) <= _MOST_OF_A_REASON else found[:_MOST_OF_A_REASON] + "…"
