"""Thousands of tables in a store: what it costs to list them, and to find one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hudi_bridge.connectors.lakes.roots import Roots
from tests.support.s3_server import S3Server

TABLES = 300


@pytest.fixture
def store(tmp_path: Path) -> Iterator[S3Server]:
    """A slow store with tables in a folder, and one in a folder below."""
    for name in (*(f"t{number:03d}" for number in range(TABLES)), "sales/orders", "Twice", "tWice"):
        (tmp_path / "bucket" / "lake" / name / ".hoodie").mkdir(parents=True)
        (tmp_path / "bucket" / "lake" / name / ".hoodie" / "hoodie.properties").touch()
    (tmp_path / "bucket" / "lake" / "T007" / "empty").mkdir(parents=True)
    server = S3Server(tmp_path, latency=0.005)
    with server.running():
        yield server


def test_tables_are_listed_by_a_request_for_each_at_once_and_found_by_few(store: S3Server) -> None:
    roots = Roots.of([store.uri("bucket/lake")], [])
    traffic = store.reset()
    assert len(roots.table_names(("default",))) == TABLES + 2
    assert sum(traffic.requests.values()) < 2 * TABLES + 50
    assert traffic.most_at_once > 4
    traffic = store.reset()
    (store.root / "bucket" / "lake" / "new" / ".hoodie").mkdir(parents=True)
    (store.root / "bucket" / "lake" / "new" / ".hoodie" / "hoodie.properties").touch()
    assert roots.namespaces(()) == [("T007",), ("default",), ("sales",)]
    assert "new" in roots.table_names(("default",))
    assert sum(traffic.requests.values()) < 50
    for name, is_found in (("t042", True), ("T042", True), ("t007", True), ("TWICE", False), ("nothing", False)):
        traffic = store.reset()
        assert (roots.find(("default",), name) is not None) == is_found
        assert sum(traffic.requests.values()) < 16
