"""The configurations of the documentation and of deploy/: the command takes them, and they name what there is."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from hudi_bridge.cli.iceberg import serve_app, use_config
from hudi_bridge.connectors.iceberg.slice_cache import Counters
from hudi_bridge.service.config import OIDC, READER, access_of, vending_of
from hudi_bridge.service.credentials import CREDENTIALS
from tests.support.snippets import PAGES, ROOT, blocks

DEPLOY = ROOT / "deploy"
IN_KUBERNETES = re.search(r"service\.toml: \|\n((?:    .*\n)+)", (DEPLOY / "kubernetes.yaml").read_text())
TEXTS = {
    "deploy/service.toml": (DEPLOY / "service.toml").read_text(),
    "deploy/kubernetes.yaml": re.sub("^    ", "", IN_KUBERNETES[1] if IN_KUBERNETES else "", flags=re.MULTILINE),
} | {block.place: block.text for page in PAGES for block in blocks(page) if block.language == "toml"}


@pytest.mark.parametrize("place", TEXTS)
def test_the_command_takes_the_configuration(place: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    command = get_command(serve_app)
    context = typer.Context(command)
    (tmp_path / "service.toml").write_text(TEXTS[place])
    use_config(context, tmp_path / "service.toml", (READER, OIDC, CREDENTIALS))
    defaults: Any = context.default_map
    assert defaults["root"]
    assert defaults["scratch"]
    document = tomllib.loads(TEXTS[place])
    for number, reader in enumerate(document[READER]):
        (tmp_path / str(number)).write_text(f"secret {number}")
        for name in reader.keys() & {"token-file", "client-secret-file"}:
            reader[name] = str(tmp_path / str(number))
    access = access_of(document)
    assert access is not None
    assert len(access.tokens) + len(access.clients) == len(document[READER])
    for rule in document.get(CREDENTIALS, ()):
        rule |= {name: str(tmp_path / "secret") for name in rule if name.endswith("-file")}
    vending = vending_of(document)
    assert len(vending.rules if vending is not None else ()) == len(document.get(CREDENTIALS, ()))


def test_some_configuration_has_credentials() -> None:
    assert [place for place, text in TEXTS.items() if f"[[{CREDENTIALS}]]" in text]


def test_alerts_are_about_metrics_that_there_are() -> None:
    counters = set(re.findall(r"# TYPE (\w+)", Counters().prometheus()))
    used = set(re.findall(r"hudi_bridge_iceberg_\w+", (DEPLOY / "alerts.yaml").read_text()))
    assert used
    assert used <= counters


@pytest.mark.parametrize(
    "name", ["hudi-bridge.service", "kubernetes.yaml", "nginx.conf", "alerts.yaml", "service.toml"]
)
def test_the_page_names_the_files(name: str) -> None:
    assert f"deploy/{name})" in (ROOT / "docs" / "iceberg-service.md").read_text()


def test_the_container_has_what_the_service_needs() -> None:
    text = (ROOT / "Containerfile").read_text()
    (extras,) = re.findall(r'"/source\[([a-z,]+)\]"', text)
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= declared.keys()
    copied = [path for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE) for path in line.split()]
    assert all((ROOT / path).exists() for path in copied)
