"""The merge rules of Hudi as data: what decides between two versions of a record, what fills fields, what deletes.

``PAYLOAD_RULES`` has one entry for each payload class and the releases that read it alike. Everything that merges reads
these entries: the columnar merge, the rules for one record at a time (``merge.ordering``), the story of a record, and
the SQL and Python that Trino gets. A new payload is a new entry.

What deletes under every rule is a delete block, ``_hoodie_is_deleted``, and an operation field of D or -U; the delete
marker of a rule comes on top.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Self

import pyarrow as pa

from hudi_bridge.config import MergeMode
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.merge.ordering import EARLIER, HIGHER, LATER, InLogs, Outcomes
from hudi_bridge.merge.ordering_fields import ordering_path
from hudi_bridge.schema.meta_columns import OPERATION_COLUMN

IS_DELETED_COLUMN = "_hoodie_is_deleted"
DELETE_OPERATIONS = ("D", "-U")
UNAVAILABLE_VALUE = "__debezium_unavailable_value"


class Release(StrEnum):
    """Releases of Hudi that read payloads in their own way each; a table is read as by those that maintain it."""

    V0 = "0.x"
    V1_0 = "1.0"
    V1_1 = "1.1"


class FieldFill(StrEnum):
    """Which of a winner's fields count as unset and are taken from the loser."""

    NULLS = "nulls"
    DEFAULTS = "defaults"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Precedence:
    """Which of two versions of a record takes precedence, by what they are.

    Three outcomes each: for a row, a delete, and a delete without an ordering value of its own. ``after_row`` and the
    like are for such a log version that comes after another log version; ``over_base_row`` is for the surviving log
    version and the row of the base file, which is the earlier of the two.

    ``nulls_as_zero`` says that a missing ordering number counts as 0, and not below every number. ``marked_in_logs``
    says that a row which carries the delete marker is a delete from the start, and not only once it has survived.
    ``orders_as_0x`` is for what 0.x makes of ordering values: it compares values of one class alone, and has text of
    deletes and of rows in two, so that such a delete is one without an ordering value; and it takes those of log
    records from columns alone, so that fields of structs order nothing among them (``SpillableMapUtils``).
    """

    name: str
    after_row: Outcomes
    after_delete: Outcomes
    after_unordered_delete: Outcomes
    over_base_row: Outcomes
    nulls_as_zero: bool
    marked_in_logs: bool
    orders_as_0x: bool = False
    source: str

    @property
    def in_logs(self) -> InLogs:
        """The outcomes between log versions, by what the earlier is."""
        return self.after_row, self.after_delete, self.after_unordered_delete


