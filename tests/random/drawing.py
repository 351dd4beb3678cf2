"""Draws tables: release and version, merge rule, keys, partitions and columns; the same for the same seed."""

from collections.abc import Mapping
from random import Random

from tests.golden.generate.options import (
    HIVE_STYLE,
    KEY_GENERATOR,
    KEY_GENERATORS,
    PARTITION_PATH,
    PAYLOAD,
    SCHEMA_ON_READ,
    URL_ENCODED,
)
from tests.golden.generate.releases import number
from tests.random.draw import COPY_ON_WRITE, DEFAULT_PAYLOAD, DMS, FILLS_UNSET, MERGE_ON_READ, MYSQL, POSTGRES, Draw
from tests.random.drawn_services import draw_files, draw_index, draw_services, draw_steps
from tests.random.kinds import ORDERING_TYPES, column_types, pick

RELEASES = ("0.15.0", "1.0.2", "1.1.1", "1.2.0")
"""The releases that tables are written with, from the oldest to the newest."""
VERSIONS: Mapping[str, Mapping[int, float]] = {
    "0.15.0": {6: 1},
    "1.0.2": {8: 4, 6: 1},
    "1.1.1": {9: 5, 8: 1, 6: 1},
    "1.2.0": {9: 8, 8: 1, 6: 2},
}
"""The table versions that a release writes."""
BEGINNINGS: Mapping[str, Mapping[str | None, float]] = {
    "0.15.0": {None: 1},
    "1.0.2": {None: 12, "0.15.0": 1},
    "1.1.1": {None: 12, "0.15.0": 1, "1.0.2": 1},
    "1.2.0": {None: 12, "0.15.0": 2, "1.0.2": 1, "1.1.1": 1},
}
"""The releases that a table may come from before a release goes on with it."""

_PAYLOADS: Mapping[str, float] = {
    "OverwriteWithLatestAvroPayload": 3,
    DEFAULT_PAYLOAD: 3,
    "EventTimeAvroPayload": 1,
    "PartialUpdateAvroPayload": 2,
    "OverwriteNonDefaultsWithLatestAvroPayload": 2,
    DMS: 2,
    POSTGRES: 1.5,
    MYSQL: 1.5,
}
_PAYLOADS_OF: Mapping[tuple[int, ...], Mapping[str, float]] = {
    # Debezium's deletes of 1.0 cannot be read by 1.0 itself. First values are gone in 1.1.
    (1, 0): {POSTGRES: 0, MYSQL: 0, "FirstValueAvroPayload": 2},
    (0, 15): {"FirstValueAvroPayload": 2},
    (1, 2): {"ReverseOrderHoodieRecordPayload": 1},
}
_SPECIAL_COLUMNS: Mapping[str, list[tuple[str, str]]] = {
    DMS: [("Op", "string")],
    POSTGRES: [("_change_operation_type", "string")],
    MYSQL: [
        ("_change_operation_type", "string"),
        ("_event_bin_file", "string"),
        ("_event_pos", "bigint"),
        ("_event_seq", "string"),
    ],
}
_KEYS: Mapping[str, list[tuple[str, str]]] = {
    "simple": [("id", "string")],
    "int": [("id", "int")],
    "odd": [("id", "string")],
    "composite": [("id", "string"), ("k2", "int")],
}
_PARTITIONS: Mapping[str, tuple[float, list[tuple[str, str]]]] = {
    "none": (2, []),
    "text": (6, [("part", "string")]),
    "odd": (1, [("part", "string")]),
    "int": (1.5, [("part", "int")]),
    "date": (1.5, [("part", "date")]),
    "two": (2, [("part", "string"), ("year", "int")]),
    "three": (2, [("part", "string"), ("year", "int"), ("day", "date")]),
    "timestamp": (1, [("part", "bigint")]),
    "custom": (0.7, [("part", "string"), ("at", "bigint")]),
    "many": (1, [("part", "string")]),
    "null": (0.7, [("part", "string")]),
}
"""The kinds of partitioning: how often, and the columns."""
_CAN_BE_DROPPED = ("text", "int", "two", "three")


