"""Trino's own Hive and Hudi connectors on tables of Hudi: what the guide says of them."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from trino.exceptions import TrinoQueryError

from hudi_bridge import HudiTable
from tests.integration.hudi_in_hive import READ_OPTIMIZED, REALTIME, SERDE, partitions, sql_columns
from tests.integration.trino_catalogs import LOCAL_FILES, hive_properties
from tests.integration.trino_rows import rows_like
from tests.integration.trino_server import Trino
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.golden_queries import QUERIES, answer_of

CASES = pytest.mark.parametrize("case", ["a_story_v6_0150", "a_story_v9_120"])
FORMATS = pytest.mark.parametrize("input_format", [REALTIME, READ_OPTIMIZED])


@dataclass(frozen=True, slots=True)
class Lake:
    """A catalog of each connector over one metastore, which is a folder; tables are named ``s.t``."""

    trino: Trino
    hive: str
    hudi: str
    metastore: Path

    def rows(self, catalog: str, expected: pa.Table) -> pa.Table:
        """All rows, with the columns of another table."""
        return rows_like(self.trino, f"{catalog}.s.t", expected)


@pytest.fixture
def lake(trino: Trino, tmp_path: Path) -> Iterator[Lake]:
    name = uuid.uuid4().hex[:8]
    metastore = {"hive.metastore": "file", "hive.metastore.catalog.dir": f"local://{tmp_path}"}
    registering = {"hive.allow-register-partition-procedure": "true"}
    with (
        trino.catalog(f"hive_{name}", "hive", hive_properties(tmp_path) | registering) as hive,
        trino.catalog(f"hudi_{name}", "hudi", LOCAL_FILES | metastore) as hudi,
    ):
        trino.query(f"CREATE SCHEMA {hive}.s")
        yield Lake(trino, hive, hudi, tmp_path)


def register_as_parquet(lake: Lake, case: str) -> HudiTable:
    """Register a golden table as one of Parquet files."""
    table = HudiTable.open(str(golden_table(case)))
    by = ", ".join(f"'{name}'" for name in table.config.partition_fields)
    lake.trino.query(
        f"CREATE TABLE {lake.hive}.s.t ({sql_columns(table)}) "
        f"WITH (external_location = 'local://{table.path}', format = 'PARQUET', partitioned_by = ARRAY[{by}])"
    )
    for (value,), place in partitions(table):
        lake.trino.query(
            f"CALL {lake.hive}.system.register_partition('s', 't', ARRAY[{by}], ARRAY['{value}'], 'local://{place}')"
        )
    return table


def register(lake: Lake, case: str, input_format: str) -> HudiTable:
    """Register a golden table as Hudi's sync does."""
    table = register_as_parquet(lake, case)
    changed = 0
    for path in (lake.metastore / "s" / "t").rglob(".trinoSchema"):
        content = json.loads(path.read_text())
        assert content.pop("storageFormat") == "PARQUET"
        path.write_text(json.dumps(content | {"originalStorageFormat": SERDE | {"inputFormat": input_format}}))
        changed += 1
    assert changed > 1
    return table


@pytest.mark.parametrize("case", ["a_story_v5_0122", "a_story_v6_0150"])
@FORMATS
def test_the_hudi_connector_shows_base_files_alone(lake: Lake, case: str, input_format: str) -> None:
    register(lake, case, input_format)
    expected = answer_of(QUERIES[case, 1])
    assert QUERIES[case, 1].kind == "read_optimized"
    assert differences(answer_of(QUERIES[case, 0]).select(expected.column_names), expected) != []
    assert differences(expected, lake.rows(lake.hudi, expected)) == []


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("a_story_v8_102", "Could not load archived commit timeline"),
        ("a_story_v9_120", "Could not load archived commit timeline"),
        ("i_cow_120", "Could not load archived commit timeline"),
    ],
)
@FORMATS
def test_table_versions_8_and_9_are_an_error_in_the_hudi_connector(
    lake: Lake, case: str, said: str, input_format: str
) -> None:
    register(lake, case, input_format)
    with pytest.raises(TrinoQueryError, match=said):
        lake.trino.query(f"SELECT id FROM {lake.hudi}.s.t")


@FORMATS
def test_the_hudi_connector_shows_base_files_alone_once_archived_instants_are_days_old(
    lake: Lake, input_format: str
) -> None:
    # It loads archived instants of the last three days (CompletionTimeQueryViewV2), and cannot read their files.
    register(lake, "d_archived_120", input_format)
    snapshot, expected = (answer_of(QUERIES["d_archived_120", index]) for index in (0, 1))
    assert differences(snapshot, expected) != []
    assert differences(expected, lake.rows(lake.hudi, expected)) == []


@CASES
@FORMATS
def test_the_hive_connector_refuses_a_table_registered_as_one_of_hudi(lake: Lake, case: str, input_format: str) -> None:
    register(lake, case, input_format)
    with pytest.raises(TrinoQueryError, match=r"Cannot query Hudi table 's\.t'"):
        lake.trino.query(f"SELECT * FROM {lake.hive}.s.t")


@CASES
def test_the_hive_connector_shows_the_base_files_of_all_times_of_a_table_registered_as_parquet(
    lake: Lake, case: str
) -> None:
    table = register_as_parquet(lake, case)
    files = [pq.read_table(file, partitioning=None) for file in Path(table.path).glob("[a-z]/*.parquet")]
    expected = pa.concat_tables(files)
    assert differences(expected, lake.rows(lake.hive, expected)) == []
    assert all(answer_of(QUERIES[case, index]).num_rows < expected.num_rows for index in (0, 1))
