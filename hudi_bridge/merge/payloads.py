"""Finds the merge rule of a table from its configuration.

Up to table version 7 the payload class decides, since Hudi 0.13 together with a strategy id. Version 8 adds a merge
mode; version 9 replaces known payload classes by a mode and properties. Releases read the same payload differently.

Source: ``HoodieTableConfig.inferMergingConfigs`` and ``DeleteContext`` of Hudi.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from hudi_bridge.config import MergeMode, TableConfig
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge import rules
from hudi_bridge.merge.arrays import ordering_path, ordering_type
from hudi_bridge.merge.custom_payload import RecordMerger, RecordPayload
from hudi_bridge.merge.rules import FieldFill, MergeRule
from hudi_bridge.releases import Release

_ORDERING = "plain columns, and plain fields of structs"
_LATEST = "OverwriteWithLatestAvroPayload"
"""The payload that 1.0 has changed: of rows in logs, the later one wins. Those derived from it are as in 0.x."""


def infer_merge_mode(config: TableConfig) -> MergeMode:
    """The merge mode of a table; CUSTOM if its payload or strategy is neither of the two orderings."""
    payload = _simple_name(config.payload_class)
    strategy = config.merge_strategy_id
    if config.merge_mode is not None and config.layout.states_merge_mode:
        return config.merge_mode
    if payload and (not config.layout.states_merge_mode or not strategy):
        modes = (entry.mode for entry in rules.PAYLOAD_RULES if entry.payload == payload)
        return next(modes, MergeMode.CUSTOM)
    if strategy:
        return rules.MODE_OF_STRATEGY.get(strategy, MergeMode.CUSTOM)
    return MergeMode.EVENT_TIME if config.ordering_fields else MergeMode.COMMIT_TIME


def merge_rule(config: TableConfig, payloads: Mapping[str, RecordPayload], *, of_range: bool = False) -> MergeRule:
    """The merge rule of a table; ``payloads`` are the user's own, by Java class name or by merge strategy.

    Payloads follow the rules of the table's release; in an incremental query (``of_range``), they may follow the rules
    of 0.x. A merger is given by its class name if an option names the class, because tables do not.

    Raises:
        UnsupportedTableError: the payload, the merge strategy, the record merger or the partial update mode is unknown.
    """
    strategy = _own_strategy(config)
    mergers = [name for name in (strategy, *config.record_merger_impls) if name is not None]
    own = next((name for name in mergers if name in payloads), config.payload_class if strategy is None else strategy)
    if own is not None and own in payloads:
        _require_order_of_tree(config, None)
        return _rule_of_own(config, own, payloads[own], is_merger=own in mergers)
    if strategy is not None:
        supported = f"your own: HudiTable.open(path, payloads={{{strategy!r}: a RecordMerger}})"
        raise UnsupportedTableError("merge strategy", strategy, supported)
    if mergers and not any(name.startswith(rules.PACKAGE_OF_MERGERS) for name in mergers):
        supported = f"your own: HudiTable.open(path, payloads={{{mergers[0]!r}: a RecordMerger}})"
        raise UnsupportedTableError("record merger", ", ".join(mergers), supported)
    as_in_0x = of_range and config.rules.ranges_as_in_0x
    payload, release = _payload(config), Release.V0 if as_in_0x else config.release
    entries = [entry for entry in rules.PAYLOAD_RULES if release in entry.releases]
    rule = next((entry.rule for entry in entries if entry.holds(payload, release, config.ordering_fields)), None)
    if rule is None:
        missing = config.payload_class or f"merge strategy {config.merge_strategy_id}"
        names = ", ".join(sorted({entry.payload for entry in entries}))
        supported = f"{names}, or your own: HudiTable.open(path, payloads={{{missing!r}: ...}})"
        raise UnsupportedTableError("payload", missing, supported)
    if as_in_0x and config.release is Release.V1_0 and payload == _LATEST:
        rule = replace(rule, precedence=rules.OVERWRITE_LATEST_OF_10)
    rule = _with_properties(replace(rule, ordering_fields=config.ordering_fields or rule.ordering_fields), config)
    _require_order_of_tree(config, rule)
    return rule


def _require_order_of_tree(config: TableConfig, rule: MergeRule | None) -> None:
    """Refuses a rule that is not one of the two orderings in an LSM tree, where payloads are asked otherwise.

    Source: ``LsmFileGroupRecordIterator``, which merges base rows with log records as log records with one another.

    Raises:
        UnsupportedTableError: it is another rule.
    """
    if config.is_lsm_tree and (rule is None or rule.precedence not in (rules.COMMIT_TIME, rules.EVENT_TIME)):
        mode = "a payload of your own" if rule is None else rule.precedence.name
        raise UnsupportedTableError("merge mode of an LSM tree", mode, "the orderings by commit time and by event time")


def rule_of_columns(rule: MergeRule, schema: pa.Schema) -> MergeRule:
    """The rule with those of its ordering fields that a table with these columns has, as far as it uses them.

    Raises:
        UnsupportedTableError: values of an ordering field cannot be compared.
    """
    if not rule.uses_ordering:
        return rule
    fields = tuple(name for name in rule.ordering_fields if _is_ordering_field(name, schema))
    return replace(rule, ordering_fields=fields).by_types([ordering_type(name, schema) for name in fields])


def rule_for_showing(config: TableConfig, payloads: Mapping[str, RecordPayload], schema: pa.Schema) -> MergeRule:
    """The rule by which log records are decoded if they are shown and never merged.

    Where what merges them is not given, or cannot be followed, they have the ordering values that the table names, as
    far as these can be compared, and rows with a delete marker count as deletes.
    """
    with suppress(UnsupportedTableError):
        return rule_of_columns(merge_rule(config, payloads), schema)
    fields = []
    for name in config.ordering_fields:
        with suppress(UnsupportedTableError):
            fields += [name] if _is_ordering_field(name, schema) else []
    rule = MergeRule(precedence=rules.CUSTOM_MERGER_OF_VERSIONS, ordering_fields=tuple(fields))
    return _with_properties(rule, replace(config, partial_update_mode=None))


def _is_ordering_field(name: str, schema: pa.Schema) -> bool:
    """Whether the table has the field; ordering fields that it does not have are ignored."""
    try:
        kind = ordering_type(name, schema)
    except KeyError as error:
        if ordering_path(name)[0] in schema.names:
            raise UnsupportedTableError("ordering field", f"{name}, no field of that struct", _ORDERING) from error
        return False
    if pa.types.is_nested(kind):
        raise UnsupportedTableError("ordering field", f"{name} of type {kind}", _ORDERING)
    return True


def _rule_of_own(config: TableConfig, name: str, payload: RecordPayload, *, is_merger: bool) -> MergeRule:
    """The rule of a user's payload or merger, which ``name`` stands for."""
    if isinstance(payload, RecordMerger) != is_merger:
        given = f"{type(payload).__name__} for {name}"
        raise UnsupportedTableError("payload", given, "a RecordMerger" if is_merger else "a RecordPayload")
    precedence = rules.CUSTOM_PAYLOAD
    if isinstance(payload, RecordMerger):
        precedence = rules.CUSTOM_MERGER_OF_VERSIONS if payload.decides_about_deletes else rules.CUSTOM_MERGER
    return MergeRule(precedence=precedence, ordering_fields=config.ordering_fields, payload=payload, payload_class=name)