def draw(release: str, seed: int) -> Draw:
    """The table of a seed, written last by a release."""
    chance = Random(f"{release}/{seed}")
    table = Draw(release=release, seed=seed)
    table.begins_in = pick(chance, BEGINNINGS[release])
    table.table_version = pick(chance, VERSIONS[table.first_release])
    table.table_type = pick(chance, {MERGE_ON_READ: 9, COPY_ON_WRITE: 1})
    _draw_merging(table, chance)
    ordering = _draw_ordering(table, chance)
    keys = _draw_keys(table, chance)
    partitions = _draw_partitions(table, chance)
    _draw_columns(table, chance, keys, partitions, ordering)
    draw_index(table, chance)
    draw_files(table, chance)
    draw_services(table, chance)
    _draw_column_ids(table, chance)
    draw_steps(table, chance)
    return table


def _draw_merging(table: Draw, chance: Random) -> None:
    has_modes = table.writer >= (1, 1)
    kinds = {"default": 3, "payload": 6, "mode": 4, "spark merger": 1} if has_modes else {"default": 3, "payload": 8}
    table.merging = pick(chance, kinds | {"spark merger": 1})
    if table.merging == "payload":
        table.payload = pick(chance, {**_PAYLOADS, **_PAYLOADS_OF.get(table.writer[:2], {})})
        table.set_options({PAYLOAD: table.payload_class})
    elif table.merging == "mode":
        table.merge_mode = chance.choice(["COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING"])
    elif table.merging == "spark merger" and table.writer >= (1, 0):
        table.merge_mode = "EVENT_TIME_ORDERING"
        merger = "org.apache.hudi.DefaultSparkRecordMerger"
        table.set_options({"hoodie.write.record.merge.custom.implementation.classes": merger})
    elif table.merging == "spark merger":
        merger = "org.apache.hudi.HoodieSparkRecordMerger"
        table.set_options({"hoodie.datasource.write.record.merger.impls": merger})
    table.set_options({"hoodie.write.record.merge.mode": table.merge_mode})


def _draw_ordering(table: Draw, chance: Random) -> list[tuple[str, str]]:
    """Draws the ordering fields; returns the columns that the payload and they need."""
    special = list(_SPECIAL_COLUMNS.get(table.payload or "", []))
    if table.payload == POSTGRES:
        table.ordering = [("_event_lsn", "bigint")]
    elif table.payload == MYSQL:
        by_position = table.writer >= (1, 1)
        names = ("_event_bin_file", "_event_pos") if by_position else ("_event_seq",)
        table.ordering = [(name, kind) for name, kind in special if name in names]
    else:
        kinds = {
            kind: weight
            for kind, weight in ORDERING_TYPES.items()
            # Hudi 1.0 fails to read a bigint after a delete block.
            if not (kind == "timestamp_ntz" and table.writer < (1, 1))
            and not (kind == "bigint" and table.writer[:2] == (1, 0))
        }
        table.ordering = [(name, pick(chance, kinds)) for name in ("ts", "ts2")[: _count_of_ordering(table, chance)]]
    has_one = len(table.ordering) == 1 and not special
    table.has_null_ordering = table.writer >= (1, 1) and has_one and chance.random() < 0.15
    return table.ordering + [column for column in special if column not in table.ordering]


def _count_of_ordering(table: Draw, chance: Random) -> int:
    by_commit_time = table.payload == "OverwriteWithLatestAvroPayload" or table.merge_mode == "COMMIT_TIME_ORDERING"
    count = chance.choice([0, 1]) if by_commit_time and table.writer >= (1, 0) else 1
    several = table.writer >= (1, 1) and table.table_version >= 9 and count
    return 2 if several and chance.random() < 0.2 else count


def _draw_keys(table: Draw, chance: Random) -> list[tuple[str, str]]:
    table.has_meta_fields = chance.random() > 0.07
    kinds = {"simple": 8, "int": 2, "odd": 2, "composite": 3} if table.has_meta_fields else {"simple": 1}
    table.key = pick(chance, kinds)
    table.key_fields = [name for name, _ in _KEYS[table.key]]
    table.set_options({"hoodie.populate.meta.fields": table.has_meta_fields})
    if number(table.release) >= (1, 1):
        table.set_options({"hoodie.write.complex.keygen.validation.enable": False})
    return list(_KEYS[table.key])


