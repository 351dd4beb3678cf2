"""The merge rules of Hudi as data: which version of a record wins, which fields are filled, what counts as a delete.

All code that merges reads ``PAYLOAD_RULES``: a new payload is a new entry. Under every rule, records of delete blocks,
and rows with ``_hoodie_is_deleted`` or an operation field that deletes (``Precedence.delete_operations``), are deletes.

A consumer of rules declares the behaviours that it supports, and ``MergeRule.require_heeded`` refuses rules with
others. A new field of rules is therefore refused until each consumer supports it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any, Self

import pyarrow as pa

from hudi_bridge.config import MergeMode
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge.arrays import ordering_path
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.merge.ordering import DELETE, EARLIER, HIGHER, LATER, InLogs, Outcomes, OverBase
from hudi_bridge.releases import Release
from hudi_bridge.schema.meta_columns import OPERATION_COLUMN

IS_DELETED_COLUMN = "_hoodie_is_deleted"
UNAVAILABLE_VALUE = "__debezium_unavailable_value"


class FieldFill(StrEnum):
    """Which fields of the winner count as unset and are taken from the loser.

    Payload classes compare values; partial update modes compare Java objects. A default is an ``IDENTICAL_DEFAULTS``
    one if it is null or an object that Java caches, and bytes are never an unavailable text.
    """

    NULLS = "nulls"
    DEFAULTS = "defaults"
    UNAVAILABLE = "unavailable"
    IDENTICAL_DEFAULTS = "identical defaults"
    UNAVAILABLE_TEXTS = "unavailable texts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Precedence:
    """Which of two versions of a record wins, by their kinds.

    ``after_row``, ``after_delete`` and ``after_unordered_delete`` are for two log versions, by the kind of the earlier
    one. Each has four outcomes: for a later version that is a row, a record of a delete block, a delete without an
    ordering value, or a row that is marked as a delete; as the earlier version, such a row is a delete.
    ``over_base_row`` is for the base row and the surviving log version: a row, a delete, or a delete without an
    ordering value. Without ``HIGHER``, ordering values are not read: all deletes must have the same outcome.

    Attributes:
        nulls_as_zero: a missing ordering number counts as 0, instead of below every number.
        marked_in_logs: a row that is marked as a delete, by the flag, the operation or the delete marker, is a delete
            from the start; otherwise it is compared and merged as a row, and deletes if it survives. In 1.x, one
            without an ordering value is a delete in any case.
        flag_deletes_base: the flag of such a row deletes the base row whatever the ordering value is.
        orders_as_0x: a delete in a delete block counts as one without an ordering value if its value has another Java
            class than in rows (``of_other_classes``), as text, decimals and dates have. Fields of structs do not order
            log versions, because 0.x takes ordering values of log records only from columns (``SpillableMapUtils``).
        asks_about_deletes: a user's merger gets all versions with their ordering values, and decides itself.
    """

    name: str
    after_row: Outcomes
    after_delete: Outcomes
    after_unordered_delete: Outcomes
    over_base_row: OverBase
    nulls_as_zero: bool
    marked_in_logs: bool
    flag_deletes_base: bool = False
    orders_as_0x: bool = False
    asks_about_deletes: bool = False
    source: str

    @property
    def delete_operations(self) -> tuple[str, ...]:
        """The values of the operation field that make a log record a delete.

        0.x takes only D for one.
        """
        return ("D",) if self.orders_as_0x else ("D", "-U")

    @property
    def in_logs(self) -> InLogs:
        """The outcomes for two log versions, by the kind of the earlier."""
        return self.after_row, self.after_delete, self.after_unordered_delete, self.after_delete


COMMIT_TIME = Precedence(
    name="commit time",
    after_row=(LATER, LATER, LATER, LATER),
    after_delete=(LATER, LATER, LATER, LATER),
    after_unordered_delete=(LATER, LATER, LATER, LATER),
    over_base_row=(LATER, LATER, LATER),
    nulls_as_zero=False,
    marked_in_logs=True,
    source="BufferedRecordMergerFactory (1.x)",
)
EVENT_TIME = Precedence(
    name="event time",
    after_row=(HIGHER, HIGHER, LATER, HIGHER),
    after_delete=(HIGHER, HIGHER, LATER, HIGHER),
    # A record of a delete block with an ordering value does not replace a delete without one; a marked row does.
    after_unordered_delete=(LATER, EARLIER, LATER, LATER),
    over_base_row=(HIGHER, HIGHER, LATER),
    nulls_as_zero=True,
    marked_in_logs=True,
    source="BufferedRecordMergerFactory: deltaMergeDeleteRecord, shouldKeepNewerRecord (1.1)",
)
EVENT_TIME_OF_10 = replace(
    EVENT_TIME,
    name="event time (1.0)",
    # A delete without an ordering value has the ordering value 0 for rows.
    after_unordered_delete=(HIGHER, EARLIER, LATER, HIGHER),
    source="FileGroupRecordBuffer: doProcessNextDeletedRecord, shouldKeepNewerRecord (1.0)",
)
PARTIAL_UPDATE_OF_10 = replace(
    EVENT_TIME_OF_10,
    name="partial update by values of other classes (1.0)",
    after_row=(LATER, HIGHER, LATER, HIGHER),
    over_base_row=(LATER, HIGHER, LATER),
    source="PartialUpdateAvroPayload.isRecordNewer, FileGroupRecordBuffer.constructHoodieAvroRecord (1.0)",
)
OVERWRITE_LATEST = Precedence(
    name="overwrite with latest (0.x)",
    after_row=(HIGHER, HIGHER, LATER, HIGHER),
    after_delete=(LATER, HIGHER, LATER, LATER),
    after_unordered_delete=(LATER, HIGHER, LATER, LATER),
    over_base_row=(LATER, LATER, LATER),
    nulls_as_zero=False,
    marked_in_logs=False,
    orders_as_0x=True,
    source="OverwriteWithLatestAvroPayload, HoodieMergedLogRecordScanner (0.x)",
)
OVERWRITE_LATEST_OF_10 = replace(
    OVERWRITE_LATEST,
    name="overwrite with latest (ranges of 1.0)",
    after_row=(LATER, HIGHER, LATER, LATER),
    source="OverwriteWithLatestAvroPayload.preCombine, HoodieMergedLogRecordScanner (1.0)",
)
DEFAULT_PAYLOAD = replace(
    OVERWRITE_LATEST,
    name="default payload (0.x)",
    over_base_row=(HIGHER, LATER, LATER),
    source="DefaultHoodieRecordPayload, HoodieMergedLogRecordScanner (0.x)",
)
PARTIAL_UPDATE_OF_0X = replace(
    DEFAULT_PAYLOAD,
    name="partial update (0.x)",
    flag_deletes_base=True,
    source="PartialUpdateAvroPayload.mergeOldRecord, HoodieMergedLogRecordScanner (0.x)",
)
PAYLOAD_OF_11 = Precedence(
    name="payload (1.1)",
    after_row=(HIGHER, LATER, LATER, LATER),
    after_delete=(LATER, LATER, LATER, LATER),
    after_unordered_delete=(LATER, LATER, LATER, LATER),
    over_base_row=(HIGHER, LATER, LATER),
    nulls_as_zero=True,
    marked_in_logs=False,
    source="CustomPayloadRecordMerger, which asks payloads of 0.x about log versions and deletes, too (1.1)",
)
PARTIAL_OF_11 = replace(
    PAYLOAD_OF_11,
    name="partial update (1.1)",
    flag_deletes_base=True,
    source="PartialUpdateAvroPayload.mergeOldRecord, CustomPayloadRecordMerger (1.1)",
)
LATEST_OF_11 = replace(
    COMMIT_TIME,
    name="payload without an ordering (1.1)",
    marked_in_logs=False,
    source="OverwriteNonDefaultsWithLatestAvroPayload, CustomPayloadRecordMerger (1.1)",
)
PARTIAL_UPDATE_OF_11 = replace(
    PARTIAL_OF_11,
    name="partial update by values of other classes (1.1)",
    after_row=(LATER, LATER, LATER, LATER),
    over_base_row=(LATER, LATER, LATER),
    source="PartialUpdateAvroPayload.isRecordNewer, CustomPayloadRecordMerger (1.1)",
)
NEVER_COMPARED: Mapping[str, Precedence] = {
    EVENT_TIME_OF_10.name: PARTIAL_UPDATE_OF_10,
    PARTIAL_OF_11.name: PARTIAL_UPDATE_OF_11,
}
"""The precedences for partial updates whose ordering values in rows have other Java classes."""
LATEST_OF_10 = Precedence(
    name="payload without an ordering (1.0)",
    after_row=(LATER, HIGHER, LATER, HIGHER),
    after_delete=(HIGHER, HIGHER, LATER, HIGHER),
    after_unordered_delete=(HIGHER, EARLIER, LATER, HIGHER),
    over_base_row=(LATER, HIGHER, LATER),
    nulls_as_zero=True,
    marked_in_logs=True,
    source="FileGroupRecordBuffer, which asks payloads that look at no ordering about rows alone (1.0)",
)
CUSTOM_PAYLOAD = Precedence(
    name="a user's payload",
    # The payload merges two rows into one, which keeps the higher ordering value.
    after_row=(HIGHER, HIGHER, LATER, HIGHER),
    after_delete=(LATER, HIGHER, LATER, HIGHER),
    after_unordered_delete=(LATER, HIGHER, LATER, HIGHER),
    over_base_row=(LATER, LATER, LATER),
    nulls_as_zero=False,
    marked_in_logs=True,
    source="HoodieRecordPayload, HoodieMergedLogRecordScanner (0.x)",
)
CUSTOM_MERGER = Precedence(
    name="a user's merger",
    # The merger merges two rows into one.
    after_row=(LATER, LATER, LATER, LATER),
    after_delete=(LATER, LATER, LATER, LATER),
    after_unordered_delete=(LATER, LATER, LATER, LATER),
    over_base_row=(LATER, LATER, LATER),
    nulls_as_zero=False,
    marked_in_logs=True,
    source="CustomRecordMerger (1.x), which asks mergers about deletes, too",
)
CUSTOM_MERGER_OF_VERSIONS = replace(
    CUSTOM_MERGER, name="a user's merger, which decides about deletes", asks_about_deletes=True
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRule:
    """How the versions of a record are merged.

    Attributes:
        precedence: which version wins.
        ordering_fields: the fields whose values are compared.
        delete_marker: a column, and the value that makes a row a delete.
        fill: which fields of the winner are filled from the loser.
        fills_in_logs: whether fields are also filled between log versions, not only from the base row.
        newest_meta: whether the meta columns come from the later version even if it loses.
        unavailable_value: the value of unavailable fields.
        payload: the user's own payload or merger for ``payload_class``.
        sequences_against_base: ordering values ``file number.position`` compare with the base row as two numbers.
        equal_sequences_keep_base: the base row wins if they are equal.
        sequences_in_logs: such values compare as two numbers among log versions too, instead of as text.
        payload_class: the class or the merge strategy that the table names.
    """

    precedence: Precedence
    ordering_fields: tuple[str, ...] = ()
    delete_marker: tuple[str, str] | None = None
    fill: FieldFill | None = None
    fills_in_logs: bool = True
    newest_meta: bool = False
    unavailable_value: str = UNAVAILABLE_VALUE
    payload: RecordPayload | None = None
    sequences_against_base: bool = False
    equal_sequences_keep_base: bool = False
    sequences_in_logs: bool = False
    payload_class: str | None = None

    @property
    def behaviours(self) -> frozenset[str]:
        """The names of the fields in ``BEHAVIOURS`` that differ from their default."""
        return frozenset(_not_by_default(self)) | frozenset(_not_by_default(self.precedence))

    def require_heeded(self, heeded: frozenset[str], consumer: str) -> None:
        """Refuses a rule with behaviours that a consumer does not support.

        Raises:
            UnsupportedTableError: there is such a behaviour.
        """
        unheeded = self.behaviours - heeded
        if unheeded:
            actual = f"{', '.join(sorted(unheeded))} of the rule {self.precedence.name}"
            raise UnsupportedTableError(f"merge rule in {consumer}", actual, ", ".join(sorted(heeded)))

    @property
    def uses_ordering(self) -> bool:
        """Whether ordering values decide anything."""
        return self.orders_base or any(HIGHER in outcomes for outcomes in self.precedence.in_logs)

    @property
    def keeps_rows_of_late_deletes(self) -> bool:
        """Whether a delete with a lower ordering value may lose to an earlier row."""
        precedence = self.precedence
        outcomes = {precedence.after_row[DELETE], precedence.over_base_row[DELETE]}
        return HIGHER in outcomes or precedence.asks_about_deletes

    @property
    def orders_base(self) -> bool:
        """Whether ordering values decide between a log version and the base row."""
        return HIGHER in self.precedence.over_base_row or self.precedence.asks_about_deletes

    def by_types(self, kinds: Iterable[pa.DataType]) -> "MergeRule":
        """The rule for ordering values of these types.

        ``PartialUpdateAvroPayload`` compares only values of the same Java class. In 1.x, the value beside a payload has
        Spark's class and the value within a record Avro's. Texts, decimals and dates are therefore never compared: each
        row is newer than earlier ones.
        """
        if self.fill is FieldFill.NULLS and any(_has_a_class_of_spark(kind) for kind in kinds):
            return replace(self, precedence=NEVER_COMPARED.get(self.precedence.name, self.precedence))
        return self

    def compares_with_base(self, kind: pa.DataType) -> bool:
        """Whether ordering values of the type are compared between a row in the logs and the base row.

        ``PartialUpdateAvroPayload`` of 0.x compares only values of the same Java class. The value of a log record has
        Avro's class, the value of the base row is a BigDecimal or a LocalDate (``isRecordNewer``).
        """
        needs_same_class = self.fill is FieldFill.NULLS and self.precedence.orders_as_0x
        return not (needs_same_class and (pa.types.is_decimal(kind) or pa.types.is_date(kind)))

    @property
    def base_may_win(self) -> bool:
        """Whether a base row may win over a log version."""
        return any(outcome != LATER for outcome in self.precedence.over_base_row)

    @property
    def ranks_logs(self) -> bool:
        """Whether ordering values are compared among log versions, not only with base rows."""
        return not (self.precedence.orders_as_0x and any(len(ordering_path(name)) > 1 for name in self.ordering_fields))

    @property
    def fills_by_mode(self) -> bool:
        """Whether a partial update mode of the table fills fields."""
        return self.fill in (FieldFill.IDENTICAL_DEFAULTS, FieldFill.UNAVAILABLE_TEXTS)

    @property
    def merges_fields(self) -> bool:
        """Whether a row may take fields from both a base row and a log record, whatever the logs hold."""
        return self.payload is not None or self.fill is not None

    def columns_to_read(self, requested: tuple[str, ...], schema: pa.Schema) -> tuple[str, ...]:
        """The requested columns, or all columns of the table for a user's payload, which may read any."""
        return requested if self.payload is None else tuple(schema.names)

    def columns_in(self, schema: pa.Schema) -> tuple[str, ...]:
        """The columns of the table that merging needs in addition to the record key."""
        fields = self.ordering_fields if self.uses_ordering else ()
        needed = [ordering_path(name)[0] for name in fields]
        needed += [IS_DELETED_COLUMN, OPERATION_COLUMN]
        if self.delete_marker is not None:
            needed.append(self.delete_marker[0])
        return tuple(name for name in dict.fromkeys(needed) if name in schema.names)

    def to_json(self) -> dict[str, Any]:
        """The rule as JSON values; the precedence is given by name, a user's payload by ``payload_class``."""
        document = asdict(replace(self, payload=None))
        del document["payload"], document["precedence"]
        return document | {"kind": self.precedence.name}

    @classmethod
    def from_json(cls, document: Mapping[str, Any], payload: RecordPayload | None) -> Self:
        """The rule that ``to_json`` wrote, with its payload.

        Raises:
            KeyError: a value is missing, or the precedence is unknown.
        """
        marker = document["delete_marker"]
        others = {name: value for name, value in document.items() if name != "kind"}
        decoded = {
            "ordering_fields": tuple(document["ordering_fields"]),
            "delete_marker": (marker[0], marker[1]) if marker else None,
            "fill": FieldFill(document["fill"]) if document["fill"] else None,
        }
        return cls(**(others | decoded), precedence=_precedence(document["kind"]), payload=payload)


