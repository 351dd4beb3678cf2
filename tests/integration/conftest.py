"""One Trino server for all tests of a run, in all its processes. If it cannot start, they fail.

``TRINO_PORT`` names the port of a running server to use instead, such as that of ``make trino`` in another terminal.
"""

import os
from collections.abc import Iterator

import pytest

from tests.integration.trino_server import Trino, shared_server


@pytest.fixture(scope="session")
def trino(tmp_path_factory: pytest.TempPathFactory, testrun_uid: str) -> Iterator[Trino]:
    if port := os.environ.get("TRINO_PORT"):
        yield Trino(int(port))
        return
    with shared_server(tmp_path_factory.getbasetemp().parent / f"trino-{testrun_uid}") as server:
        yield server
