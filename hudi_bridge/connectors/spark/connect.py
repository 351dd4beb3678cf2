"""Sessions of Spark Connect, which have no context and whose JVM is that of a server.

``context_of`` tells them from classic sessions.

A DataFrame of ``localCheckpoint`` tells the server when it is no longer needed. PySpark does so in ``__del__``, by a
call that blocks. If Python collects garbage in the middle of another call, that may wait for itself, for ever.
``release_in_thread`` leaves it to a thread.

Source: ``CachedRemoteRelation`` of PySpark, ``RangeExec`` of Spark.
"""

import os
from functools import cache
from queue import SimpleQueue
from threading import Thread
from typing import Any
from weakref import WeakKeyDictionary

import pyspark
from pyspark import SparkContext
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
