"""One Trino server for all tests of a run, whatever processes they run in; a server that cannot start fails them.

With ``TRINO_PORT`` in the environment, that of ``make trino`` in another terminal, or any other on this machine.
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
