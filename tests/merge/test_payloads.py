"""Which rule each table gets, by its version, payload, strategy and mode."""

import pickle
from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge.config import MergeMode, TableConfig, parse_table_config
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge.ordering import LATER
from hudi_bridge.merge.payloads import infer_merge_mode
from hudi_bridge.merge.payloads import merge_rule as merge_rule_with
from hudi_bridge.merge.rules import (
    COMMIT_TIME,
    DEFAULT_PAYLOAD,
    EVENT_TIME,
    EVENT_TIME_OF_10,
    LATEST_OF_10,
    LATEST_OF_11,
    OVERWRITE_LATEST,
    OVERWRITE_LATEST_OF_10,
    PARTIAL_OF_11,
    PARTIAL_UPDATE_OF_0X,
    PAYLOAD_OF_11,
    PAYLOAD_RULES,
    FieldFill,
    MergeRule,
    Precedence,
)
from hudi_bridge.options import with_read_options
from hudi_bridge.releases import Release
from tests.support.table_writer import TableWriter, at

EVENT_TIME_ID = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
COMMIT_TIME_ID = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
PAYLOAD_ID = "00000000-0000-0000-0000-000000000000"
PACKAGE = "org.apache.hudi.common.model."
DEBEZIUM = PACKAGE + "debezium."
D_MARKER = ("_change_operation_type", "d")
UNAVAILABLE = "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value"


def config(version: int, **stated: str) -> TableConfig:
    """A table's settings; keyword names have ``__`` for a dot."""
    properties = {
        "hoodie.table.name": "trips",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": str(version),
    }
    properties |= {key.replace("__", "."): value for key, value in stated.items()}
    return parse_table_config(properties, "hoodie.properties", "/trips")


def with_payload(version: int, payload: str, **stated: str) -> TableConfig:
    return config(version, hoodie__compaction__payload__class=payload, **stated)


def merge_rule(table: TableConfig) -> MergeRule:
    return merge_rule_with(table, {})


def rule(precedence: Precedence, *ordering_fields: str, **changes: Any) -> MergeRule:
    return MergeRule(precedence=precedence, ordering_fields=ordering_fields, **changes)


OF_0X = {
    PACKAGE + "OverwriteWithLatestAvroPayload": rule(OVERWRITE_LATEST, "ts"),
    PACKAGE + "DefaultHoodieRecordPayload": rule(DEFAULT_PAYLOAD, "ts"),
    PACKAGE + "EventTimeAvroPayload": rule(DEFAULT_PAYLOAD, "ts"),
    PACKAGE + "PartialUpdateAvroPayload": rule(PARTIAL_UPDATE_OF_0X, "ts", fill=FieldFill.NULLS, newest_meta=True),
    PACKAGE + "OverwriteNonDefaultsWithLatestAvroPayload": rule(
        OVERWRITE_LATEST, "ts", fill=FieldFill.DEFAULTS, fills_in_logs=False
    ),
    PACKAGE + "AWSDmsAvroPayload": rule(OVERWRITE_LATEST, "ts", delete_marker=("Op", "D")),
    DEBEZIUM + "MySqlDebeziumAvroPayload": rule(
        DEFAULT_PAYLOAD, "ts", delete_marker=D_MARKER, sequences_against_base=True, equal_sequences_keep_base=True
    ),
    DEBEZIUM + "PostgresDebeziumAvroPayload": rule(
        DEFAULT_PAYLOAD, "ts", delete_marker=D_MARKER, fill=FieldFill.UNAVAILABLE, fills_in_logs=False
    ),
}
OF_11 = {
    PACKAGE + "OverwriteWithLatestAvroPayload": rule(COMMIT_TIME, "ts"),
    PACKAGE + "DefaultHoodieRecordPayload": rule(EVENT_TIME, "ts"),
    PACKAGE + "EventTimeAvroPayload": rule(EVENT_TIME, "ts"),
    PACKAGE + "PartialUpdateAvroPayload": rule(PARTIAL_OF_11, "ts", fill=FieldFill.NULLS, newest_meta=True),
    PACKAGE + "OverwriteNonDefaultsWithLatestAvroPayload": rule(LATEST_OF_11, "ts", fill=FieldFill.DEFAULTS),
    PACKAGE + "AWSDmsAvroPayload": rule(COMMIT_TIME, "ts", delete_marker=("Op", "D")),
    DEBEZIUM + "MySqlDebeziumAvroPayload": rule(PAYLOAD_OF_11, "ts", delete_marker=D_MARKER),
    DEBEZIUM + "PostgresDebeziumAvroPayload": rule(PAYLOAD_OF_11, "ts", delete_marker=D_MARKER),
}


