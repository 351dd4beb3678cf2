"""Random writes under the payloads that Hudi ships, by releases that read them differently, against Hudi's answers."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiTable, open_reader
from tests.support.compare import differences
from tests.support.golden_cases import golden_payload_tables
from tests.support.strength import one_in

TABLES = {folder.name: folder for folder in golden_payload_tables()}


@pytest.mark.parametrize("name", one_in(5, sorted(TABLES)))
def test_each_snapshot_is_that_of_hudi(name: str) -> None:
    table = HudiTable.open(str(TABLES[name] / "table"))
    answers = sorted((TABLES[name] / "answers").iterdir())
    assert [path.stem for path in answers] == [commit.requested_time for commit in table.timeline.commits()]
    assert {path.stem: differences(pq.read_table(path), rows_as_of(table, path)) for path in answers} == {
        path.stem: [] for path in answers
    }


def rows_as_of(table: HudiTable, answer: Path) -> pa.Table:
    return table.snapshot(answer.stem).to_table()


@pytest.mark.parametrize("name", one_in(13, sorted(TABLES)))
def test_rows_of_no_columns_are_as_many(name: str) -> None:
    table = HudiTable.open(str(TABLES[name] / "table"))
    for dataset in (table.snapshot(), table.incremental("earliest"), table.read_optimized(), table.changes("earliest")):
        rows = dataset.count_rows()
        assert dataset.to_table(columns=[]).num_rows == rows
        assert sum(batch.num_rows for batch in dataset.to_batches(columns=[])) == rows
        counts = (open_reader(split, columns=[]).to_table().num_rows for split in dataset.splits())
        assert sum(counts) == rows
        if "_hoodie_record_key" in dataset.schema.names:
            condition = pc.field("_hoodie_record_key") != "k0"
            assert dataset.to_table(columns=[], filter=condition).num_rows == dataset.count_rows(condition)
