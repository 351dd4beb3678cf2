"""From a table's merge settings to the rule that decides which version of a record wins.

What a table says depends on its age: up to version 7 a payload class decides, with a strategy id beside it from 0.13
on; version 8 adds an explicit merge mode; version 9 replaces the known payload classes by a mode with properties.
Releases 0.x and 1.x read the same payload differently, so the rule follows the release that maintains the table.

Source: ``HoodieTableConfig.inferMergingConfigs``, ``HoodieRecordPayload`` and ``DeleteContext`` of Hudi.
"""

from dataclasses import dataclass

from hudi_bridge.config import MergeMode, TableConfig
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge import ordering

IS_DELETED_COLUMN = "_hoodie_is_deleted"
OPERATION_COLUMN = "_hoodie_operation"
DELETE_OPERATIONS = ("D", "-U")

_STRATEGIES = {
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": MergeMode.EVENT_TIME,
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": MergeMode.COMMIT_TIME,
}
_PAYLOADS = {
    "DefaultHoodieRecordPayload": MergeMode.EVENT_TIME,
    "EventTimeAvroPayload": MergeMode.EVENT_TIME,
    "OverwriteWithLatestAvroPayload": MergeMode.COMMIT_TIME,
}
_SUPPORTED = "commit-time and event-time ordering (payloads " + ", ".join(sorted(_PAYLOADS)) + ")"
_FIRST_VERSION_WITH_MODE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRule:
    """How the versions of a record are merged; ``kind`` is one of the rules of ``merge.ordering``.

    ``delete_marker`` names a column and the value that makes a row a delete.
    """

    kind: str
    ordering_fields: tuple[str, ...]
    delete_marker: tuple[str, str] | None

    @property
    def orders_logs(self) -> bool:
        """Whether ordering values decide among log versions."""
        return self.kind != ordering.COMMIT_TIME

    @property
    def orders_base(self) -> bool:
        """Whether ordering values decide between a log version and the base row."""
        return self.kind in (ordering.EVENT_TIME, ordering.DEFAULT_PAYLOAD)

    @property
    def nulls_as_zero(self) -> bool:
        """Whether a missing ordering number counts as 0, and not below every number."""
        return self.kind == ordering.EVENT_TIME

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that merging needs beside the record key, where the table has them."""
        needed = list(self.ordering_fields) if self.orders_logs else []
        needed += [IS_DELETED_COLUMN, OPERATION_COLUMN]
        if self.delete_marker is not None:
            needed.append(self.delete_marker[0])
        return tuple(dict.fromkeys(needed))


def infer_merge_mode(config: TableConfig) -> MergeMode:
    """The merge mode of a table; CUSTOM where its payload or strategy is not one of the two orderings."""
    payload = config.payload_class.rpartition(".")[2] if config.payload_class else None
    strategy = config.merge_strategy_id
    if config.table_version >= _FIRST_VERSION_WITH_MODE:
        if config.merge_mode is not None:
            return config.merge_mode
        if strategy:
            return _STRATEGIES.get(strategy, MergeMode.CUSTOM)
        if payload:
            return _PAYLOADS.get(payload, MergeMode.CUSTOM)
    else:
        if payload:
            return _PAYLOADS.get(payload, MergeMode.CUSTOM)
        if strategy:
            return _STRATEGIES.get(strategy, MergeMode.CUSTOM)
    return MergeMode.EVENT_TIME if config.ordering_fields else MergeMode.COMMIT_TIME


def merge_rule(config: TableConfig) -> MergeRule:
    """The rule for a table.

    Raises:
        UnsupportedTableError: the table needs a payload or a partial update mode that is not supported.
    """
    mode = infer_merge_mode(config)
    if mode is MergeMode.CUSTOM:
        found = config.payload_class or f"merge strategy {config.merge_strategy_id}"
        raise UnsupportedTableError("payload", found, _SUPPORTED)
    if config.partial_update_mode:
        raise UnsupportedTableError("partial update mode", config.partial_update_mode, "tables that store whole records")
    properties = dict(config.merge_properties)
    field, marker = (properties.get(f"hoodie.payload.delete.{part}") for part in ("field", "marker"))
    if config.written_by_1x:
        kind = ordering.EVENT_TIME if mode is MergeMode.EVENT_TIME else ordering.COMMIT_TIME
    else:
        kind = ordering.DEFAULT_PAYLOAD if mode is MergeMode.EVENT_TIME else ordering.OVERWRITE_LATEST
    return MergeRule(
        kind=kind,
        ordering_fields=config.ordering_fields,
        delete_marker=(field, marker) if field and marker else None,
    )
