"""The blocks of the guides to Trino that need a server; see tests/support/snippets.py."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.trino_catalogs import iceberg_properties
from tests.integration.trino_server import Trino
from tests.service.iceberg_service import running, service_options
from tests.support.snippets import Block, Session, blocks_of

PAGES = blocks_of("tests/integration/test_trino_snippets.py")
CLIENT = f'#!/bin/sh\nexec "{sys.executable}" -m tests.integration.trino_client "$@"\n'
OURS = "/=local:///"
"""The root of this machine, as Trino knows it with the settings of the guide."""


def properties_of(block: Block) -> dict[str, str]:
    """The settings of a catalog; the connector is one of them."""
    return dict(line.split("=", 1) for line in block.text.splitlines())


def session_of(trino: Trino, folder: Path) -> Session:
    """A session whose shell has a client of the server, and whose publications lie where Trino finds them."""
    (folder / "bin").mkdir()
    client = folder / "bin" / "trino"
    client.write_text(CLIENT)
    client.chmod(0o755)
    return Session.of(folder, path=folder / "bin", environment={"TRINO_PORT": str(trino.port)})


@pytest.fixture
def catalogs(trino: Trino, tmp_path: Path) -> Iterator[None]:
    """The catalogs of the guides, with its settings and, beside them, where things are on this machine."""
    settings = {item["connector.name"]: item for item in map(properties_of, blocks_with("properties"))}
    with ExitStack() as stack:
        # The service has a port of its own, so that tests beside this one may have that of the guide.
        service = stack.enter_context(running(service_options(tmp_path / "views", [tmp_path])))
        here = {
            "iceberg": iceberg_properties(service.url),
            "hive": {
                "hive.metastore": "file",
                "hive.metastore.catalog.dir": f"local://{tmp_path}/metastore",
                "hive.security": "allow-all",
                "fs.native-local.enabled": "true",
                "local.location": "/",
            },
        }
        assert settings.keys() == here.keys()
        for connector, written in settings.items():
            given = {name: value for name, value in written.items() if name != "connector.name"} | here[connector]
            stack.enter_context(trino.catalog("guide" if connector == "iceberg" else "hive", connector, given))
        yield


def blocks_with(language: str) -> list[Block]:
    return [block for page in PAGES.values() for block in page if block.language == language]


@pytest.mark.usefixtures("catalogs")
@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_guide_do_what_it_says(page: str, trino: Trino, tmp_path: Path) -> None:
    session = session_of(trino, tmp_path)
    for block in PAGES[page]:
        if block.language == "console":
            session.run(block)
        elif block.language == "sql":
            for statement in block.text.strip().removesuffix(";").split(";\n"):
                position = "" if "hive.lake" in statement else "guide.default."
                assert trino.query(statement.replace("FROM trips", f"FROM {position}trips")), block.place
