"""From a table's merge settings to the rule that decides which version of a record wins.

What a table says depends on its age: up to version 7 a payload class decides, with a strategy id beside it from 0.13
on; version 8 adds an explicit merge mode; version 9 replaces the known payload classes by a mode with properties.
Releases 0.x and 1.x read the same payload differently, so the rule follows the release that maintains the table.

Source: ``HoodieTableConfig.inferMergingConfigs``, ``DeleteContext`` and the payload classes of Hudi.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import pyarrow as pa

from hudi_bridge.config import MergeMode, TableConfig
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge import ordering
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.merge.ordering_fields import ordering_path
from hudi_bridge.schema.meta_columns import OPERATION_COLUMN

IS_DELETED_COLUMN = "_hoodie_is_deleted"
DELETE_OPERATIONS = ("D", "-U")

_FIRST_VERSION_WITH_MODE = 8
_STRATEGIES = {
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": MergeMode.EVENT_TIME,
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": MergeMode.COMMIT_TIME,
}
_SPARK_MERGER = "org.apache.hudi.HoodieSparkRecordMerger"
_UNAVAILABLE = "__debezium_unavailable_value"
_SEQUENCE = ("_event_seq",)
_DEBEZIUM_DELETE = ("_change_operation_type", "d")


class FieldFill(StrEnum):
    """Which of a winner's fields count as lacking and are taken from the loser."""

    NULLS = "nulls"
    DEFAULTS = "defaults"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRule:
    """How the versions of a record are merged; ``kind`` is one of the rules of ``merge.ordering``.

    ``delete_marker`` names a column and the value that makes a row a delete. ``fills_in_logs`` tells rules that merge
    fields among log versions from those that merge them with the base row alone, ``newest_meta`` those that take the
    meta columns from the later version even if it loses. ``sequences_against_base`` is for an ordering value of a file
    number, a dot and a position, which is compared as numbers with that of the base row, which wins if they are equal;
    among log versions it is text unless there is ``sequences_in_logs``.
    """

    kind: str
    ordering_fields: tuple[str, ...]
    delete_marker: tuple[str, str] | None = None
    fill: FieldFill | None = None
    fills_in_logs: bool = True
    newest_meta: bool = False
    unavailable_value: str = _UNAVAILABLE
    payload: RecordPayload | None = None
    sequences_against_base: bool = False
    sequences_in_logs: bool = False
    payload_class: str | None = None

    @property
    def orders_logs(self) -> bool:
        """Whether ordering values decide among log versions."""
        return self.kind != ordering.COMMIT_TIME

    @property
    def orders_base(self) -> bool:
        """Whether ordering values decide between a log version and the base row."""
        return self.kind not in (ordering.COMMIT_TIME, ordering.OVERWRITE_LATEST, ordering.CUSTOM_PAYLOAD)

    @property
    def ranks_logs(self) -> bool:
        """Whether ordering values are compared among log versions, and not beside a base row alone.

        0.x takes those of log records from columns alone, so that those of fields of structs are all the same to it
        (``SpillableMapUtils.getPreCombineVal``).
        """
        return not (self._is_of_0x and any(len(ordering_path(name)) > 1 for name in self.ordering_fields))

    @property
    def nulls_as_zero(self) -> bool:
        """Whether a missing ordering number counts as 0, and not below every number."""
        return self.kind in (ordering.EVENT_TIME, ordering.PAYLOAD_OF_11, ordering.LATEST_OF_10)

    @property
    def text_deletes_always(self) -> bool:
        """Whether deletes whose ordering value is text delete whatever came before.

        0.x compares values of one class alone, and has text of deletes and of rows in two.
        """
        return self._is_of_0x

    @property
    def _is_of_0x(self) -> bool:
        return self.kind in (ordering.OVERWRITE_LATEST, ordering.DEFAULT_PAYLOAD)

    @property
    def marked_rows_fold_as_deletes(self) -> bool:
        """Whether a row that carries a delete mark is a delete among log versions, or only once it has survived."""
        return self.kind in (ordering.EVENT_TIME, ordering.COMMIT_TIME, ordering.LATEST_OF_10)

    def columns_in(self, schema: pa.Schema) -> tuple[str, ...]:
        """The columns that merging needs beside the record key, of those that the table has."""
        fields = self.ordering_fields if self.orders_logs else ()
        needed = [ordering_path(name)[0] for name in fields]
        needed += [IS_DELETED_COLUMN, OPERATION_COLUMN]
        if self.delete_marker is not None:
            needed.append(self.delete_marker[0])
        return tuple(name for name in dict.fromkeys(needed) if name in schema.names)


