"""Tables with a log of changes."""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro

from hudi_bridge import HudiDataset
from hudi_bridge.logformat.layout import BlockType, HeaderKey
from tests.logformat.log_writer import avro_content, log_block
from tests.support.table_writer import Row, TableWriter, at, completion_of

BASE = [{"id": "a", "ts": 1, "value": "a1"}, {"id": "b", "ts": 1, "value": "b1"}]
AFTER = [{"id": "a", "ts": 2, "value": "a2"}, {"id": "c", "ts": 2, "value": "c2"}]
CHANGES = [("u", "a", BASE[0], AFTER[0]), ("d", "b", BASE[1], None), ("i", "c", None, AFTER[1])]

Change = tuple[str, str, Row | None, Row | None]
"""An operation, a record key, and both images."""


def schema_of(table: TableWriter, mode: str) -> dict[str, Any]:
    """The schema of the records that a writer logs."""
    image = table.avro_schema | {"name": "image"}
    before = {"name": "before", "type": ["null", image], "default": None}
    text = ["string", "null"]
    fields: dict[str, list[dict[str, Any]]] = {
        "OP_KEY_ONLY": [{"name": "record_key", "type": text}],
        "DATA_BEFORE": [{"name": "record_key", "type": text}, before],
        "DATA_BEFORE_AFTER": [
            {"name": "ts_ms", "type": text},
            before,
            {"name": "after", "type": ["null", "image"], "default": None},
        ],
    }
    return {"type": "record", "name": "Record", "fields": [{"name": "op", "type": text}, *fields[mode]]}


def cdc_block(table: TableWriter, instant: str, changes: Sequence[Change], mode: str) -> bytes:
    schema = schema_of(table, mode)
    parsed = fastavro.parse_schema(schema)
    datums = []
    for op, key, before, after in changes:
        record = {"op": op, "record_key": key, "ts_ms": instant, "before": before, "after": after}
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, {field["name"]: record[field["name"]] for field in schema["fields"]})
        datums.append(out.getvalue())
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: json.dumps(schema)}
    return log_block(BlockType.CDC_DATA, avro_content(datums), header)


def logged_table(
    folder: Path, mode: str, blocks: Sequence[bytes] | None = None, others: Mapping[str, str] | None = None
) -> TableWriter:
    """A copy-on-write table with two commits; the second logged its changes. ``others`` are more table properties."""
    options = {
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
    } | dict(others or {})
    table = TableWriter(folder=folder, options=options).create()
    table.commit(at(1), action="commit", wrote=[table.base_file(at(1), BASE)])
    path = table.base_file(at(2), AFTER)
    log = folder / f".f1-0_{at(2)}.log.1_0-1-1.cdc"
    log.write_bytes(b"".join(blocks or [cdc_block(table, at(2), CHANGES, mode)]))
    table.commit(at(2), action="commit", wrote=[path], logged=[log])
    return table


def since_the_first(table: TableWriter, **options: Any) -> HudiDataset:
    return table.open().changes(completion_of(at(1)), **options)


def data(image: Mapping[str, Any] | None) -> Row | None:
    return image and {name: value for name, value in image.items() if not name.startswith("_hoodie")}
