"""The bytes of a timeline file to the one record in it, and typed access to that record's fields.

Commits are JSON in layout 1; plans, clean, rollback, restore and savepoint files are Avro container files
of one record in both layouts, commits in layout 2. Either kind may hold anything, so every field is asked
for by its kind.

Source: ``TimelineMetadataUtils``, ``CommitMetadataSerDeV1``, "Object Container Files" of the Avro
specification.
"""

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro

from hudi_bridge.errors import CorruptTimelineError

AVRO_MAGIC = b"Obj\x01"

Record = Mapping[str, Any]


def parse_record(data: bytes, path: str) -> Record:
    """The record of a JSON or Avro file; ``path`` names the file in errors.

    Raises:
        CorruptTimelineError: the bytes are neither, are cut off, or hold another number of records.
    """
    return _parse_container(data, path) if data.startswith(AVRO_MAGIC) else _parse_json(data, path)


def _parse_container(data: bytes, path: str) -> Record:
    try:
        records = list(fastavro.reader(io.BytesIO(data)))
    except Exception as error:
        raise CorruptTimelineError(path, None, f"damaged Avro ({error})", "an Avro container") from error
    if len(records) != 1 or not isinstance(records[0], dict):
        raise CorruptTimelineError(path, None, f"{len(records)} values", "an Avro container of one record")
    return records[0]


def _parse_json(data: bytes, path: str) -> Record:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        offset = error.pos if isinstance(error, json.JSONDecodeError) else None
        found = f"{data[:16]!r}, {len(data)} bytes that are neither ({error})"
        raise CorruptTimelineError(path, offset, found, "JSON or an Avro container") from error
    if not isinstance(value, dict):
        raise CorruptTimelineError(path, 0, repr(data[:16]), "a JSON object")
    return value


def text_field(record: Record, name: str, path: str) -> str:
    """The text, "" where it is null or missing."""
    value = record.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong_kind(name, value, "text", path)
    return value


def number_field(record: Record, name: str, path: str) -> int:
    """The whole number, 0 where it is null or missing."""
    value = record.get(name)
    if value is None:
        return 0
    if not isinstance(value, int):
        raise _wrong_kind(name, value, "a whole number", path)
    return value


def map_field(record: Record, name: str, path: str) -> Record:
    """The map, empty where it is null or missing."""
    value = record.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong_kind(name, value, "a map", path)
    return value


def texts_field(record: Record, name: str, path: str) -> tuple[str, ...]:
    """The list of texts, empty where it is null or missing."""
    return tuple(_list_of(str, record, name, path))


def records_field(record: Record, name: str, path: str) -> list[Record]:
    """The list of records, empty where it is null or missing."""
    return _list_of(dict, record, name, path)


def _list_of(kind: type, record: Record, name: str, path: str) -> list[Any]:
    value = record.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
        raise _wrong_kind(name, value, f"a list of {kind.__name__}", path)
    return value


def _wrong_kind(name: str, value: object, expected: str, path: str) -> CorruptTimelineError:
    return CorruptTimelineError(path, None, f"{name} = {str(value)[:80]!r}", expected)
