"""Sessions of Spark, classic or of Spark Connect, and their Python workers.

A session of Spark Connect has no context, and its JVM is that of a server. ``context_of`` tells it from a classic one.

A DataFrame of ``localCheckpoint`` tells the server when it is no longer needed. PySpark does so in ``__del__``, by a
call that blocks. If Python collects garbage in the middle of another call, that may wait for itself, for ever.
``release_in_thread`` leaves it to a thread.

Without ``PYSPARK_PYTHON``, workers run the first ``python3`` of the path, which need not be the driver's Python:
``require_same_python`` checks it before a job fails. ``on_workers`` is for functions of this package that workers run:
workers that lack the package say so.

PySpark 3.5 calls ``importlib.invalidate_caches`` before each task. Up to Python 3.12, each zip importer then reads the
directory of its archive again: fifteen times in all for PySpark, Py4J and a large JAR, which takes a tenth of a second.
Dropping an importer costs nothing, because Python makes it again at the next import. Importers of archives that jobs
have added stay, since those archives may change.

Source: ``CachedRemoteRelation`` and ``pyspark.worker.main`` of PySpark; ``RangeExec``, ``SparkConnectPlanner`` and
``PythonUtils.sparkPythonPath`` of Spark; ``zipimporter.invalidate_caches`` of Python.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar
from weakref import WeakKeyDictionary
from zipimport import zipimporter

import pyspark
from pyspark import SparkContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession

from hudi_bridge.errors import QueryError

_SERVER_IN_THIS_PROCESS = "SPARK_LOCAL_REMOTE"
"""PySpark sets this variable if ``remote("local")`` has started a server."""
# More than a cluster has cores.
_PROBED_ROWS = 1 << 16
_PARALLELISM: "WeakKeyDictionary[SparkSession, int]" = WeakKeyDictionary()
_UNUSED: "SimpleQueue[dict[str, Any]]" = SimpleQueue()
"""Attributes of what is to be released. Unlike other queues, this one may be used while garbage is collected."""


def context_of(spark: SparkSession) -> SparkContext | None:
    """The context of a classic session; None for a session of Spark Connect.

    Raises:
        QueryError: PySpark 3.5 has no ``localCheckpoint`` in Spark Connect.
    """
    try:
        return spark.sparkContext
    except AttributeError:
        return None
    except NotImplementedError:
        session = f"a session of Spark Connect with PySpark {pyspark.__version__}"
        raise QueryError("spark", session, "PySpark 4.0 or later, or a classic session") from None


def server_is_here() -> bool:
    """Whether the server of sessions of Spark Connect is a part of this process, as ``remote("local")`` makes it."""
    return _SERVER_IN_THIS_PROCESS in os.environ


def runs_locally(spark: SparkSession) -> bool:
    """Whether all workers of a session are known to run on this machine."""
    context = context_of(spark)
    return server_is_here() if context is None else (context.master or "").startswith("local")


def parallelism_of(spark: SparkSession) -> int:
    """How many tasks a session runs at the same time, by default."""
    context = context_of(spark)
    if context is not None:
        return context.defaultParallelism
    if spark not in _PARALLELISM:
        # A job has to find out, so it is asked once for each session.
        partitions = spark.range(_PROBED_ROWS).selectExpr("spark_partition_id() AS partition").distinct()
        _PARALLELISM[spark] = partitions.count()
    return _PARALLELISM[spark]


def release_in_thread(checkpointed: DataFrame) -> None:
    """Lets a thread release what the server keeps for the result of ``localCheckpoint`` once it is no longer needed."""
    plan: Any = getattr(checkpointed, "_plan", None)
    if hasattr(type(plan), "__del__"):
        plan.__class__ = _released_in_thread(type(plan))  # type: ignore[arg-type]  # types are hashable


@cache
def _released_in_thread(kind: type[Any]) -> type:
    """A class like ``kind`` that leaves ``__del__`` to a thread."""
    Thread(target=_release_unused, args=(kind,), name="hudi-bridge-releases", daemon=True).start()
    return type(kind.__name__, (kind,), {"__del__": lambda plan: _UNUSED.put(plan.__dict__)})


def _release_unused(kind: type[Any]) -> None:
    while True:
        attributes = _UNUSED.get()
        # A thread each, so that a server that is gone holds up nothing else. ``__del__`` does not start it, as it may
        # run in a call that holds a lock of ``threading``.
        Thread(target=_release, args=(kind, attributes), name="hudi-bridge-release", daemon=True).start()
        del attributes


def _release(kind: type[Any], attributes: dict[str, Any]) -> None:
    # Made and dropped here, so that its ``__del__`` runs in this thread.
    unused: Any = object.__new__(kind)
    unused.__dict__.update(attributes)


_PRINT_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"  # runs on Python 2, too
_TIMEOUT_SECONDS = 30


def require_same_python(spark: SparkSession) -> None:
    """Raises unless the workers that Spark starts on the driver's machine run the driver's version of Python.

    Of workers of a server of Spark Connect that runs elsewhere, nothing is known; Spark refuses another version.

    Raises:
        QueryError: they run another minor version; PySpark cannot pass functions between minor versions.
    """
    context = context_of(spark)
    if context is not None:
        require_version_of_driver(context.pythonExec)
    elif server_is_here():
        variables = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
        require_version_of_driver(next((os.environ[name] for name in variables if name in os.environ), "python3"))


def require_version_of_driver(python: str) -> None:
    """Raises unless ``python`` has the same minor version as this Python, or is not installed on this machine.

    Raises:
        QueryError: it has another minor version.
    """
    program = shutil.which(python)
    # A Python that executors unpack from an archive is not on this machine.
    if program is None or os.path.abspath(program) == os.path.abspath(sys.executable):  # noqa: PTH100 - keeps symbolic links
        return
    try:
        command = [program, "-c", _PRINT_VERSION]
        process = subprocess.run(  # noqa: S603 - the program that Spark is about to start
            command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return
    driver_version, worker_version = "{}.{}".format(*sys.version_info[:2]), process.stdout.strip()
    if driver_version != worker_version:
        raise QueryError(
            "PYSPARK_PYTHON",
            f"Python {worker_version} for Spark's workers ({program}) and Python {driver_version} for the driver",
            f"the same version: start with PYSPARK_PYTHON={sys.executable}, or with the Python of the workers",
        )


@contextmanager
def dropping_zip_importers() -> Iterator[None]:
    """On exit, drops this process's importers of the archives that it was started with (``PYTHONPATH``)."""
    try:
        yield
    finally:
        archives = {str(Path(path).absolute()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep)}
        for path, importer in tuple(sys.path_importer_cache.items()):
            if isinstance(importer, zipimporter) and importer.archive in archives:
                # Another thread may have dropped it.
                sys.path_importer_cache.pop(path, None)


