from tests.integration.trino_server import Trino


def test_answers_queries(trino: Trino) -> None:
    assert trino.query("SELECT node_version FROM system.runtime.nodes") == [["476"]]


def test_catalogs_come_and_go(trino: Trino) -> None:
    with trino.catalog("passing", "memory", {"memory.max-data-per-node": "1MB"}):
        assert ["passing"] in trino.query("SHOW CATALOGS")
    assert ["passing"] not in trino.query("SHOW CATALOGS")
