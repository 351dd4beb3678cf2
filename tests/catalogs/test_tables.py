"""What an entry of a Hive metastore or of Glue says of a table."""

import pytest

from hudi_bridge.catalogs.tables import CatalogTable, registered_table
from hudi_bridge.config import QueryType
from tests.catalogs.metastore import READ_OPTIMIZED_FORMAT, REALTIME_FORMAT

PROVIDER = {"spark.sql.sources.provider": "hudi", "EXTERNAL": "TRUE"}
PLACEHOLDER = "file:/warehouse/trips-__PLACEHOLDER__"
SPARK_FORMAT = "org.apache.hadoop.mapred.SequenceFileInputFormat"


@pytest.mark.parametrize("key", ["path", "PATH"])
@pytest.mark.parametrize("name", ["trips", "trips_ro"])
def test_the_folder_of_an_entry_that_spark_wrote_is_the_path_of_the_serde(name: str, key: str) -> None:
    """As Spark 3.5 writes it by ``CREATE TABLE trips USING hudi LOCATION ...``, without Hudi's session extension."""
    serde = {"serialization.format": "1", key: "file:/lake/trips"}
    actual = registered_table(name, PLACEHOLDER, SPARK_FORMAT, PROVIDER, serde)
    assert actual == CatalogTable(location="file:///lake/trips", query_type=QueryType.SNAPSHOT)


@pytest.mark.parametrize(
    ("location", "parameters", "serde", "expected"),
    [
        ("file:/lake/trips", PROVIDER, {}, "file:///lake/trips"),
        ("file:/lake/trips", PROVIDER, {"path": ""}, "file:///lake/trips"),
        # Hive reads the location, and has nothing to do with the path.
        ("file:/lake/trips", {}, {"path": "file:/elsewhere"}, "file:///lake/trips"),
        (None, PROVIDER, {"path": "file:/lake/trips"}, "file:///lake/trips"),
        ("s3://lake/hr?x/a%20b", {}, {}, "s3://lake/hr%3Fx/a%2520b"),
        (None, {}, {"path": "file:/elsewhere"}, None),
        (None, PROVIDER, {}, None),
    ],
)
def test_the_location_is_the_folder_of_other_entries(
    location: str | None, parameters: dict[str, str], serde: dict[str, str], expected: str | None
) -> None:
    actual = registered_table("trips", location, REALTIME_FORMAT, parameters, serde)
    assert (None if actual is None else actual.location) == expected


@pytest.mark.parametrize(
    ("input_format", "query_type"),
    [
        (READ_OPTIMIZED_FORMAT, QueryType.READ_OPTIMIZED),
        (REALTIME_FORMAT, QueryType.SNAPSHOT),
        (SPARK_FORMAT, QueryType.SNAPSHOT),
        (None, QueryType.SNAPSHOT),
    ],
)
def test_a_name_says_how_to_read_beside_an_input_format_of_hudi(
    input_format: str | None, query_type: QueryType
) -> None:
    actual = registered_table("trips_ro", "file:/lake/trips", input_format, PROVIDER, {})
    assert actual is not None
    assert actual.query_type is query_type


def test_entries_of_others_are_not_of_hudi() -> None:
    parameters = {"spark.sql.sources.provider": "parquet"}
    assert registered_table("trips", PLACEHOLDER, SPARK_FORMAT, parameters, {"path": "file:/lake/trips"}) is None