_RULES_OF_0X: Mapping[str, MergeRule] = {
    "OverwriteWithLatestAvroPayload": MergeRule(kind=ordering.OVERWRITE_LATEST, ordering_fields=()),
    "DefaultHoodieRecordPayload": MergeRule(kind=ordering.DEFAULT_PAYLOAD, ordering_fields=()),
    "EventTimeAvroPayload": MergeRule(kind=ordering.DEFAULT_PAYLOAD, ordering_fields=()),
    "PartialUpdateAvroPayload": MergeRule(
        kind=ordering.DEFAULT_PAYLOAD, ordering_fields=(), fill=FieldFill.NULLS, newest_meta=True
    ),
    "OverwriteNonDefaultsWithLatestAvroPayload": MergeRule(
        kind=ordering.OVERWRITE_LATEST, ordering_fields=(), fill=FieldFill.DEFAULTS, fills_in_logs=False
    ),
    "AWSDmsAvroPayload": MergeRule(kind=ordering.OVERWRITE_LATEST, ordering_fields=(), delete_marker=("Op", "D")),
    "MySqlDebeziumAvroPayload": MergeRule(
        kind=ordering.DEFAULT_PAYLOAD,
        ordering_fields=_SEQUENCE,
        delete_marker=_DEBEZIUM_DELETE,
        sequences_against_base=True,
    ),
    "PostgresDebeziumAvroPayload": MergeRule(
        kind=ordering.DEFAULT_PAYLOAD,
        ordering_fields=("_event_lsn",),
        delete_marker=_DEBEZIUM_DELETE,
        fill=FieldFill.UNAVAILABLE,
        fills_in_logs=False,
    ),
}
_RULES_OF_11: Mapping[str, MergeRule] = {
    "OverwriteWithLatestAvroPayload": MergeRule(kind=ordering.COMMIT_TIME, ordering_fields=()),
    "DefaultHoodieRecordPayload": MergeRule(kind=ordering.EVENT_TIME, ordering_fields=()),
    "EventTimeAvroPayload": MergeRule(kind=ordering.EVENT_TIME, ordering_fields=()),
    "PartialUpdateAvroPayload": MergeRule(
        kind=ordering.PAYLOAD_OF_11, ordering_fields=(), fill=FieldFill.NULLS, newest_meta=True
    ),
    "OverwriteNonDefaultsWithLatestAvroPayload": MergeRule(
        kind=ordering.COMMIT_TIME, ordering_fields=(), fill=FieldFill.DEFAULTS
    ),
    "AWSDmsAvroPayload": MergeRule(kind=ordering.COMMIT_TIME, ordering_fields=(), delete_marker=("Op", "D")),
    "MySqlDebeziumAvroPayload": MergeRule(
        kind=ordering.PAYLOAD_OF_11,
        ordering_fields=("_event_bin_file", "_event_pos"),
        delete_marker=_DEBEZIUM_DELETE,
    ),
    "PostgresDebeziumAvroPayload": MergeRule(
        kind=ordering.PAYLOAD_OF_11,
        ordering_fields=("_event_lsn",),
        delete_marker=_DEBEZIUM_DELETE,
        fill=FieldFill.UNAVAILABLE,
    ),
}
_RULES_OF_10: Mapping[str, MergeRule] = {
    **_RULES_OF_11,
    **{
        payload: replace(_RULES_OF_11[payload], kind=kind)
        for payload, kind in (
            ("PartialUpdateAvroPayload", ordering.EVENT_TIME),
            ("OverwriteNonDefaultsWithLatestAvroPayload", ordering.LATEST_OF_10),
            ("AWSDmsAvroPayload", ordering.LATEST_OF_10),
            ("MySqlDebeziumAvroPayload", ordering.EVENT_TIME),
            ("PostgresDebeziumAvroPayload", ordering.EVENT_TIME),
        )
    },
}
"""In 1.0, deletes do not reach payloads: they are ordered as in event time."""