@pytest.mark.parametrize("payload", OF_0X)
@pytest.mark.parametrize("version", [5, 6])
def test_payloads_of_0x(version: int, payload: str) -> None:
    assert merge_rule(with_payload(version, payload, hoodie__table__precombine__field="ts")) == OF_0X[payload]


OF_10 = OF_11 | {
    PACKAGE + "DefaultHoodieRecordPayload": rule(EVENT_TIME_OF_10, "ts"),
    PACKAGE + "EventTimeAvroPayload": rule(EVENT_TIME_OF_10, "ts"),
    PACKAGE + "OverwriteNonDefaultsWithLatestAvroPayload": rule(LATEST_OF_10, "ts", fill=FieldFill.DEFAULTS),
    PACKAGE + "AWSDmsAvroPayload": rule(LATEST_OF_10, "ts", delete_marker=("Op", "D")),
    PACKAGE + "PartialUpdateAvroPayload": rule(EVENT_TIME_OF_10, "ts", fill=FieldFill.NULLS, newest_meta=True),
    DEBEZIUM + "MySqlDebeziumAvroPayload": rule(EVENT_TIME_OF_10, "ts", delete_marker=D_MARKER),
    DEBEZIUM + "PostgresDebeziumAvroPayload": rule(
        EVENT_TIME_OF_10, "ts", delete_marker=D_MARKER, fill=FieldFill.UNAVAILABLE
    ),
}
WRITTEN_BY = {"hoodie__table__precombine__field": OF_10, "hoodie__table__ordering__fields": OF_11}
"""The name that a release gives to the ordering fields tells it."""


@pytest.mark.parametrize("payload", OF_11)
@pytest.mark.parametrize("stated", [{}, {"hoodie__record__merge__strategy__id": PAYLOAD_ID}], ids=["", "payload id"])
@pytest.mark.parametrize("fields", WRITTEN_BY)
def test_payloads_of_version_8(fields: str, payload: str, stated: dict[str, str]) -> None:
    config = with_payload(8, payload, **{fields: "ts"}, **stated)
    assert merge_rule(config) == WRITTEN_BY[fields][payload]


@pytest.mark.parametrize("payload", OF_0X)
def test_ranges_of_version_6_by_10_follow_0x_but_for_the_payload_that_10_changed(payload: str) -> None:
    config = with_payload(
        6, payload, hoodie__table__precombine__field="ts", hoodie__record__merge__strategy__id=PAYLOAD_ID
    )
    expected = OF_0X[payload]
    if payload == PACKAGE + "OverwriteWithLatestAvroPayload":
        expected = rule(OVERWRITE_LATEST_OF_10, "ts")
    assert merge_rule_with(config, {}, of_range=True) == expected
    assert pickle.loads(pickle.dumps(expected)) == expected


@pytest.mark.parametrize("version", [6, 8])
@pytest.mark.parametrize("fields", WRITTEN_BY)
def test_a_sequence_of_mysql_compares_as_numbers_in_1x(fields: str, version: int) -> None:
    """Position 91 is before 148, which its text is not."""
    mode = {"hoodie__record__merge__mode": "CUSTOM", "hoodie__record__merge__strategy__id": PAYLOAD_ID}
    stated = {fields: "_event_seq"} | (mode if version == 6 else {})
    actual = merge_rule(with_payload(version, DEBEZIUM + "MySqlDebeziumAvroPayload", **stated))
    assert actual.ordering_fields == ("_event_seq",)
    assert actual.sequences_against_base
    assert actual.sequences_in_logs
    assert actual.equal_sequences_keep_base == (WRITTEN_BY[fields] is OF_10)


@pytest.mark.parametrize("payload", OF_11)
def test_version_6_maintained_by_1x_follows_1x(payload: str) -> None:
    config = with_payload(
        6,
        payload,
        hoodie__table__ordering__fields="ts",
        hoodie__record__merge__mode="CUSTOM",
        hoodie__record__merge__strategy__id=EVENT_TIME_ID,
    )
    assert merge_rule(config) == OF_11[payload]


