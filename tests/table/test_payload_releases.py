"""Random writes under the payloads that Hudi ships, by releases that read them differently, against Hudi's answers."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiTable
from tests.support.compare import differences
from tests.support.golden_cases import golden_payload_tables

TABLES = {folder.name: folder for folder in golden_payload_tables()}


@pytest.mark.parametrize("name", sorted(TABLES))
def test_each_snapshot_is_that_of_hudi(name: str) -> None:
    table = HudiTable.open(str(TABLES[name] / "table"))
    answers = sorted((TABLES[name] / "answers").iterdir())
    assert [path.stem for path in answers] == [commit.requested_time for commit in table.timeline.commits()]
    assert {path.stem: differences(pq.read_table(path), rows_as_of(table, path)) for path in answers} == {
        path.stem: [] for path in answers
    }


def rows_as_of(table: HudiTable, answer: Path) -> pa.Table:
    return table.snapshot(answer.stem).to_table()
