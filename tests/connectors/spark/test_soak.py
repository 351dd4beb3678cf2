"""Two minutes of ``make soak``: all readers beside real writers of Hudi, in all versions."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.soak.run import Soak, soak

MINUTES = 1.5
"""Without the time in which the writer starts and creates the tables."""


def test_every_answer_beside_writers_is_that_of_an_instant(spark: SparkSession, tmp_path: Path) -> None:
    settings = Soak(folder=tmp_path, versions=(6, 8, 9), minutes=MINUTES, seed=1, kill_seconds=60)
    assert soak(settings, spark) == []