def _draw_partitions(table: Draw, chance: Random) -> list[tuple[str, str]]:
    table.partition = pick(chance, {kind: weight for kind, (weight, _) in _PARTITIONS.items()})
    columns = _PARTITIONS[table.partition][1]
    table.partition_fields = [name for name, _ in columns]
    generator, fields = "SimpleKeyGenerator", ",".join(table.partition_fields)
    if table.partition == "none":
        generator = "NonpartitionedKeyGenerator"
    elif table.partition == "custom":
        generator, fields = "CustomKeyGenerator", "part:SIMPLE,at:TIMESTAMP"
    elif table.partition == "timestamp" and table.key == "composite":
        generator, fields = "CustomKeyGenerator", "part:TIMESTAMP"
    elif table.partition == "timestamp":
        generator = "TimestampBasedKeyGenerator"
    elif len(columns) > 1 or table.key == "composite":
        generator = "ComplexKeyGenerator"
    table.drops_partition_columns = table.partition in _CAN_BE_DROPPED and chance.random() < 0.2
    table.set_options(
        {
            KEY_GENERATOR: KEY_GENERATORS + generator,
            PARTITION_PATH: fields,
            HIVE_STYLE: chance.random() < 0.3,
            URL_ENCODED: table.partition == "odd" or chance.random() < 0.15,
            "hoodie.datasource.write.drop.partition.columns": True if table.drops_partition_columns else None,
        }
    )
    if table.partition in ("timestamp", "custom"):
        prefix = "hoodie.keygen.timebased." if table.writer >= (1, 0) else "hoodie.deltastreamer.keygen.timebased."
        table.set_options(
            {
                f"{prefix}timestamp.type": "EPOCHMILLISECONDS",
                f"{prefix}output.dateformat": chance.choice(["yyyy/MM/dd", "yyyyMMdd", "yyyy-MM"]),
                f"{prefix}timezone": "UTC",
            }
        )
    return columns


def _draw_columns(
    table: Draw,
    chance: Random,
    keys: list[tuple[str, str]],
    partitions: list[tuple[str, str]],
    ordering: list[tuple[str, str]],
) -> None:
    types = column_types(table.writer)
    others = [(f"c{number}", pick(chance, types)) for number in range(chance.randrange(2, 8))]
    is_special = table.payload in _SPECIAL_COLUMNS
    table.has_deletes = not is_special and table.payload not in FILLS_UNSET and chance.random() < 0.35
    rest = ordering + others
    if chance.random() < 0.4:
        chance.shuffle(rest)
    if table.has_deletes:
        rest.append(("_hoodie_is_deleted", "boolean"))
    comes_first = chance.random() < 0.4 and not table.drops_partition_columns
    table.columns = keys + partitions + rest if comes_first else keys + rest + partitions
    if table.payload == DEFAULT_PAYLOAD and not table.has_deletes and chance.random() < 0.25:
        table.has_marker = True
        table.columns.append(("mark", "string"))
        table.set_options({"hoodie.payload.delete.field": "mark", "hoodie.payload.delete.marker": "D"})


def _draw_column_ids(table: Draw, chance: Random) -> None:
    can = table.has_meta_fields and table.payload not in _SPECIAL_COLUMNS and table.merging != "spark merger"
    table.has_column_ids = can and chance.random() < 0.18
    if table.has_column_ids:
        table.set_options(
            {
                SCHEMA_ON_READ: True,
                "hoodie.datasource.write.reconcile.schema": True,
                "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": True,
            }
        )
        if table.writer >= (1, 0):
            # Hudi 1.x does not keep statistics of columns that change.
            stats = ("hoodie.metadata.index.column.stats.enable", "hoodie.metadata.index.partition.stats.enable")
            table.set_options(dict.fromkeys(stats, False))
            table.metadata_indexes = [name for name in table.metadata_indexes if "stats" not in name]
