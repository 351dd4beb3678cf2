"""The view that decodes and merges log blocks within Trino, against the answers of Hudi."""

import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trino.exceptions import TrinoUserError

from hudi_bridge import HudiTable
from tests.connectors.trino.unmerged_tables import REFUSED, SNAPSHOTS
from tests.integration.sql_route import FIELDS, SqlRoute, hive_catalog, route_in
from tests.integration.sql_views import NESTED, all_fields
from tests.integration.trino_server import Trino
from tests.support.golden_queries import QUERIES, Key, answer_of, query_id
from tests.support.table_writer import TableWriter, at

CASES = ("a_story_v9_120", "e_composite_single_120", "f_types_120")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "key" in metafunc.fixturenames:
        every = [key for key in SNAPSHOTS if key[0] not in REFUSED]
        keys = every if metafunc.config.getoption("--matrix") else [(case, 0) for case in CASES]
        metafunc.parametrize("key", keys, ids=query_id)


@pytest.fixture(scope="module")
def catalog(trino: Trino, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hive_catalog(trino, tmp_path_factory.mktemp("metastore")) as name:
        yield name


@pytest.fixture
def route(trino: Trino, catalog: str, tmp_path: Path) -> SqlRoute:
    return route_in(trino, catalog, f"s{uuid.uuid4().hex[:8]}", tmp_path)


@pytest.mark.engine("trino sql, unmerged")
def test_golden_rows_are_those_of_hudi(route: SqlRoute, key: Key) -> None:
    table = HudiTable.open(str(QUERIES[key].table))
    publication = route.publish(table, unmerged=True)
    assert not publication.is_merged
    assert publication.records == 0
    route.create(publication)
    assert route.differences_from(answer_of(QUERIES[key])) == []


# The types of more columns are too large for the memory of a Python function in Trino.
@pytest.mark.parametrize("case", ["two_levels_of_maps", "names", "names_not_ascii"])
def test_nested_rows_are_those_of_hudi(route: SqlRoute, case: str) -> None:
    route.create(route.publish(HudiTable.open(str(NESTED[case].table)), unmerged=True))
    assert route.differences_from(answer_of(NESTED[case])) == []
    if case.startswith("names"):
        sql, rows = all_fields(case, "v")
        assert route.query(sql) == rows


ORDERINGS: tuple[tuple[int, dict[str, str], str], ...] = (
    (9, {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}, "int"),
    (9, {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}, "long"),
    (6, {"hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}, "double"),
    (6, {"hoodie.compaction.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"}, "string"),
)
VALUES: dict[str, list[Any]] = {
    "int": [None, -1, 0, 1, 2],
    "long": [-1, 0, 1, 2, 3],
    "double": [-0.0, 0.0, 1.5, float("nan"), float("inf")],
    "string": ["", "a", "é", "\uffff", "😀"],
}
# Of deletes, the writer of these tests knows no doubles.
DELETED: dict[str, list[Any]] = {**VALUES, "long": [None, *VALUES["long"]], "double": [None]}


@pytest.mark.parametrize(("version", "options", "kind"), ORDERINGS)
def test_versions_are_folded_as_in_hudi(route: SqlRoute, version: int, options: dict[str, str], kind: str) -> None:
    chance = random.Random(1)
    fields = (("id", "string"), ("ts", kind), ("n", "long"), ("_hoodie_is_deleted", "boolean"))
    writer = TableWriter(folder=route.folder / "t", version=version, fields=fields, options=options).create()
    keys = [f"k{number}" for number in range(300)]

    def row(key: str, number: int) -> dict[str, Any]:
        is_deleted = number > 0 and chance.random() < 0.2
        return {"id": key, "ts": chance.choice(VALUES[kind]), "n": number, "_hoodie_is_deleted": is_deleted}

    writer.base_file(at(1), [row(key, 0) for key in keys[:200]])
    writer.commit(at(1))
    for number in range(2, 8):
        chosen = chance.sample(keys, 150)
        blocks = [writer.data_block(at(number), [row(key, number) for key in chosen[:100]])]
        deletes = [(key, chance.choice(DELETED[kind])) for key in chosen[100:]]
        blocks.append(writer.delete_block(at(number), deletes))
        writer.log_file(at(number), blocks, base_instant=at(1), number=number)
        writer.commit(at(number))
    table = writer.open()
    route.create(route.publish(table, unmerged=True))
    expected = table.snapshot().to_table()
    assert 0 < expected.num_rows < len(keys)
    assert route.differences_from(expected) == []


def test_the_function_is_called_once_for_a_chunk_and_the_log_is_decoded_once(route: SqlRoute) -> None:
    changes = [{"id": f"k{number}", "ts": 2, "n": number, "note": "é" * 300} for number in range(2500)]
    writer = TableWriter(folder=route.folder / "t", fields=FIELDS).create()
    writer.base_file(at(1), [{"id": "k1", "ts": 1, "n": 0, "note": None}, {"id": "z", "ts": 1, "n": 0, "note": "z"}])
    writer.log_file(at(2), [writer.data_block(at(2), changes)])
    writer.commit(at(1))
    writer.commit(at(2))
    publication = route.publish(writer.open(), unmerged=True)
    assert publication.block_rows > 2
    route.create(publication)
    assert route.differences_from(writer.open().snapshot().to_table()) == []
    plan = "\n".join(line[0] for line in route.query("EXPLAIN SELECT * FROM v"))
    assert plan.count("v__rows_") == 1


@pytest.mark.parametrize("place", ["published/*/blocks/*.parquet", "t/*.parquet"])
def test_a_file_that_is_gone_is_an_error(route: SqlRoute, place: str) -> None:
    writer = TableWriter(folder=route.folder / "t", fields=FIELDS).create()
    writer.base_file(at(1), [{"id": "a", "ts": 1, "n": 0, "note": None}])
    writer.log_file(at(2), [writer.data_block(at(2), [{"id": "a", "ts": 2, "n": 0, "note": None}])])
    writer.commit(at(1))
    writer.commit(at(2))
    route.create(route.publish(writer.open(), unmerged=True))
    (gone,) = route.folder.glob(place)
    gone.unlink()
    with pytest.raises(TrinoUserError, match="has to be published again"):
        route.query("SELECT count(*) FROM v WHERE id = 'x'")
