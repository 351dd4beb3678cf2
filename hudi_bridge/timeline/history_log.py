"""The history of timeline layout 1: log files of Avro blocks, one entry for each state of an instant.

An entry is a ``HoodieArchivedMetaEntry``: ``commitTime``, ``actionType``, ``actionState``,
``stateTransitionTime`` (not in Hudi 0.12), and for each kind of file its content, nullable, as a record. A
content block is a version and a count, then the entries, each after its length; all four-byte big-endian.

Source: ``ArchivedTimelineV1``, ``HoodieAvroDataBlock``.
"""

import functools
import io
import json
import re
import struct
from collections.abc import Iterator
from typing import Any

import fastavro

from hudi_bridge.config import TableConfig
from hudi_bridge.errors import CorruptTimelineError
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.storage import Storage
from hudi_bridge.timeline.commit_metadata import (
    CommitMetadata,
    commit_metadata_of_record,
    read_timeline_file,
)
from hudi_bridge.timeline.instant import COMMIT_ACTIONS, Instant, InstantState, parse_action
from hudi_bridge.timeline.records import Record, map_field, text_field

_FILE_NAME = re.compile(r"\.commits_\.archive\.[0-9]+(?:_[0-9-]+)?")
_CONTENT_START = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")
_FULL_NAME = "org.apache.hudi.avro.model.HoodieArchivedMetaEntry"
_TEXT_FIELDS = ("commitTime", "actionType", "actionState", "stateTransitionTime")
_HEADLINE_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": _FULL_NAME,
        "fields": [{"name": name, "type": ["null", "string"], "default": None} for name in _TEXT_FIELDS],
    }
)
"""Reading with it steps over the contents, which are nearly all of an entry."""


def iter_instants(storage: Storage, config: TableConfig, since: str) -> Iterator[Instant]:
    """The completed instants from ``since`` on, in the order of the files.

    Raises:
        CorruptTimelineError: a file is gone or an entry is damaged.
        CorruptLogFileError: a file is no log file.
    """
    for datum, schema_text, path in _iter_entries(storage, config):
        headline = _decode(datum, schema_text, path, headline_only=True)
        action = parse_action(text_field(headline, "actionType", path))
        if action is not None and _is_completed(headline, path) and headline["commitTime"] >= since:
            yield Instant(
                requested_time=headline["commitTime"],
                action=action,
                state=InstantState.COMPLETED,
                completion_time=text_field(headline, "stateTransitionTime", path) or None,
            )


def iter_commits(storage: Storage, config: TableConfig, wanted: frozenset[str]) -> Iterator[tuple[str, CommitMetadata]]:
    """The metadata of the wanted commits; every entry is looked at, only theirs are decoded in full.

    Raises:
        CorruptTimelineError: a file is gone or an entry is damaged.
        CorruptLogFileError: a file is no log file.
    """
    for datum, schema_text, path in _iter_entries(storage, config):
        headline = _decode(datum, schema_text, path, headline_only=True)
        action = parse_action(text_field(headline, "actionType", path))
        if action in COMMIT_ACTIONS and headline["commitTime"] in wanted and _is_completed(headline, path):
            entry = _decode(datum, schema_text, path, headline_only=False)
            field = next(
                (name for name in ("hoodieReplaceCommitMetadata", "hoodieCommitMetadata") if entry.get(name)),
                "",
            )
            yield headline["commitTime"], commit_metadata_of_record(map_field(entry, field, path), path)


def _is_completed(headline: Record, path: str) -> bool:
    # The oldest entries name no state: only completed instants were archived.
    state = text_field(headline, "actionState", path)
    return bool(text_field(headline, "commitTime", path)) and state in ("", InstantState.COMPLETED.name)


def _iter_entries(storage: Storage, config: TableConfig) -> Iterator[tuple[bytes, str, str]]:
    """Each entry's bytes with their schema and file; damaged blocks are stepped over, as in any log file."""
    for info in storage.list_directory(config.history_path):
        if info.is_dir or _FILE_NAME.fullmatch(info.name) is None:
            continue
        for block in scan_blocks(read_timeline_file(storage, info.path), info.path).blocks:
            if block.block_type is BlockType.AVRO_DATA and block.schema_text is not None:
                for datum in _iter_datums(block):
                    yield datum, block.schema_text, info.path


def _iter_datums(block: LogBlock) -> Iterator[bytes]:
    content = memoryview(block.content)
    if len(content) < _CONTENT_START.size:
        raise _damaged_content(block, len(content))
    _, count = _CONTENT_START.unpack_from(content)
    position = _CONTENT_START.size
    for _ in range(count):
        if position + _LENGTH.size > len(content):
            raise _damaged_content(block, position)
        (length,) = _LENGTH.unpack_from(content, position)
        position += _LENGTH.size
        if not 0 <= length <= len(content) - position:
            raise _damaged_content(block, position)
        yield bytes(content[position : position + length])
        position += length


def _damaged_content(block: LogBlock, position: int) -> CorruptTimelineError:
    offset = block.content_offset + position
    return CorruptTimelineError(block.path, offset, "an entry that leaves its block", "archived instants")


def _decode(datum: bytes, schema_text: str, path: str, *, headline_only: bool) -> Record:
    try:
        schema = _parse_schema(schema_text)
        reader_schema = _HEADLINE_SCHEMA if headline_only else None
        entry: object = fastavro.schemaless_reader(io.BytesIO(datum), schema, reader_schema)
    except Exception as error:
        raise CorruptTimelineError(path, None, f"damaged Avro ({error})", "an archived instant") from error
    # The headline of every entry is read first, and its schema takes records only.
    assert isinstance(entry, dict)
    return entry


@functools.lru_cache(maxsize=8)
def _parse_schema(schema_text: str) -> str | list[Any] | dict[Any, Any]:
    return fastavro.parse_schema(json.loads(schema_text))
