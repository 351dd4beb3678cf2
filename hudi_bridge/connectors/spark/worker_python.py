"""The Python that Spark's workers run, asked before a job would fail for it.

Spark starts workers with ``PYSPARK_PYTHON``, without it with the first ``python3`` of the path. That is another Python
than the driver's where a program is started by the path of a virtual environment that is not activated.
"""

import os
import shutil
import subprocess
import sys

from pyspark.sql import SparkSession

from hudi_bridge.errors import QueryError

_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"  # of any Python, also of version 2
_PATIENCE_SECONDS = 30


def require_same_python(spark: SparkSession) -> None:
    """Raises if processes that Spark starts on the driver's machine would run another Python than the driver.

    Raises:
        QueryError: they run another minor version, between which PySpark cannot pass functions.
    """
    require_version_of_driver(spark.sparkContext.pythonExec)


def require_version_of_driver(python: str) -> None:
    """Raises if a program is a Python of another minor version than this one; none is needed where there is none.

    Raises:
        QueryError: it is.
    """
    found = shutil.which(python)
    # What is unpacked for executors alone, from an archive, is not here.
    if found is None or os.path.abspath(found) == os.path.abspath(sys.executable):  # noqa: PTH100 - links stay
        return
    try:
        command = [found, "-c", _VERSION]
        asked = subprocess.run(  # noqa: S603 - what Spark is about to start
            command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return
    own, other = "{}.{}".format(*sys.version_info[:2]), asked.stdout.strip()
    if own != other:
        raise QueryError(
            "PYSPARK_PYTHON",
            f"Python {other} for Spark's workers ({found}) and Python {own} for the driver",
            f"the same version: start with PYSPARK_PYTHON={sys.executable}, or with the Python of the workers",
        )
