"""Runs scripts in Python processes of their own, with other releases of Spark or other masters."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.jdks import SPARK, SPARK35, jdk_home

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
PYTHON35 = ROOT / ".venv-spark35" / "bin" / "python"
"""PySpark 3.5; ``make spark`` installs it."""
TIMEOUT_SECONDS = 600
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
"""For JVMs of short lives on few cores: their second compiler would take more time than it saves.

The first alone has 48 MB for its code unless told otherwise: they are full after some minutes, and Java interprets from
then on.
"""


def environment(python: Path) -> dict[str, str]:
    """The environment variables for a process with another Python, and for the workers of its Spark."""
    variables = {
        name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYSPARK_GATEWAY_PORT")
    }
    return variables | {
        "JAVA_HOME": str(jdk_home(SPARK35 if python == PYTHON35 else SPARK)),
        "JDK_JAVA_OPTIONS": JVM_OPTIONS,
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
        # Hudi shows the times of files in the time zone of the machine.
        "TZ": "UTC",
    }


def output_of(script: str, *arguments: str, python: Path = Path(sys.executable)) -> str:
    """The output of a script of this folder; if the script fails, so does the test, with its error."""
    command = [str(python), str(HERE / script), *arguments]
    done = subprocess.run(
        command, env=environment(python), capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
