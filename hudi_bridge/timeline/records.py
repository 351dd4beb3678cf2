"""The bytes of a timeline file to the one record in it, and typed access to that record's fields.

Commits are JSON in layout 1; plans, clean, rollback, restore and savepoint files are Avro container files
of one record in both layouts, commits in layout 2. Either kind may hold anything, so every field is asked
for by its kind.

Source: ``TimelineMetadataUtils``, ``CommitMetadataSerDeV1``, "Object Container Files" of the Avro
specification.
"""

import json
from collections.abc import Mapping
from typing import Any

from hudi_bridge.errors import CorruptTimelineError
from hudi_bridge.schema.json_values import parse_json
from hudi_bridge.timeline.avro_container import MAGIC, parse_container

Record = Mapping[str, Any]


def parse_record(data: bytes, path: str) -> Record:
    """The record of a JSON or Avro file; ``path`` names the file in errors.

    Raises:
        CorruptTimelineError: the bytes are neither, are cut off, or hold another number of records.
        UnsupportedTableError: an Avro schema contains itself, or its codec is not known here.
    """
    return parse_container(data, path) if data.startswith(MAGIC) else _parse_json(data, path)


def _parse_json(data: bytes, path: str) -> Record:
    try:
        value = parse_json(data)
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