_NO_BEHAVIOURS = ("name", "source", "precedence", "payload_class", "unavailable_value")
"""Fields that are names, have fields of their own, or are parameters of other behaviours."""

BEHAVIOURS = frozenset(
    field.name for kind in (Precedence, MergeRule) for field in fields(kind) if field.name not in _NO_BEHAVIOURS
)
"""The names of the fields of rules that change how rows are merged."""


def _not_by_default(part: MergeRule | Precedence) -> Iterator[str]:
    for field in fields(part):
        if field.name not in _NO_BEHAVIOURS and getattr(part, field.name) != field.default:
            yield field.name


def _has_a_class_of_spark(kind: pa.DataType) -> bool:
    """Whether Spark and Avro have other Java classes for values of the type: UTF8String, Decimal, a number of days."""
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return is_text or pa.types.is_decimal(kind) or pa.types.is_date(kind)


def _precedence(name: str) -> Precedence:
    precedences = (
        *NEVER_COMPARED.values(),
        CUSTOM_PAYLOAD,
        CUSTOM_MERGER,
        CUSTOM_MERGER_OF_VERSIONS,
        OVERWRITE_LATEST_OF_10,
        *(entry.rule.precedence for entry in PAYLOAD_RULES),
    )
    return {precedence.name: precedence for precedence in precedences}[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadRule:
    """The merge rule of a payload class in some releases.

    Attributes:
        payload: the class name without its package, which Hudi has changed.
        releases: the releases that read the payload so.
        rule: the rule; its ordering fields apply if the table has none.
        source: methods of the class, or what replaces it.
        ordered_by: if given, the entry is only for tables with these ordering fields.
        mode: the equivalent merge mode.
    """

    payload: str
    releases: frozenset[Release]
    rule: MergeRule
    source: str
    ordered_by: tuple[str, ...] | None = None
    mode: MergeMode = MergeMode.CUSTOM

    def holds(self, payload: str | None, release: Release, ordering_fields: tuple[str, ...]) -> bool:
        """Whether the entry applies to a table; the first such entry counts."""
        return self.payload == payload and release in self.releases and self.ordered_by in (None, ordering_fields)


_V0, _V1_0, _V1_1 = (frozenset({release}) for release in Release)
_V1 = _V1_0 | _V1_1
_DMS_DELETE = ("Op", "D")
_DEBEZIUM_DELETE = ("_change_operation_type", "d")
_MYSQL_BY_SEQUENCE = MergeRule(
    precedence=PAYLOAD_OF_11, delete_marker=_DEBEZIUM_DELETE, sequences_against_base=True, sequences_in_logs=True
)
_MYSQL_BY_POSITION = MergeRule(
    precedence=EVENT_TIME_OF_10, delete_marker=_DEBEZIUM_DELETE, ordering_fields=("_event_bin_file", "_event_pos")
)

PAYLOAD_RULES: tuple[PayloadRule, ...] = (
    PayloadRule(
        payload="OverwriteWithLatestAvroPayload",
        releases=_V0,
        rule=MergeRule(precedence=OVERWRITE_LATEST),
        mode=MergeMode.COMMIT_TIME,
        source="preCombine, combineAndGetUpdateValue",
    ),
    PayloadRule(
        payload="OverwriteWithLatestAvroPayload",
        releases=_V1,
        rule=MergeRule(precedence=COMMIT_TIME),
        mode=MergeMode.COMMIT_TIME,
        source="HoodieTableConfig.inferMergingConfigs: COMMIT_TIME_ORDERING",
    ),
    PayloadRule(
        payload="DefaultHoodieRecordPayload",
        releases=_V0,
        rule=MergeRule(precedence=DEFAULT_PAYLOAD),
        mode=MergeMode.EVENT_TIME,
        source="combineAndGetUpdateValue, needUpdatingPersistedRecord",
    ),
    PayloadRule(
        payload="DefaultHoodieRecordPayload",
        releases=_V1_0,
        rule=MergeRule(precedence=EVENT_TIME_OF_10),
        mode=MergeMode.EVENT_TIME,
        source="HoodieTableConfig.inferMergingConfigs: EVENT_TIME_ORDERING",
    ),
    PayloadRule(
        payload="DefaultHoodieRecordPayload",
        releases=_V1_1,
        rule=MergeRule(precedence=EVENT_TIME),
        mode=MergeMode.EVENT_TIME,
        source="HoodieTableConfig.inferMergingConfigs: EVENT_TIME_ORDERING",
    ),
    PayloadRule(
        payload="EventTimeAvroPayload",
        releases=_V0,
        rule=MergeRule(precedence=DEFAULT_PAYLOAD),
        mode=MergeMode.EVENT_TIME,
        source="combineAndGetUpdateValue",
    ),
    PayloadRule(
        payload="EventTimeAvroPayload",
        releases=_V1_0,
        rule=MergeRule(precedence=EVENT_TIME_OF_10),
        mode=MergeMode.EVENT_TIME,
        source="HoodieTableConfig.inferMergingConfigs: EVENT_TIME_ORDERING",
    ),
    PayloadRule(
        payload="EventTimeAvroPayload",
        releases=_V1_1,
        rule=MergeRule(precedence=EVENT_TIME),
        mode=MergeMode.EVENT_TIME,
        source="HoodieTableConfig.inferMergingConfigs: EVENT_TIME_ORDERING",
    ),
    PayloadRule(
        payload="PartialUpdateAvroPayload",
        releases=_V0,
        rule=MergeRule(precedence=PARTIAL_UPDATE_OF_0X, fill=FieldFill.NULLS, newest_meta=True),
        source="preCombine, mergeOldRecord",
    ),
    PayloadRule(
        payload="PartialUpdateAvroPayload",
        releases=_V1_0,
        rule=MergeRule(precedence=EVENT_TIME_OF_10, fill=FieldFill.NULLS, newest_meta=True),
        source="mergeOldRecord; deletes do not reach payloads: they are ordered as in event time",
    ),
    PayloadRule(
        payload="PartialUpdateAvroPayload",
        releases=_V1_1,
        rule=MergeRule(precedence=PARTIAL_OF_11, fill=FieldFill.NULLS, newest_meta=True),
        source="preCombine, mergeOldRecord",
    ),
    PayloadRule(
        payload="OverwriteNonDefaultsWithLatestAvroPayload",
        releases=_V0,
        rule=MergeRule(precedence=OVERWRITE_LATEST, fill=FieldFill.DEFAULTS, fills_in_logs=False),
        source="combineAndGetUpdateValue, overwriteField",
    ),
    PayloadRule(
        payload="OverwriteNonDefaultsWithLatestAvroPayload",
        releases=_V1_0,
        rule=MergeRule(precedence=LATEST_OF_10, fill=FieldFill.DEFAULTS),
        source="combineAndGetUpdateValue, overwriteField",
    ),
    PayloadRule(
        payload="OverwriteNonDefaultsWithLatestAvroPayload",
        releases=_V1_1,
        rule=MergeRule(precedence=LATEST_OF_11, fill=FieldFill.DEFAULTS),
        source="HoodieTableConfig.inferMergingConfigs: COMMIT_TIME_ORDERING, PartialUpdateMode.IGNORE_DEFAULTS",
    ),
    PayloadRule(
        payload="AWSDmsAvroPayload",
        releases=_V0,
        rule=MergeRule(precedence=OVERWRITE_LATEST, delete_marker=_DMS_DELETE),
        source="handleDeleteOperation",
    ),
    PayloadRule(
        payload="AWSDmsAvroPayload",
        releases=_V1_0,
        rule=MergeRule(precedence=LATEST_OF_10, delete_marker=_DMS_DELETE),
        source="handleDeleteOperation",
    ),
    PayloadRule(
        payload="AWSDmsAvroPayload",
        releases=_V1_1,
        rule=MergeRule(precedence=COMMIT_TIME, delete_marker=_DMS_DELETE),
        source="HoodieTableConfig.inferMergingConfigs: COMMIT_TIME_ORDERING, DeleteContext",
    ),
    PayloadRule(
        payload="MySqlDebeziumAvroPayload",
        releases=_V0,
        rule=MergeRule(
            precedence=DEFAULT_PAYLOAD,
            ordering_fields=("_event_seq",),
            delete_marker=_DEBEZIUM_DELETE,
            sequences_against_base=True,
            equal_sequences_keep_base=True,
        ),
        source="shouldPickCurrentRecord",
    ),
    PayloadRule(
        payload="MySqlDebeziumAvroPayload",
        releases=_V1_0,
        ordered_by=("_event_seq",),
        rule=replace(_MYSQL_BY_SEQUENCE, precedence=EVENT_TIME_OF_10, equal_sequences_keep_base=True),
        source="shouldPickCurrentRecord, which is asked about log versions, too",
    ),
    PayloadRule(
        payload="MySqlDebeziumAvroPayload",
        releases=_V1_0,
        rule=_MYSQL_BY_POSITION,
        source="shouldPickCurrentRecord; deletes are ordered as in event time",
    ),
    PayloadRule(
        payload="MySqlDebeziumAvroPayload",
        releases=_V1_1,
        ordered_by=("_event_seq",),
        rule=_MYSQL_BY_SEQUENCE,
        source="isCurrentSeqLatest, which is asked about log versions, too",
    ),
    PayloadRule(
        payload="MySqlDebeziumAvroPayload",
        releases=_V1_1,
        rule=replace(_MYSQL_BY_POSITION, precedence=PAYLOAD_OF_11),
        source="shouldPickCurrentRecord",
    ),
    PayloadRule(
        payload="PostgresDebeziumAvroPayload",
        releases=_V0,
        rule=MergeRule(
            precedence=DEFAULT_PAYLOAD,
            ordering_fields=("_event_lsn",),
            delete_marker=_DEBEZIUM_DELETE,
            fill=FieldFill.UNAVAILABLE,
            fills_in_logs=False,
        ),
        source="shouldPickCurrentRecord, mergeToastedValuesIfPresent",
    ),
    PayloadRule(
        payload="PostgresDebeziumAvroPayload",
        releases=_V1_0,
        rule=MergeRule(
            precedence=EVENT_TIME_OF_10,
            ordering_fields=("_event_lsn",),
            delete_marker=_DEBEZIUM_DELETE,
            fill=FieldFill.UNAVAILABLE,
        ),
        source="mergeToastedValuesIfPresent; deletes are ordered as in event time",
    ),
    PayloadRule(
        payload="PostgresDebeziumAvroPayload",
        releases=_V1_1,
        rule=MergeRule(
            precedence=PAYLOAD_OF_11,
            ordering_fields=("_event_lsn",),
            delete_marker=_DEBEZIUM_DELETE,
        ),
        source="shouldPickCurrentRecord; mergeToastedValuesIfPresent has no effect on what Spark reads",
    ),
)

PAYLOAD_OF_MODE: Mapping[MergeMode, str] = {
    MergeMode.COMMIT_TIME: "OverwriteWithLatestAvroPayload",
    MergeMode.EVENT_TIME: "DefaultHoodieRecordPayload",
}
"""The payload that a merge mode is equivalent to. Source: ``HoodieTableConfig.inferMergingConfigs``."""

PAYLOAD_OF_MERGER: Mapping[tuple[str, Release], str] = {
    ("org.apache.hudi.HoodieSparkRecordMerger", Release.V0): "DefaultHoodieRecordPayload",
}
"""The payload that a record merger of the reader behaves like, whatever payload the table names."""

PACKAGE_OF_MERGERS = "org.apache.hudi."
"""The package of Hudi's own record mergers."""

MODE_OF_STRATEGY: Mapping[str, MergeMode] = {
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": MergeMode.EVENT_TIME,
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": MergeMode.COMMIT_TIME,
}
"""The ids of Hudi's merge strategies. Source: ``HoodieRecordMerger``."""

STRATEGIES_OF_PAYLOADS = (
    "00000000-0000-0000-0000-000000000000",
    "1897ef5f-18bc-4557-939c-9d6a8afd1519",
)
"""The ids of the strategies that leave merging to the payload class. Source: ``HoodieRecordMerger``."""

FILL_OF_MODE: Mapping[str, FieldFill] = {
    "IGNORE_DEFAULTS": FieldFill.IDENTICAL_DEFAULTS,
    "FILL_UNAVAILABLE": FieldFill.UNAVAILABLE_TEXTS,
}
"""The partial update modes of table version 9. Source: ``PartialUpdateMode``."""
