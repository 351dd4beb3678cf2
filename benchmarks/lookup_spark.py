"""Answers look-ups with Hudi's bundle in one Spark session: ``lookup_spark BUNDLE CORES``.

Reads a JSON object with ``folder`` and ``where``, an SQL condition, from each line of standard input, and prints one
with the number of ``rows`` and the ``seconds`` from opening the table to the last row. ``Session`` asks such a process.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from benchmarks.hudi_bundle import hudi_bundle

ROOT = Path(__file__).parent.parent
PYTHON35 = ROOT / ".venv-spark35" / "bin" / "python"


class Session:
    """A running process that answers questions, one at a time."""

    def __init__(self, questions: IO[str], answers: IO[str]) -> None:
        self._questions, self._answers = questions, answers

    def seconds(self, folder: Path, where: str, rows: int) -> float:
        """The seconds of a query for some rows of a table."""
        print(json.dumps({"folder": str(folder), "where": where}), file=self._questions, flush=True)
        for line in self._answers:
            if line.startswith("{"):
                answer = json.loads(line)
                if answer["rows"] != rows:
                    raise SystemExit(f"{answer['rows']} rows by Spark, {rows} were expected")
                return float(answer["seconds"])
        raise SystemExit("Spark has ended")


@contextmanager
def spark_session(python: Path, cores: int) -> Iterator[Session]:
    """A session that has started when it is first asked."""
    environment = os.environ | {"PYSPARK_PYTHON": str(python), "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    command = [str(python), "-m", "benchmarks.lookup_spark", str(hudi_bundle()), str(cores)]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin
        assert process.stdout
        yield Session(process.stdin, process.stdout)
        process.stdin.close()


def main(bundle: str, cores: str) -> None:
    """Answer until the input ends."""
    from benchmarks.spark_reader import session  # noqa: PLC0415 - Spark is only in the process that answers

    spark = session(cores, bundle)
    spark.sparkContext.setLogLevel("OFF")
    for line in sys.stdin:
        question = json.loads(line)
        start = time.perf_counter()
        table = spark.read.format("hudi").option("hoodie.metadata.enable", "true").load(question["folder"])
        rows = len(table.where(question["where"]).collect())
        print(json.dumps({"rows": rows, "seconds": time.perf_counter() - start}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