@pytest.mark.parametrize(
    ("version", "mode", "precedence"),
    [
        (8, MergeMode.COMMIT_TIME, COMMIT_TIME),
        (9, MergeMode.COMMIT_TIME, COMMIT_TIME),
        (8, MergeMode.EVENT_TIME, EVENT_TIME_OF_10),
        (9, MergeMode.EVENT_TIME, EVENT_TIME),
    ],
)
def test_a_stated_mode_decides_from_version_8_on(version: int, mode: str, precedence: Precedence) -> None:
    config = with_payload(
        version,
        "com.example.Own",
        hoodie__record__merge__mode=mode,
        hoodie__record__merge__strategy__id=PAYLOAD_ID,
        hoodie__table__precombine__field="ts",
    )
    assert merge_rule(config) == rule(precedence, "ts")


@pytest.mark.parametrize(
    ("version", "stated", "mode"),
    [
        (6, {}, MergeMode.COMMIT_TIME),
        (6, {"hoodie__table__precombine__field": "ts"}, MergeMode.EVENT_TIME),
        (9, {}, MergeMode.COMMIT_TIME),
        (9, {"hoodie__table__ordering__fields": "ts"}, MergeMode.EVENT_TIME),
        (6, {"hoodie__compaction__record__merger__strategy": COMMIT_TIME_ID}, MergeMode.COMMIT_TIME),
        (6, {"hoodie__compaction__record__merger__strategy": EVENT_TIME_ID}, MergeMode.EVENT_TIME),
        (8, {"hoodie__record__merge__strategy__id": EVENT_TIME_ID}, MergeMode.EVENT_TIME),
        (8, {"hoodie__record__merge__strategy__id": PAYLOAD_ID}, MergeMode.CUSTOM),
        (
            6,
            {
                "hoodie__compaction__payload__class": PACKAGE + "OverwriteWithLatestAvroPayload",
                "hoodie__record__merge__strategy__id": EVENT_TIME_ID,
            },
            MergeMode.COMMIT_TIME,
        ),
        (
            8,
            {
                "hoodie__compaction__payload__class": PACKAGE + "OverwriteWithLatestAvroPayload",
                "hoodie__record__merge__strategy__id": EVENT_TIME_ID,
            },
            MergeMode.EVENT_TIME,
        ),
        (
            8,
            {"hoodie__compaction__payload__class": PACKAGE + "DefaultHoodieRecordPayload"},
            MergeMode.EVENT_TIME,
        ),
        (6, {"hoodie__compaction__payload__class": "com.example.Own"}, MergeMode.CUSTOM),
    ],
)
def test_modes_are_inferred(version: int, stated: dict[str, str], mode: MergeMode) -> None:
    assert infer_merge_mode(config(version, **stated)) is mode


@pytest.mark.parametrize(
    ("mode", "stated", "expected"),
    [
        ("IGNORE_DEFAULTS", {}, {"fill": FieldFill.IDENTICAL_DEFAULTS}),
        ("FILL_UNAVAILABLE", {UNAVAILABLE: "?"}, {"fill": FieldFill.UNAVAILABLE_TEXTS, "unavailable_value": "?"}),
        ("FILL_UNAVAILABLE", {}, {}),
    ],
)
def test_partial_update_modes_of_version_9(mode: str, stated: dict[str, str], expected: dict[str, Any]) -> None:
    actual = merge_rule(
        config(
            9,
            hoodie__table__ordering__fields="ts",
            hoodie__record__merge__mode="EVENT_TIME_ORDERING",
            hoodie__table__partial__update__mode=mode,
            **stated,
        )
    )
    assert actual == rule(EVENT_TIME, "ts", **expected)


def test_an_unknown_partial_update_mode_is_refused() -> None:
    with pytest.raises(UnsupportedTableError, match="KEEP_VALUES"):
        merge_rule(config(9, hoodie__table__partial__update__mode="KEEP_VALUES"))


