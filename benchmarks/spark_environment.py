"""The Python that has PySpark 3.5, and the environment of a process with Spark."""

import os
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYTHON35 = Path(os.environ.get("PYTHON_SPARK35", ROOT / ".venv-spark35" / "bin" / "python"))
"""``make .venv-spark35/.installed`` makes it."""


def environment(python: Path) -> dict[str, str]:
    """The variables of a process in which Spark runs with a Python."""
    chosen = {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    return os.environ | chosen | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