# Outcomes are for: a row, a delete, a delete without an ordering value.
COMMIT_TIME = Precedence(
    name="commit time",
    after_row=(LATER, LATER, LATER),
    after_delete=(LATER, LATER, LATER),
    after_unordered_delete=(LATER, LATER, LATER),
    over_base_row=(LATER, LATER, LATER),
    nulls_as_zero=False,
    marked_in_logs=True,
    source="BufferedRecordMergerFactory (1.x)",
)
EVENT_TIME = Precedence(
    name="event time",
    after_row=(HIGHER, HIGHER, LATER),
    after_delete=(HIGHER, HIGHER, LATER),
    # A delete that has an ordering value does not take the place of one that needs none.
    after_unordered_delete=(LATER, EARLIER, LATER),
    over_base_row=(HIGHER, HIGHER, LATER),
    nulls_as_zero=True,
    marked_in_logs=True,
    source="BufferedRecordMergerFactory, KeyBasedFileGroupRecordBuffer (1.x)",
)
OVERWRITE_LATEST = Precedence(
    name="overwrite with latest (0.x)",
    after_row=(HIGHER, HIGHER, LATER),
    after_delete=(LATER, HIGHER, LATER),
    after_unordered_delete=(LATER, HIGHER, LATER),
    over_base_row=(LATER, LATER, LATER),
    nulls_as_zero=False,
    marked_in_logs=False,
    orders_as_0x=True,
    source="OverwriteWithLatestAvroPayload, HoodieMergedLogRecordScanner (0.x)",
)
DEFAULT_PAYLOAD = Precedence(
    name="default payload (0.x)",
    after_row=(HIGHER, HIGHER, LATER),
    after_delete=(LATER, HIGHER, LATER),
    after_unordered_delete=(LATER, HIGHER, LATER),
    over_base_row=(HIGHER, LATER, LATER),
    nulls_as_zero=False,
    marked_in_logs=False,
    orders_as_0x=True,
    source="DefaultHoodieRecordPayload, HoodieMergedLogRecordScanner (0.x)",
)
PAYLOAD_OF_11 = Precedence(
    name="payload (1.1)",
    after_row=(HIGHER, LATER, LATER),
    after_delete=(LATER, LATER, LATER),
    after_unordered_delete=(LATER, LATER, LATER),
    over_base_row=(HIGHER, LATER, LATER),
    nulls_as_zero=True,
    marked_in_logs=False,
    source="CustomPayloadRecordMerger, which asks payloads of 0.x about log versions and deletes, too (1.1)",
)
LATEST_OF_10 = Precedence(
    name="payload without an ordering (1.0)",
    after_row=(LATER, HIGHER, LATER),
    after_delete=(LATER, HIGHER, LATER),
    after_unordered_delete=(LATER, EARLIER, LATER),
    over_base_row=(LATER, HIGHER, LATER),
    nulls_as_zero=True,
    marked_in_logs=True,
    source="FileGroupRecordBuffer, which asks payloads that look at no ordering about rows alone (1.0)",
)
CUSTOM_PAYLOAD = Precedence(
    name="a user's payload",
    # Of two rows the payload makes one; the higher ordering value is what it has from then on.
    after_row=(HIGHER, HIGHER, LATER),
    after_delete=(LATER, HIGHER, LATER),
    after_unordered_delete=(LATER, HIGHER, LATER),
    over_base_row=(LATER, LATER, LATER),
    nulls_as_zero=False,
    marked_in_logs=False,
    source="HoodieRecordPayload, HoodieMergedLogRecordScanner (0.x)",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRule:
    """How the versions of a record are merged.

    ``delete_marker`` names a column and the value that makes a row a delete. ``fills_in_logs`` tells rules that merge
    fields among log versions from those that merge them with the base row alone, ``newest_meta`` those that take the
    meta columns from the later version even if it loses. ``sequences_against_base`` is for an ordering value of a file
    number, a dot and a position, which is compared as numbers with that of the base row, which wins if they are equal;
    among log versions it is text unless there is ``sequences_in_logs``. ``payload`` is a user's own, of the class that
    the table names.
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
    sequences_in_logs: bool = False
    payload_class: str | None = None

    @property
    def uses_ordering(self) -> bool:
        """Whether ordering values decide anything."""
        return self.orders_base or any(HIGHER in outcomes for outcomes in self.precedence.in_logs)

    @property
    def orders_base(self) -> bool:
        """Whether ordering values decide between a log version and the base row."""
        return HIGHER in self.precedence.over_base_row

    @property
    def base_may_win(self) -> bool:
        """Whether a base row may stay although there is a log version."""
        return any(outcome != LATER for outcome in self.precedence.over_base_row)

    @property
    def ranks_logs(self) -> bool:
        """Whether ordering values are compared among log versions, and not beside a base row alone."""
        return not (self.precedence.orders_as_0x and any(len(ordering_path(name)) > 1 for name in self.ordering_fields))

    def columns_in(self, schema: pa.Schema) -> tuple[str, ...]:
        """The columns that merging needs beside the record key, of those that the table has."""
        fields = self.ordering_fields if self.uses_ordering else ()
        needed = [ordering_path(name)[0] for name in fields]
        needed += [IS_DELETED_COLUMN, OPERATION_COLUMN]
        if self.delete_marker is not None:
            needed.append(self.delete_marker[0])
        return tuple(name for name in dict.fromkeys(needed) if name in schema.names)

    def to_json(self) -> dict[str, Any]:
        """The rule as values that JSON has; a precedence goes by its name, a user's payload by its class."""
        document = asdict(replace(self, payload=None))
        del document["payload"], document["precedence"]
        return document | {"kind": self.precedence.name}

    @classmethod
    def from_json(cls, document: Mapping[str, Any], payload: RecordPayload | None) -> Self:
        """The rule that ``to_json`` wrote, with its payload.

        Raises:
            KeyError: a value is missing, or there is no such precedence.
        """
        marker = document["delete_marker"]
        others = {name: value for name, value in document.items() if name != "kind"}
        decoded = {
            "ordering_fields": tuple(document["ordering_fields"]),
            "delete_marker": (marker[0], marker[1]) if marker else None,
            "fill": FieldFill(document["fill"]) if document["fill"] else None,
        }
        return cls(**(others | decoded), precedence=_precedence(document["kind"]), payload=payload)


def _precedence(name: str) -> Precedence:
    known = (CUSTOM_PAYLOAD, *(entry.rule.precedence for entry in PAYLOAD_RULES))
    return {precedence.name: precedence for precedence in known}[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadRule:
    """What tables with a payload class are merged by, in some releases.

    ``payload`` is the name of the class without its package, which Hudi has changed. The ordering fields of ``rule``
    hold where the table names none. An entry with ``ordered_by`` is for tables with these ordering fields alone.
    ``mode`` is the merge mode that the payload stands for. ``source`` names methods of the class, or what replaces it.
    """

    payload: str
    releases: frozenset[Release]
    rule: MergeRule
    source: str
    ordered_by: tuple[str, ...] | None = None
    mode: MergeMode = MergeMode.CUSTOM

    def holds(self, payload: str | None, release: Release, ordering_fields: tuple[str, ...]) -> bool:
        """Whether this is the entry for a table with the payload; of several, the first one is."""
        return self.payload == payload and release in self.releases and self.ordered_by in (None, ordering_fields)


_V0, _V1_0, _V1_1 = (frozenset({release}) for release in Release)
_V1 = _V1_0 | _V1_1
_DMS_DELETE = ("Op", "D")
_DEBEZIUM_DELETE = ("_change_operation_type", "d")

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
        releases=_V1,
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
        releases=_V1,
        rule=MergeRule(precedence=EVENT_TIME),
        mode=MergeMode.EVENT_TIME,
        source="HoodieTableConfig.inferMergingConfigs: EVENT_TIME_ORDERING",
    ),
    PayloadRule(
        payload="PartialUpdateAvroPayload",
        releases=_V0,
        rule=MergeRule(precedence=DEFAULT_PAYLOAD, fill=FieldFill.NULLS, newest_meta=True),
        source="preCombine, mergeOldRecord",
    ),
    PayloadRule(
        payload="PartialUpdateAvroPayload",
        releases=_V1_0,
        rule=MergeRule(precedence=EVENT_TIME, fill=FieldFill.NULLS, newest_meta=True),
        source="mergeOldRecord; deletes do not reach payloads: they are ordered as in event time",
    ),
    PayloadRule(
        payload="PartialUpdateAvroPayload",
        releases=_V1_1,
        rule=MergeRule(precedence=PAYLOAD_OF_11, fill=FieldFill.NULLS, newest_meta=True),
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
        rule=MergeRule(precedence=COMMIT_TIME, fill=FieldFill.DEFAULTS),
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
        ),
        source="shouldPickCurrentRecord",
    ),
    PayloadRule(
        payload="MySqlDebeziumAvroPayload",
        releases=_V1_0,
        ordered_by=("_event_seq",),
        rule=MergeRule(
            precedence=EVENT_TIME,
            delete_marker=_DEBEZIUM_DELETE,
            sequences_against_base=True,
            sequences_in_logs=True,
        ),
        source="shouldPickCurrentRecord, which is asked about log versions, too",
    ),
    PayloadRule(
        payload="MySqlDebeziumAvroPayload",
        releases=_V1_0,
        rule=MergeRule(
            precedence=EVENT_TIME,
            ordering_fields=("_event_bin_file", "_event_pos"),
            delete_marker=_DEBEZIUM_DELETE,
        ),
        source="shouldPickCurrentRecord; deletes are ordered as in event time",
    ),
    PayloadRule(
        payload="MySqlDebeziumAvroPayload",
        releases=_V1_1,
        rule=MergeRule(
            precedence=PAYLOAD_OF_11,
            ordering_fields=("_event_bin_file", "_event_pos"),
            delete_marker=_DEBEZIUM_DELETE,
        ),
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
            precedence=EVENT_TIME,
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
            fill=FieldFill.UNAVAILABLE,
        ),
        source="shouldPickCurrentRecord, mergeToastedValuesIfPresent",
    ),
)

PAYLOAD_OF_MODE: Mapping[MergeMode, str] = {
    MergeMode.COMMIT_TIME: "OverwriteWithLatestAvroPayload",
    MergeMode.EVENT_TIME: "DefaultHoodieRecordPayload",
}
"""The payload that a merge mode is short for. Source: ``HoodieTableConfig.inferMergingConfigs``."""

PAYLOAD_OF_MERGER: Mapping[tuple[str, Release], str] = {
    ("org.apache.hudi.HoodieSparkRecordMerger", Release.V0): "DefaultHoodieRecordPayload",
}
"""The payload that a reader's record merger acts like, whatever the table names."""

MODE_OF_STRATEGY: Mapping[str, MergeMode] = {
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": MergeMode.EVENT_TIME,
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": MergeMode.COMMIT_TIME,
}
"""The ids of Hudi's merge strategies. Source: ``HoodieRecordMerger``."""

FILL_OF_MODE: Mapping[str, FieldFill] = {
    "IGNORE_DEFAULTS": FieldFill.DEFAULTS,
    "FILL_UNAVAILABLE": FieldFill.UNAVAILABLE,
}
"""The partial update modes of table version 9. Source: ``PartialUpdateMode``."""
