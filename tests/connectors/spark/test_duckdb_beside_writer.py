"""DuckDB's views beside a writer of Hudi, which upserts, deletes, compacts, clusters and cleans meanwhile."""

from pathlib import Path
from threading import Thread

import duckdb
import pytest

from hudi_bridge import DataFileGoneError, HudiReadError
from hudi_bridge.connectors.duckdb import Attached, attach
from tests.connectors.spark.answers_beside_writer import Answer, answers_at_instants, ask_while, write_and_note
from tests.connectors.spark.test_spark_writer import running_writer, write_round

ROUNDS = 5
QUERY = "SELECT count(*), sum(ts), sum(CAST(round(fare * 100) AS BIGINT)) FROM {}"


@pytest.mark.jvm
def test_every_answer_is_that_of_the_instant_that_the_views_show(tmp_path: Path) -> None:
    table = tmp_path / "trips"
    with running_writer(table, ROUNDS) as writer, duckdb.connect() as connection:
        write_round(writer)
        expected = answers_at_instants(table)
        found: dict[Attached, list[tuple[str, Answer]]] = {
            attach(connection, table, "in_memory"): [],
            attach(connection, table, "in_folder", cache=tmp_path / "cache"): [],
        }

        def ask() -> None:
            for attached, answers in found.items():
                attached.refresh()
                assert attached.plan()[attached.name].is_native
                if (answer := answer_of(connection, attached)) is not None:
                    answers.append((attached.instant, answer))

        ask_while(Thread(target=write_and_note, args=(writer, table, expected, ROUNDS)), ask)
    for answers in found.values():
        assert [(instant, expected[instant]) for instant, _ in answers] == answers
        assert answers[-1][0] == max(expected)
        assert len({instant for instant, _ in answers}) > ROUNDS // 2


def answer_of(connection: duckdb.DuckDBPyConnection, attached: Attached) -> Answer | None:
    """The answer; None if the cleaner was faster."""
    try:
        ((rows, ts, cents),) = connection.execute(QUERY.format(attached.name)).fetchall()
    except duckdb.Error as error:
        cause: HudiReadError | None = attached.cause_of(error)
        if not isinstance(cause, DataFileGoneError):
            raise
        return None
    return rows, ts, cents
