"""Hudi on Spark: PySpark 3.5 with Hudi's bundle, in the newest release or in that of ``HUDI_RELEASE``.

It needs the Python of ``make spark`` (``--python .venv-spark35/bin/python``) and, for the first query, a longer
``--timeout``; Java has a bound on memory of its own (``SPARK_DRIVER_MEMORY``), so ``--memory`` is 0.
"""

import atexit
import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.golden.generate.answers import Reader
from tests.golden.generate.options import SCHEMA_ON_READ
from tests.golden.generate.questions import Question
from tests.golden.generate.releases import NEWEST, RELEASES
from tests.golden.generate.session import spark_session

RELEASE = RELEASES[os.environ.get("HUDI_RELEASE", NEWEST)]
READER = f"Hudi {RELEASE.version} on Spark"

_stack = ExitStack()
atexit.register(_stack.close)
_spark = _stack.enter_context(spark_session(RELEASE.version, RELEASE.bundle.fetched()))


def read(table: str, kind: str, options: Mapping[str, Any]) -> pa.Table:
    if SCHEMA_ON_READ in options:
        _spark.conf.set(SCHEMA_ON_READ, options[SCHEMA_ON_READ])
    else:
        _spark.conf.unset(SCHEMA_ON_READ)
    reader = Reader(spark=_spark, table=Path(table), reader_options={})
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        Path(folder, "expected").mkdir()
        entry = reader.answer(Question(kind=kind, options=options, stem="answer"), Path(folder))
        if entry["expected"] is None:
            raise RuntimeError(entry["oracle_error"])
        return pq.read_table(Path(folder) / entry["expected"])
