"""Writes random tables with one release of Hudi, and asks it about them: a process of PySpark 3.5.

    python -m tests.random.worker RELEASE BUNDLE < jobs

A job is a line of JSON: the plan of a table and its folder. For each, a line of JSON says what became of it.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from tests.golden.generate.answers import short_error
from tests.golden.generate.session import spark_session
from tests.random import row_steps, table_steps
from tests.random.asking import ask, failures_of_hudi
from tests.random.draw import read_draw
from tests.random.sessions import CONTINUED, FAILED, REFUSED, WRITTEN
from tests.random.writing import DONE, TableWriter, run_steps

STEP_MODULES = (row_steps, table_steps)
"""What registers the functions of steps."""
_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
}


def work(spark: Any, release: str, job: dict[str, Any]) -> dict[str, Any]:
    """Runs the steps of this release; asks if it is the table's last."""
    table, folder = read_draw(job["drawn"]), Path(job["folder"])
    writer = TableWriter(spark, release, table, folder)
    if not run_steps(writer):
        return {"state": REFUSED, "detail": writer.progress.log[0]["result"]}
    if release != table.release:
        writer.save()
        return {"state": CONTINUED, "detail": ""}
    document = ask(writer)
    done = sum(entry["result"] == DONE for entry in writer.progress.log)
    detail = f"{done} of {len(writer.progress.log)} steps, {len(document['queries'])} questions"
    failures = failures_of_hudi(document)
    return {"state": WRITTEN, "detail": f"{detail}, {len(failures)} that Hudi failed to answer"}


def main() -> None:
    """Works until there are no more jobs."""
    release, bundle = sys.argv[1:]
    # What Java prints must not come between the results: its output goes where errors go.
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with spark_session(release, Path(bundle), _SETTINGS) as spark:
        spark.sparkContext.setLogLevel("OFF")
        for line in sys.stdin:
            start = time.monotonic()
            try:
                result = work(spark, release, json.loads(line))
            except Exception as error:  # noqa: BLE001 - the other tables go on
                result = {"state": FAILED, "detail": short_error(error)}
            if result["state"] in (FAILED, REFUSED):
                # If Java has ended, this raises, and the process ends as well: it would refuse all other tables.
                spark.sql("select 1").collect()
            result["seconds"] = round(time.monotonic() - start, 1)
            results.write(json.dumps(result) + "\n")
            results.flush()


if __name__ == "__main__":
    main()
