"""All sequences of log versions of a record, rows, marked rows and records of delete blocks, against Hudi's answers."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiTable
from tests.support.golden_cases import golden_log_versions
from tests.support.strength import one_in

ANSWERS = {
    f"{folder.name}, {answer.stem}": (folder, answer)
    for folder in golden_log_versions()
    for answer in sorted((folder / "answers").iterdir())
}


def test_every_table_has_an_answer() -> None:
    assert len({folder for folder, _ in ANSWERS.values()}) == len(golden_log_versions())


@pytest.mark.parametrize("name", one_in(4, ANSWERS))
def test_each_sequence_leaves_what_it_leaves_in_hudi(name: str) -> None:
    folder, answer = ANSWERS[name]
    assert rows_of(folder / "table", answer.stem) == {
        row["id"]: (row["ts"], row["val"]) for row in pq.read_table(answer).to_pylist()
    }


def rows_of(table: Path, release: str) -> dict[str, tuple[int | None, str]]:
    options = {"hudi_bridge.read.as.release": release.rpartition(".")[0]}
    rows = HudiTable.open(str(table), options=options).snapshot().to_table().select(["id", "ts", "val"]).to_pylist()
    return {row["id"]: (row["ts"], row["val"]) for row in rows}
