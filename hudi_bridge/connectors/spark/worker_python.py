"""Checks the Python version of Spark's workers before a job fails because of it.

Without ``PYSPARK_PYTHON``, workers run the first ``python3`` of the path, which need not be the driver's.
"""

import os
import shutil
import subprocess
import sys

from pyspark.sql import SparkSession

from hudi_bridge.errors import QueryError

_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"  # runs on Python 2, too
_TIMEOUT_SECONDS = 30


def require_same_python(spark: SparkSession) -> None:
    """Raises unless the workers that Spark starts on the driver's machine run the driver's version of Python.

    Raises:
        QueryError: they run another minor version; PySpark cannot pass functions between minor versions.
    """
    require_version_of_driver(spark.sparkContext.pythonExec)


def require_version_of_driver(python: str) -> None:
    """Raises unless ``python`` has the same minor version as this Python, or is not installed on this machine.

    Raises:
        QueryError: it has another minor version.
    """
    found = shutil.which(python)
    # A Python that executors unpack from an archive is not on this machine.
    if found is None or os.path.abspath(found) == os.path.abspath(sys.executable):  # noqa: PTH100 - keeps symbolic links
        return
    try:
        command = [found, "-c", _VERSION]
        asked = subprocess.run(  # noqa: S603 - the program that Spark is about to start
            command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True
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