@pytest.mark.parametrize("prefix", ["", "hoodie.record.merge.property."])
def test_delete_markers_are_taken_from_the_properties(prefix: str) -> None:
    marker = {f"{prefix}hoodie.payload.delete.field": "op", f"{prefix}hoodie.payload.delete.marker": "x"}
    assert merge_rule(config(9, **marker)).delete_marker == ("op", "x")
    assert merge_rule(config(9)).delete_marker is None


def test_the_ordering_fields_of_a_payload_hold_where_the_table_names_none() -> None:
    assert merge_rule(with_payload(6, DEBEZIUM + "MySqlDebeziumAvroPayload")).ordering_fields == ("_event_seq",)
    assert merge_rule(with_payload(8, DEBEZIUM + "MySqlDebeziumAvroPayload")).ordering_fields == (
        "_event_bin_file",
        "_event_pos",
    )


def test_the_spark_merger_of_0x_is_a_reader_option() -> None:
    option = {"hoodie.datasource.write.record.merger.impls": "org.apache.hudi.HoodieSparkRecordMerger"}
    table = with_payload(6, PACKAGE + "OverwriteWithLatestAvroPayload", hoodie__table__precombine__field="ts")
    assert merge_rule(with_read_options(table, option)).precedence == DEFAULT_PAYLOAD
    newer = with_payload(8, PACKAGE + "OverwriteWithLatestAvroPayload")
    assert merge_rule(with_read_options(newer, option)).precedence == COMMIT_TIME


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.decimal128(20, 4), pa.date32()])
def test_partial_updates_of_1x_do_not_compare_what_spark_and_avro_have_other_classes_for(kind: pa.DataType) -> None:
    for entry in PAYLOAD_RULES:
        compared = entry.rule.by_types([pa.int32()])
        assert compared == entry.rule
        is_partial = entry.payload == "PartialUpdateAvroPayload" and Release.V0 not in entry.releases
        of_other_classes = entry.rule.by_types([pa.int32(), kind])
        assert (of_other_classes != entry.rule) == is_partial
        if is_partial:
            precedence = of_other_classes.precedence
            assert (precedence.after_row[0], precedence.over_base_row[0]) == (LATER, LATER)
            assert precedence.after_row[1:] == entry.rule.precedence.after_row[1:]
            assert MergeRule.from_json(of_other_classes.to_json(), None) == of_other_classes


@pytest.mark.parametrize("version", [5, 6, 8, 9])
def test_an_unknown_payload_is_refused_by_its_name(version: int) -> None:
    with pytest.raises(UnsupportedTableError, match=r"com\.example\.Own") as caught:
        merge_rule(with_payload(version, "com.example.Own"))
    assert caught.value.feature == "payload"
    assert "DefaultHoodieRecordPayload" in caught.value.supported


def test_an_unknown_strategy_without_a_payload_is_refused_by_its_id() -> None:
    with pytest.raises(UnsupportedTableError, match="1897ef5f"):
        merge_rule(config(8, hoodie__record__merge__strategy__id="1897ef5f-18bc-4557-939c-9d6a8afd1519"))


def test_a_rule_names_the_columns_it_needs() -> None:
    schema = pa.schema([(name, pa.string()) for name in ("id", "ts", "_hoodie_is_deleted", "Op")])
    assert rule(EVENT_TIME, "ts").columns_in(schema) == ("ts", "_hoodie_is_deleted")
    assert rule(EVENT_TIME, "ts.inner", "gone").columns_in(schema) == ("ts", "_hoodie_is_deleted")
    assert "ts" not in rule(COMMIT_TIME, "ts").columns_in(schema)
    assert "Op" in rule(COMMIT_TIME, delete_marker=("Op", "D")).columns_in(schema)


def test_unknown_payloads_are_refused_before_any_row(tmp_path: Any) -> None:
    table = TableWriter(folder=tmp_path, options={"hoodie.compaction.payload.class": "com.example.Own"}).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])
    table.commit(at(1))
    table.log_file(at(2), [table.data_block(at(2), [{"id": "a", "ts": 1, "value": "x"}])])
    table.commit(at(2))
    with pytest.raises(UnsupportedTableError, match=r"com\.example\.Own"):
        table.open().splits()
    with pytest.raises(UnsupportedTableError, match=r"com\.example\.Own"):
        table.open().snapshot().to_batches()
    assert table.open().read_optimized().count_rows() == 1