def _own_strategy(config: TableConfig) -> str | None:
    """The id of a merge strategy that is not one of Hudi's, which decides instead of the payload class."""
    strategy = config.merge_strategy_id
    payload_strategies = rules.STRATEGIES_OF_PAYLOADS if config.payload_class is not None else ()
    is_own = strategy is not None and strategy not in (*payload_strategies, *rules.MODE_OF_STRATEGY)
    is_custom = config.layout.states_merge_mode and infer_merge_mode(config) is MergeMode.CUSTOM
    return strategy if is_own and is_custom else None


def _payload(config: TableConfig) -> str | None:
    """The class name of the payload whose rule applies, without its package."""
    mergers = ((merger, config.release) for merger in config.record_merger_impls)
    merger_payload = next((payload for merger in mergers if (payload := rules.PAYLOAD_OF_MERGER.get(merger))), None)
    if merger_payload is not None:
        return merger_payload
    mode = infer_merge_mode(config)
    return rules.PAYLOAD_OF_MODE.get(mode, _simple_name(config.payload_class))


def _simple_name(class_name: str | None) -> str | None:
    return class_name.rpartition(".")[2] if class_name else None


def _with_properties(rule: MergeRule, config: TableConfig) -> MergeRule:
    properties = dict(config.merge_properties)
    field, marker = (properties.get(f"hoodie.payload.delete.{part}") for part in ("field", "marker"))
    if field and marker:
        rule = replace(rule, delete_marker=(field, marker))
    mode = config.partial_update_mode
    if mode:
        if mode not in rules.FILL_OF_MODE:
            raise UnsupportedTableError("partial update mode", mode, ", ".join(rules.FILL_OF_MODE))
        rule = replace(rule, fill=rules.FILL_OF_MODE[mode])
        if rule.fill is FieldFill.UNAVAILABLE_TEXTS:
            # There is no default: without the property, nothing is unavailable.
            unavailable = properties.get("hoodie.write.partial.update.unavailable.value")
            rule = replace(rule, fill=None) if unavailable is None else replace(rule, unavailable_value=unavailable)
    return rule
