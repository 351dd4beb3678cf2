"""Runs a Spark session with one release, which writes cases or reads those of older releases.

    python -m tests.golden.generate.worker write RELEASE BUNDLE FOLDER CASE...
    python -m tests.golden.generate.worker review RELEASE BUNDLE FOLDER CASE...

``tests.golden.generate`` starts it in the Python that has the release's PySpark (3.10 for Hudi 0.12).
"""

import shutil
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tests.golden.generate.answers import short_error
from tests.golden.generate.cases import CASES
from tests.golden.generate.document import describe
from tests.golden.generate.registry import Case
from tests.golden.generate.second_opinion import add_second_opinion
from tests.golden.generate.session import spark_session
from tests.golden.generate.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write(spark: "SparkSession", case: Case, folder: Path) -> str:
    """Writes a case into its folder; returns a line about the result."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if case.begins_as is not None:
        shutil.copytree(folder.with_name(case.begins_as) / "table", folder / "table")
    writer = Writer(spark, case, folder)
    try:
        case.write(writer, **case.parameters)
        if not case.is_golden:
            return "written"
        document = describe(writer, folder)
    finally:
        writer.close()
    for path in folder.rglob("*.crc"):
        path.unlink()
    failed = [query for query in document["queries"] if query["expected"] is None]
    failures = "".join(f"\n    {query['kind']}: {query['oracle_error'].rpartition(' | ')[2]}" for query in failed)
    return f"{len(document['queries'])} questions, {len(failed)} that Hudi failed to answer{failures}"


def main() -> int:
    """Runs a task on the cases of the command line; the exit status is 1 if one failed."""
    task, version, bundle, folder, *names = sys.argv[1:]
    failed = 0
    with spark_session(version, Path(bundle)) as spark:
        for name in names:
            start = time.monotonic()
            try:
                if task == "write":
                    said = write(spark, CASES[name], Path(folder) / name)
                else:
                    add_second_opinion(spark, version, Path(folder) / name)
                    said = f"read by {version}"
            except Exception as error:  # noqa: BLE001 - the other cases go on
                traceback.print_exc()
                failed += 1
                said = f"FAILED: {short_error(error)}"
            print(f"{name}: {said} ({time.monotonic() - start:.0f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
