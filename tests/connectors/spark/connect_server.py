"""A server of Spark Connect on loopback, in a process of its own; ``session`` connects to it.

PySpark lets a process have sessions of one kind. ``session`` makes the other kind too, for tests beside a classic
session: ``as_connect`` has to be in force wherever they are used, as functions such as ``col`` go by it.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast
from unittest import mock

import pyspark
from pyspark.sql import SparkSession

from hudi_bridge import HudiTable
from hudi_bridge.inspection import inspect_files
from tests.connectors.spark.processes import environment

LOOPBACK = "127.0.0.1"
CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_SECONDS = 120
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
}


@contextmanager
def connect_server(folder: Path, bare_python: Path | None = None) -> Iterator[str]:
    """The URL of a server, which ends afterwards; ``folder`` gets its log and its tables.

    Its workers run ``bare_python``, which has not this package, or else the Python of this process, which has it.
    """
    port = _free_port()
    settings = SETTINGS | {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
    }
    options = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--class", CLASS, *options, "spark-internal"]
    log = folder / "server.log"
    with log.open("w") as out:
        variables = environment(bare_python or Path(sys.executable)) | {"SPARK_HOME": str(home)}
        if bare_python is not None:
            del variables["PYTHONPATH"]
        server = subprocess.Popen(command, env=variables, cwd=folder, stdout=out, stderr=subprocess.STDOUT)
        try:
            _wait_for(port, server, log)
            yield f"sc://{LOOPBACK}:{port}"
        finally:
            server.terminate()
            server.wait(START_SECONDS)


def session(url: str) -> SparkSession:
    """A new session, made whether or not this process has a classic one."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession  # noqa: PLC0415 - needs packages of its own

    return cast(SparkSession, ConnectSession.builder.remote(url).create())


def counts_of(table: Path) -> dict[str, int]:
    """What ``connect_job.py`` prints of a table; its server runs elsewhere."""
    opened = HudiTable.open(str(table))
    ways = dict.fromkeys(("read", "format", "view", "located"), opened.snapshot().count_rows())
    return {**ways, "files": inspect_files(opened).num_rows, "others": 0, "runs locally": False}


@contextmanager
def as_connect() -> Iterator[None]:
    """Functions of PySpark make columns of Spark Connect."""
    with mock.patch.dict(os.environ, {"SPARK_CONNECT_MODE_ENABLED": "1"}):
        yield


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind((LOOPBACK, 0))
        port: int = listening.getsockname()[1]
        return port


def _wait_for(port: int, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as client:
            if client.connect_ex((LOOPBACK, port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"no server of Spark Connect: {log.read_text()[-4000:]}")
