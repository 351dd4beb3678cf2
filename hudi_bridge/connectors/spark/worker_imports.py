"""Keeps Spark's own archives from being read again before each task of a Python worker.

PySpark 3.5 calls ``importlib.invalidate_caches`` before each task. Up to Python 3.12, each zip importer then reads the
directory of its archive again: fifteen times in all for PySpark, Py4J and a large JAR, which takes a tenth of a second.
An importer that is forgotten costs nothing, and is made again when a module is next imported. Those of archives that
jobs have added stay, since these may change.

Source: ``pyspark.worker.main``, ``PythonUtils.sparkPythonPath`` of Spark, ``zipimporter.invalidate_caches`` of Python.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipimport import zipimporter


@contextmanager
def forgetting_zip_importers() -> Iterator[None]:
    """A context after which this process has no importers for archives that it was started with."""
    try:
        yield
    finally:
        own = {str(Path(path).absolute()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep)}
        for path, importer in tuple(sys.path_importer_cache.items()):
            if isinstance(importer, zipimporter) and importer.archive in own:
                # Another thread may have forgotten it.
                sys.path_importer_cache.pop(path, None)
