"""One Trino, one Presto server, one HDFS and one KDC for all tests of a run that need it. If none starts, they fail.

All processes of a run share the servers of SQL.

``TRINO_PORT`` names the port of a running server to use instead, such as that of ``make trino`` in another terminal;
likewise ``PRESTO_PORT``, with the folder that ``make presto`` names as ``PRESTO_FOLDER``.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.hdfs_cluster import HdfsCluster, running_hdfs
from tests.integration.loopback_kdc import Kdc, running_kdc
from tests.integration.presto_server import Presto
from tests.integration.presto_server import shared_server as shared_presto
from tests.integration.trino_server import Trino
from tests.integration.trino_server import shared_server as shared_trino

pytest.register_assert_rewrite("tests.integration.sql_views")


@pytest.fixture(scope="session")
def trino(tmp_path_factory: pytest.TempPathFactory, testrun_uid: str) -> Iterator[Trino]:
    if port := os.environ.get("TRINO_PORT"):
        yield Trino(int(port))
        return
    with shared_trino(tmp_path_factory.getbasetemp().parent / f"trino-{testrun_uid}") as server:
        yield server


@pytest.fixture(scope="session")
def presto(tmp_path_factory: pytest.TempPathFactory, testrun_uid: str) -> Iterator[Presto]:
    if port := os.environ.get("PRESTO_PORT"):
        yield Presto.of_another_terminal(Path(os.environ["PRESTO_FOLDER"]), int(port))
        return
    with shared_presto(tmp_path_factory.getbasetemp().parent / f"presto-{testrun_uid}") as server:
        yield server


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    with running_hdfs(tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with running_kdc(tmp_path_factory.mktemp("kdc")) as server:
        yield server