Argument = TypeVar("Argument")
Result = TypeVar("Result")


def on_workers(function: Callable[[Argument], Result]) -> Callable[[Argument], Result]:
    """The function for workers, which raises an error where they have not this release of the package.

    Python could not load the function itself without the package, and would only say that a module is missing. So
    what is returned is one that needs nothing but Python, and that is pickled by value: it has no name in a module.
    """
    pickled: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    release: str = import_module("hudi_bridge").__version__

    def run(argument: Argument) -> Result:
        import importlib  # noqa: PLC0415 - what a worker needs
        import json  # noqa: PLC0415
        import os  # noqa: PLC0415
        import pickle  # noqa: PLC0415
        import sys  # noqa: PLC0415

        try:
            there = importlib.import_module("hudi_bridge").__version__
            lacking = None if there == release else f"hudi-bridge {there}"
            loaded: Any = None if lacking else pickle.loads(pickled)  # noqa: S301 - from the driver of this job
        except ModuleNotFoundError as error:
            lacking = f"no module {error.name}"
        if lacking:
            python = "Python {}.{} of a worker".format(*sys.version_info[:2])
            facts = (
                "workers",
                f"{lacking} in {python} ({sys.executable} on {os.uname().nodename})",
                f"hudi-bridge {release} and its dependencies: see Clusters in docs/spark.md",
            )
            if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
                os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            text = "{}: found {}, expected {}".format(*facts)
            note = json.dumps({"error": "QueryError", "arguments": facts})
            raise ModuleNotFoundError(f"{text}\nhudi_bridge: {note}")
        result: Result = loaded(argument)
        return result

    # Types of this module would be pickled by name.
    run.__annotations__.clear()
    return run
