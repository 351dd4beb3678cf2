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
def connect_server(folder: Path) -> Iterator[str]:
    """The URL of a server, which ends afterwards; ``folder`` gets its log and its tables."""
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
        variables = environment(Path(sys.executable)) | {"SPARK_HOME": str(home)}
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
