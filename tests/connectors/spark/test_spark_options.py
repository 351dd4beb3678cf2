from typing import Any

import pytest

from hudi_bridge import QueryError
from hudi_bridge.connectors.spark.options import (
    AS_OF,
    BEGIN,
    DEFAULT_PARTITION_BYTES,
    END,
    INCREMENTAL_FORMAT,
    MAX_INSTANTS_PER_TRIGGER,
    START_OFFSET,
    SparkQuery,
    parse_options,
    require_batch,
    require_stream,
    settings_of_tables,
)
from hudi_bridge.options import QUERY_TYPE_KEY


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
        ({"path": "t", "metaColumns": False}, "metaColumns: found False, a bool, expected a text, such as 'false'"),
        ({"path": "t", "hoodie.metadata.enable": True}, "hoodie.metadata.enable: found True, a bool, expected a text"),
        ({"path": "t", BEGIN: "000"}, "begin.instanttime: found '000', expected it with .*query.type=incremental"),
        ({"path": "t", END: "2026"}, "end.instanttime: found '2026', expected it with .*query.type=incremental"),
        ({"path": "t", QUERY_TYPE_KEY: "read_optimized", BEGIN: "000"}, "begin.instanttime"),
        ({"path": "t", "columns": "[1]"}, "columns"),
        ({"path": "t", "columns": "[a"}, "columns"),
        ({"path": "t", "as.of.instant": "2026", "hoodie.datasource.query.type": "incremental"}, "as.of.instant"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(QueryError, match=argument):
        parse_options(options)


@pytest.mark.parametrize("name", [START_OFFSET, START_OFFSET.lower(), MAX_INSTANTS_PER_TRIGGER])
def test_a_batch_query_takes_no_option_of_streams(name: str) -> None:
    with pytest.raises(QueryError, match="a stream"):
        require_batch({"path": "t", name: "1"})


@pytest.mark.parametrize(
    "options",
    [
        {AS_OF: "2026-01-01"},
        {QUERY_TYPE_KEY: "incremental", BEGIN: "000"},
        {QUERY_TYPE_KEY: "incremental", END: "000"},
        {QUERY_TYPE_KEY: "read_optimized"},
        {QUERY_TYPE_KEY: "splits"},
    ],
)
def test_a_stream_takes_no_option_of_batch_queries(options: dict[str, str]) -> None:
    with pytest.raises(QueryError, match="stream"):
        require_stream(parse_options({"path": "t", **options}))
    require_stream(parse_options({"path": "t", QUERY_TYPE_KEY: "incremental", INCREMENTAL_FORMAT: "cdc"}))


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({AS_OF: "2026-01-01"}, AS_OF),
        ({AS_OF.upper(): "2026-01-01"}, AS_OF),
        ({QUERY_TYPE_KEY: "incremental", BEGIN: "000"}, BEGIN),
        ({INCREMENTAL_FORMAT: "cdc"}, INCREMENTAL_FORMAT),
        ({START_OFFSET: "latest"}, START_OFFSET),
        ({MAX_INSTANTS_PER_TRIGGER: "1"}, MAX_INSTANTS_PER_TRIGGER),
        ({QUERY_TYPE_KEY: "incremental"}, "found 'incremental', expected snapshot or read_optimized"),
        ({QUERY_TYPE_KEY: "splits"}, "found 'splits', expected snapshot or read_optimized"),
        ({"hoodie.metadata.enabled": "false"}, "hoodie.metadata.enable, the nearest name"),
    ],
)
def test_many_tables_take_no_option_of_one_query(options: dict[str, str], argument: str) -> None:
    with pytest.raises(QueryError, match=argument):
        settings_of_tables(options, None, None)


def test_settings_of_many_tables_have_their_usual_names() -> None:
    options = {"HOODIE.datasource.query.TYPE": "read_optimized", "METAcolumns": "false"}
    assert settings_of_tables(options, 1000, {"AWS_REGION": "eu-west-1"}) == {
        QUERY_TYPE_KEY: "read_optimized",
        "metaColumns": "false",
        "storage.AWS_REGION": "eu-west-1",
        "logMemoryBytes": "1000",
    }
