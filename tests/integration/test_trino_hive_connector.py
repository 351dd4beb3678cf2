"""Trino's own Hive connector on tables of Hudi, as the guide tells of it."""

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
from tests.compare import differences
from tests.golden_cases import golden_table
from tests.integration.hudi_in_hive import READ_OPTIMIZED, REALTIME, partitions, sql_columns
from tests.integration.trino_catalogs import hive_properties
from tests.integration.trino_rows import arrow_rows
from tests.integration.trino_server import Trino
from tests.test_golden import QUERIES, answer_of

REGISTERING = {"hive.allow-register-partition-procedure": "true"}
CASES = pytest.mark.parametrize("case", ["a_story_v6_0150", "a_story_v9_120"])


@dataclass(frozen=True, slots=True)
class HiveCatalog:
    """A Hive catalog, with its metastore in a folder."""

    name: str
    metastore: Path


@pytest.fixture
def hive(trino: Trino, tmp_path: Path) -> Iterator[HiveCatalog]:
    properties = hive_properties(tmp_path) | REGISTERING
    with trino.catalog(f"hive_{uuid.uuid4().hex[:8]}", "hive", properties) as name:
        trino.query(f"CREATE SCHEMA {name}.s")
        yield HiveCatalog(name, tmp_path)


def register(trino: Trino, hive: HiveCatalog, case: str) -> HudiTable:
    """A golden table as one of Parquet files."""
    table = HudiTable.open(str(golden_table(case)))
    by = ", ".join(f"'{name}'" for name in table.config.partition_fields)
    trino.query(
        f"CREATE TABLE {hive.name}.s.t ({sql_columns(table)}) "
        f"WITH (external_location = 'local://{table.path}', format = 'PARQUET', partitioned_by = ARRAY[{by}])"
    )
    for (value,), place in partitions(table):
        trino.query(
            f"CALL {hive.name}.system.register_partition('s', 't', ARRAY[{by}], ARRAY['{value}'], 'local://{place}')"
        )
    return table


@CASES
def test_a_table_registered_as_parquet_shows_the_base_files_of_all_times(
    trino: Trino, hive: HiveCatalog, case: str
) -> None:
    table = register(trino, hive, case)
    files = [pq.read_table(file, partitioning=None) for file in Path(table.path).glob("[a-z]/*.parquet")]
    expected = pa.concat_tables(files)
    columns = ", ".join(expected.column_names)
    found = arrow_rows(trino, f"SELECT {columns} FROM {hive.name}.s.t", expected.schema)
    assert differences(expected, found) == []
    for query in (QUERIES[case, 0], QUERIES[case, 1]):
        assert answer_of(query).num_rows < found.num_rows


@CASES
@pytest.mark.parametrize("input_format", [REALTIME, READ_OPTIMIZED])
def test_a_table_registered_as_one_of_hudi_is_refused(
    trino: Trino, hive: HiveCatalog, case: str, input_format: str
) -> None:
    register(trino, hive, case)
    place = hive.metastore / "s" / "t" / ".trinoSchema"
    content = json.loads(place.read_text())
    assert content.pop("storageFormat") == "PARQUET"
    content["originalStorageFormat"] = {
        "serDe": "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
        "inputFormat": input_format,
        "outputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
    }
    place.write_text(json.dumps(content))
    with pytest.raises(TrinoQueryError, match=r"Cannot query Hudi table 's\.t'"):
        trino.query(f"SELECT * FROM {hive.name}.s.t")
