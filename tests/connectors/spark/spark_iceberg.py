"""Spark with Iceberg as a client of the catalog: PySpark 3.5 in a process of its own, which runs queries one by one."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Timer
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.connectors.spark.iceberg_queries import ANSWER
from tests.connectors.spark.iceberg_runtime import iceberg_runtime
from tests.connectors.spark.processes import HERE, PYTHON35, TIMEOUT_SECONDS, environment


class SparkQueryError(Exception):
    """Raised when a query fails in Spark."""


class SparkIceberg:
    """A running Spark; its catalogs are ``lake``, and ``planned``, where the service plans the scans."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._numbers = count()

    def rows(self, sql: str) -> pa.Table:
        return self._rows({"sql": sql})

    def rows_of_metadata(self, path: str) -> pa.Table:
        """The rows of the table that a metadata file describes, without a catalog."""
        return self._rows({"metadata": path})

    def _rows(self, request: dict[str, Any]) -> pa.Table:
        folder = self._folder / f"rows{next(self._numbers)}"
        error = self._ask(request | {"folder": str(folder)})
        if error is not None:
            raise SparkQueryError(error)
        return pq.read_table(folder)

    def _ask(self, request: dict[str, Any]) -> str | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        hanging = Timer(TIMEOUT_SECONDS, self._process.kill)
        hanging.start()
        try:
            self._process.stdin.write(f"{json.dumps(request)}\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                if line.startswith(ANSWER):
                    error: str | None = json.loads(line.removeprefix(ANSWER))["error"]
                    return error
        except BrokenPipeError:
            pass
        finally:
            hanging.cancel()
        raise SparkQueryError(f"Spark has ended:\n{(self._folder / 'stderr').read_text()[-4000:]}")


@contextmanager
def spark_iceberg(uri: str, folder: Path) -> Iterator[SparkIceberg]:
    """Spark with the catalog at ``uri``, running during the block; ``folder`` is for its files."""
    command = [str(PYTHON35), str(HERE / "iceberg_queries.py"), str(iceberg_runtime()), uri, str(folder)]
    with (
        (folder / "stderr").open("w") as stderr,
        subprocess.Popen(
            command,
            env=environment(PYTHON35),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        try:
            yield SparkIceberg(process, folder)
        finally:
            process.kill()
