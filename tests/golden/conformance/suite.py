"""The queries of the suite, and the features of the tables that they are put to."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.golden.generate.log_blocks import inventory
from tests.golden.generate.timeline import instants, properties, timeline_folder
from tests.support.deviations import ANSWERED, NOT_A_NUMBER, REFUSED
from tests.support.golden_cases import GoldenQuery, golden_case, golden_group
from tests.support.golden_queries import QUERIES, Key

Feature = tuple[str, str]
"""A topic, and what a table has of it."""

SUITE: Mapping[Key, GoldenQuery] = {key: QUERIES[key] for key in sorted((ANSWERED - NOT_A_NUMBER) | set(REFUSED))}
"""The queries with Hudi's answer; those without one are refused by Hudi, as files that they need are gone, for example.

Left out are queries whose answer is a fault of the release, and those at which Hudi fails, though the rows are there.
"""
KINDS = {
    "snapshot": "snapshot",
    "read_optimized": "read optimized",
    "time_travel": "time travel",
    "snapshot_filtered": "snapshot with a filter",
    "incremental": "incremental",
    "cdc": "changes (CDC)",
}
"""The kinds of query, in the order of the matrix."""
TOPICS = (
    "table version",
    "table type",
    "merge mode",
    "payload",
    "ordering",
    "log blocks",
    "log features",
    "file slices and timeline",
    "columns",
    "schema evolution",
    "key generator",
    "partitions",
    "indexes",
    "change data",
)
"""In the order of the matrix."""

_BLOCKS = {
    "avro_data": "Avro data",
    "parquet_data": "Parquet data",
    "hfile_data": "HFile data",
    "delete": "delete",
    "command": "rollback",
    "cdc_data": "change data",
}
_DAMAGES = ("corrupt", "garbage")
_TRAITS = {"positions": "record positions", "partial": "partial updates", "compacted": "log compaction"}
_INDEXES = {
    "files": "files",
    "column_stats": "column stats",
    "partition_stats": "partition stats",
    "bloom_filters": "Bloom filters",
    "record_index": "record index",
    "secondary_index": "secondary index",
    "expr_index": "expression index",
}
_GENERATORS = {
    "SimpleKeyGenerator": "SIMPLE",
    "ComplexKeyGenerator": "COMPLEX",
    "TimestampBasedKeyGenerator": "TIMESTAMP",
    "NonpartitionedKeyGenerator": "NON_PARTITION",
    "CustomKeyGenerator": "CUSTOM",
}
_ACTIONS = {
    ("compaction", False): "pending compaction",
    ("clustering", False): "pending clustering",
    ("replacecommit", False): "pending clustering",
    ("deltacommit", False): "unfinished write",
    ("replacecommit", True): "replaced file groups",
    ("rollback", True): "rollback",
    ("restore", True): "restore",
    ("savepoint", True): "savepoint",
    ("clean", True): "clean",
}
"""What actions of the active timeline show of a table, by whether they are completed."""


def named(names: Iterable[str], kinds: Iterable[str] = KINDS) -> list[GoldenQuery]:
    """The queries of some kinds to the cases of these names and groups; to all of them if there is no name.

    Raises:
        LookupError: a name is neither, or there is no such kind.
    """
    names, kinds = set(names), set(kinds)
    cases = {case for case, _ in SUITE}
    unknown = names - cases - {golden_group(case) for case in cases} | kinds - KINDS.keys()
    if unknown:
        raise LookupError(f"no case, group or kind is named {', '.join(sorted(unknown))}")
    return [
        query
        for (case, _), query in SUITE.items()
        if query.kind in kinds and (not names or case in names or golden_group(case) in names)
    ]


@cache
def features_of(case: str) -> tuple[Feature, ...]:
    """The features of a table, by what Hudi stored in it."""
    folder = golden_case(case)
    document = json.loads((folder / "case.json").read_text())
    table = folder / document["table"]
    return tuple(dict.fromkeys(_features(case, document, table, properties(table))))


def _features(case: str, document: Mapping[str, Any], table: Path, stored: Mapping[str, str]) -> Iterator[Feature]:
    yield "table version", f"{document['table_version']}, Hudi {document['hudi_version']}"
    yield "table type", stored.get("hoodie.table.type", "none yet").replace("_", "-").lower()
    yield "merge mode", stored.get("hoodie.record.merge.mode", "not stored (Hudi 0.x)")
    payload = stored.get("hoodie.table.legacy.payload.class") or stored.get(
        "hoodie.compaction.payload.class", "not stored"
    )
    yield "payload", payload.rpartition(".")[2]
    yield "ordering", _ordering(stored)
    yield from _log_features(inventory(table))
    yield from _timeline_features(table)
    yield from _columns(golden_group(case), document, stored)
    generator = stored.get("hoodie.table.keygenerator.class", "").rpartition(".")[2]
    yield "key generator", stored.get("hoodie.table.keygenerator.type") or _GENERATORS.get(generator, "not stored")
    yield from _partitions(stored)
    yield from _indexes(stored, has_metadata_table=document["metadata_table"])
    if stored.get("hoodie.table.cdc.enabled") == "true":
        yield "change data", stored["hoodie.table.cdc.supplemental.logging.mode"].lower()


def _ordering(stored: Mapping[str, str]) -> str:
    fields = stored.get("hoodie.table.ordering.fields") or stored.get("hoodie.table.precombine.field", "")
    if not fields:
        return "no field"
    if "," in fields:
        return "several fields"
    return "a field of a struct" if "." in fields else "one field"


def _log_features(labels: Mapping[str, int]) -> Iterator[Feature]:
    if not labels:
        yield "log blocks", "no log files"
    for label in labels:
        kind, *traits = label.replace("(content ", "(").split(" ")
        if kind in _DAMAGES:
            yield "log features", "torn and corrupt blocks"
            continue
        content = next((trait.strip("()") for trait in traits if trait.startswith("(")), "")
        yield "log blocks", f"{_BLOCKS[kind]} {content}".rstrip() if kind == "delete" else _BLOCKS[kind]
        for trait, feature in _TRAITS.items():
            if f"+{trait}" in traits:
                yield "log features", feature


def _timeline_features(table: Path) -> Iterator[Feature]:
    for instant in instants(table):
        action = (instant.action, instant.state == "completed")
        if action in _ACTIONS:
            yield "file slices and timeline", _ACTIONS[action]
    folder = timeline_folder(table)
    archive = folder / ("history" if folder.name == "timeline" else "archived")
    if archive.is_dir() and any(archive.iterdir()):
        yield "file slices and timeline", "archived timeline"


def _columns(group: str, document: Mapping[str, Any], stored: Mapping[str, str]) -> Iterator[Feature]:
    if group == "f":
        yield "columns", "all types"
    if group == "v":
        yield "columns", "vectors, widened numbers"
    if stored.get("hoodie.populate.meta.fields") == "false":
        yield "columns", "no meta columns"
    if stored.get("hoodie.allow.operation.metadata.field") == "true":
        yield "columns", "operations of a changelog"
    if document["internal_schema_history"]:
        yield "schema evolution", "by column id"
    elif group == "g":
        yield "schema evolution", "by name"


def _partitions(stored: Mapping[str, str]) -> Iterator[Feature]:
    columns = stored.get("hoodie.table.partition.fields", "")
    yield "partitions", "none" if not columns else "several columns" if "," in columns else "one column"
    for name, feature in (
        ("hoodie.datasource.write.hive_style_partitioning", "Hive style"),
        ("hoodie.datasource.write.partitionpath.urlencode", "URL-encoded"),
        ("hoodie.datasource.write.drop.partition.columns", "columns dropped from files"),
        ("hoodie.datasource.write.slash.separated.date.partitioning", "slash-separated dates"),
    ):
        if stored.get(name) == "true":
            yield "partitions", feature


def _indexes(stored: Mapping[str, str], *, has_metadata_table: bool) -> Iterator[Feature]:
    if not has_metadata_table:
        yield "indexes", "no metadata table"
        return
    names = stored.get("hoodie.table.metadata.partitions", "").split(",")
    for prefix, index in _INDEXES.items():
        if any(name.startswith(prefix) for name in names):
            yield "indexes", index
