import pytest

from hudi_bridge import QueryError
from hudi_bridge.connectors.spark.options import DEFAULT_PARTITION_BYTES, SparkQuery, parse_options


def test_defaults() -> None:
    options = parse_options({"path": "s3://bucket/trips"})
    assert options.query is SparkQuery.SNAPSHOT
    assert options.columns is None
    assert options.partition_bytes == DEFAULT_PARTITION_BYTES == 128 << 20
    assert options.max_instants_per_trigger is None


def test_names_are_those_of_hudi_in_any_case() -> None:
    options = parse_options(
        {
            "PATH": "trips",
            "HOODIE.datasource.query.type": "Incremental",
            "hoodie.datasource.read.BEGIN.instanttime": "000",
            "hoodie.datasource.read.end.instanttime": "20260101",
            "hoodie.datasource.query.incremental.format": "latest_state",
            "maxpartitionbytes": "1000",
            "maxInstantsPerTrigger": "2",
            "hoodie.payload.delete.field": "op",
            "hudi_bridge.READ.as.release": "1.2",
            "hoodie.metadata.enable": "true",
        }
    )
    assert (options.query, options.begin, options.end) == (SparkQuery.INCREMENTAL, "000", "20260101")
    assert (options.partition_bytes, options.max_instants_per_trigger) == (1000, 2)
    assert options.table_options == (
        ("hoodie.payload.delete.field", "op"),
        ("hudi_bridge.read.as.release", "1.2"),
        ("hoodie.metadata.enable", "true"),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id, fare", ("id", "fare")),
        ('"a,b",c', ("a,b", "c")),
        ('["a,b", "\\"c\\""]', ("a,b", '"c"')),
        ("", ()),
    ],
)
def test_columns(text: str, expected: tuple[str, ...]) -> None:
    assert parse_options({"path": "t", "columns": text}).columns == expected


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({}, "path"),
        ({"path": "t", "as_of": "2026"}, "option"),
        ({"path": "t", "hoodie.datasource.query.type": "realtime"}, "hoodie.datasource.query.type"),
        ({"path": "t", "hoodie.datasource.merge.type": "skip_merge"}, "hoodie.datasource.merge.type"),
        ({"path": "t", "hoodie.datasource.query.incremental.format": "rows"}, "incremental.format"),
        ({"path": "t", "maxPartitionBytes": "128m"}, "maxPartitionBytes"),
        ({"path": "t", "maxInstantsPerTrigger": "0"}, "maxInstantsPerTrigger"),
        ({"path": "t", "pushFilters": "yes"}, "pushFilters"),
        ({"path": "t", "metaColumns": "no"}, "metaColumns"),
        ({"path": "t", "hoodie.datasource.query.incremental.format": "cdc", "metaColumns": "false"}, "metaColumns"),
        ({"path": "t", "columns": "[1]"}, "columns"),
        ({"path": "t", "columns": "[a"}, "columns"),
        ({"path": "t", "as.of.instant": "2026", "hoodie.datasource.query.type": "incremental"}, "as.of.instant"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, str], argument: str) -> None:
    with pytest.raises(QueryError, match=argument):
        parse_options(options)
