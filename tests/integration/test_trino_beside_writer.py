"""Both ways into Trino beside a writer of Hudi, which upserts, deletes, compacts, clusters and cleans meanwhile.

Every answer has to be that of the table as of some instant, never a mixture of two.
"""

import contextlib
from pathlib import Path
from threading import Thread

from hudi_bridge import DataFileGoneError, HudiTable, InstantNotReadableError
from hudi_bridge.timeline.instant import Action
from tests.connectors.spark.answers_beside_writer import (
    Answer,
    answers_at_instants,
    ask_while,
    running_writer,
    write_and_note,
    write_round,
)
from tests.integration.sql_route import hive_catalog, route_in
from tests.integration.trino_catalogs import iceberg_properties
from tests.integration.trino_server import Trino
from tests.service.iceberg_service import running, service_options

ROUNDS = 4


def test_every_answer_is_that_of_an_instant(trino: Trino, tmp_path: Path) -> None:
    table = tmp_path / "root" / "trips"
    table.parent.mkdir()
    options = service_options(tmp_path / "scratch", [table.parent], keep=2)
    with running_writer(table, ROUNDS) as writer:
        write_round(writer)
        expected = answers_at_instants(table)
        rounds = Thread(target=write_and_note, args=(writer, table, expected, ROUNDS - 1))
        with (
            running(options) as service,
            trino.catalog("written", "iceberg", iceberg_properties(service.url)) as live,
            hive_catalog(trino, tmp_path / "metastore") as hive,
        ):
            route = route_in(trino, hive, "written", tmp_path)
            actual: dict[str, list[Answer]] = {"live": [], "published": []}

            def ask() -> None:
                actual["live"].append(answer(trino, f"{live}.default.trips"))
                # The cleaner may be faster; the view shows the publication before, then.
                with contextlib.suppress(DataFileGoneError, InstantNotReadableError):
                    route.create(route.publish(HudiTable.open(str(table))))
                actual["published"].append(answer(trino, f"{route.place}.v"))

            ask_while(rounds, ask)
    for answers in actual.values():
        assert set(answers) <= set(expected.values())
        assert answers[-1] == expected[max(expected)]
        assert len(set(answers)) > ROUNDS // 2
    actions = {instant.action for instant in HudiTable.open(str(table)).timeline.completed()}
    assert {Action.COMMIT, Action.DELTA_COMMIT, Action.CLEAN, Action.REPLACE_COMMIT} <= actions


def answer(trino: Trino, name: str) -> Answer:
    ((rows, ts, cents),) = trino.query(f"SELECT count(*), sum(ts), sum(CAST(fare * 100 AS bigint)) FROM {name}")
    return rows, ts, cents