_FILLS = {"IGNORE_DEFAULTS": FieldFill.DEFAULTS, "FILL_UNAVAILABLE": FieldFill.UNAVAILABLE}


def infer_merge_mode(config: TableConfig) -> MergeMode:
    """The merge mode of a table; CUSTOM where its payload or strategy is not one of the two orderings."""
    payload = _simple_name(config.payload_class)
    strategy = config.merge_strategy_id
    if config.merge_mode is not None and config.table_version >= _FIRST_VERSION_WITH_MODE:
        return config.merge_mode
    if payload and (config.table_version < _FIRST_VERSION_WITH_MODE or not strategy):
        return _mode_of_payload(payload)
    if strategy:
        return _STRATEGIES.get(strategy, MergeMode.CUSTOM)
    return MergeMode.EVENT_TIME if config.ordering_fields else MergeMode.COMMIT_TIME


def _mode_of_payload(payload: str) -> MergeMode:
    if payload == "OverwriteWithLatestAvroPayload":
        return MergeMode.COMMIT_TIME
    if payload in ("DefaultHoodieRecordPayload", "EventTimeAvroPayload"):
        return MergeMode.EVENT_TIME
    return MergeMode.CUSTOM


def merge_rule(config: TableConfig, payloads: Mapping[str, RecordPayload]) -> MergeRule:
    """The rule for a table; ``payloads`` are a user's own, by the Java class that a table names.

    Raises:
        UnsupportedTableError: the table needs a payload, or a way of partial updates, that is not known.
    """
    if config.payload_class is not None and config.payload_class in payloads:
        return MergeRule(
            kind=ordering.CUSTOM_PAYLOAD,
            ordering_fields=config.ordering_fields,
            payload=payloads[config.payload_class],
            payload_class=config.payload_class,
        )
    mode = infer_merge_mode(config)
    rules = _rules_of_release(config)
    if _SPARK_MERGER in config.record_merger_impls and not config.written_by_1x:
        rule = rules["DefaultHoodieRecordPayload"]
    elif mode is MergeMode.CUSTOM:
        payload = _simple_name(config.payload_class) or ""
        if payload not in rules:
            found = config.payload_class or f"merge strategy {config.merge_strategy_id}"
            supported = f"{', '.join(sorted(rules))}, or your own: HudiTable.open(path, payloads={{{found!r}: ...}})"
            raise UnsupportedTableError("payload", found, supported)
        rule = rules[payload]
    elif mode is MergeMode.EVENT_TIME:
        rule = rules["DefaultHoodieRecordPayload"]
    else:
        rule = rules["OverwriteWithLatestAvroPayload"]
    rule = replace(rule, ordering_fields=config.ordering_fields or rule.ordering_fields)
    if rules is _RULES_OF_10 and rule.ordering_fields == _SEQUENCE and mode is MergeMode.CUSTOM:
        rule = replace(rule, sequences_against_base=True, sequences_in_logs=True)
    return _with_properties(rule, config)


def _rules_of_release(config: TableConfig) -> Mapping[str, MergeRule]:
    if not config.written_by_1x:
        return _RULES_OF_0X
    return _RULES_OF_11 if config.written_by_11 else _RULES_OF_10


def _with_properties(rule: MergeRule, config: TableConfig) -> MergeRule:
    properties = dict(config.merge_properties)
    field, marker = (properties.get(f"hoodie.payload.delete.{part}") for part in ("field", "marker"))
    if field and marker:
        rule = replace(rule, delete_marker=(field, marker))
    if config.partial_update_mode:
        if config.partial_update_mode not in _FILLS:
            raise UnsupportedTableError("partial update mode", config.partial_update_mode, ", ".join(_FILLS))
        unavailable = properties.get("hoodie.write.partial.update.unavailable.value", _UNAVAILABLE)
        rule = replace(rule, fill=_FILLS[config.partial_update_mode], unavailable_value=unavailable)
    return rule


def _simple_name(class_name: str | None) -> str | None:
    return class_name.rpartition(".")[2] if class_name else None
