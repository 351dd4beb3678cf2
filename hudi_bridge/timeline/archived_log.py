"""The archived timeline of layout 1: log files of Avro blocks, with one record for each state of an instant.

An entry (``HoodieArchivedMetaEntry``) has one nullable record for each kind of file, and in Hudi 0.12 no
``stateTransitionTime``. The contents of files are most of its bytes: a reader's schema skips what is not needed, which
fastavro does faster than Python can.

Source: ``ArchivedTimelineV1``, ``HoodieAvroDataBlock``.
"""

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from hudi_bridge.errors import CorruptTableError, CorruptTimelineError, UnsupportedTableError
from hudi_bridge.logformat.avro_columns import content_bounds
from hudi_bridge.logformat.avro_cursors import DatumBytes, value_step
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.schema.avro import AvroArray, AvroRecord, inner_types, parse_avro_schema
from hudi_bridge.schema.avro_types import min_width
from hudi_bridge.timeline.instant import COMMIT_ACTIONS, Instant, InstantState, parse_action
from hudi_bridge.timeline.instant_files import CommitMetadata, commit_metadata_of_record, read_timeline_file
from hudi_bridge.timeline.records import Record, map_field, text_field
from hudi_bridge.timeline.timeline import TableState

_MOST_CACHED_TYPES = 64
"""The archive of a table has a schema for each release that wrote it."""
_FILE_NAME = re.compile(r"\.commits_\.archive\.[0-9]+(?:_[0-9-]+)?")
_FULL_NAME = "org.apache.hudi.avro.model.HoodieArchivedMetaEntry"
_TEXT_FIELDS = ("commitTime", "actionType", "actionState", "stateTransitionTime")
_HEADER_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": _FULL_NAME,
        "fields": [{"name": name, "type": ["null", "string"], "default": None} for name in _TEXT_FIELDS],
    }
)
"""A reader schema that skips the file contents, which are most of an entry's bytes."""
_CONTENTS = ("hoodieReplaceCommitMetadata", "hoodieCommitMetadata")
_EXPECTED = "whole blocks of archived instants"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatumType:
    """A record type: ``avro`` to check its bytes, ``parsed`` for fastavro."""

    avro: AvroRecord
    parsed: Any


# The timeline files of a table have only a few distinct schemas.
_cached_types: dict[str, DatumType] = {}


def datum_type(schema_text: str, path: str) -> DatumType:
    """The record type of a schema in JSON; ``path`` names its file in errors.

    Raises:
        CorruptTimelineError: the text is not the schema of an Avro record.
        UnsupportedTableError: a type contains itself, or an array can be of any length in no bytes.
    """
    if schema_text not in _cached_types:
        if len(_cached_types) >= _MOST_CACHED_TYPES:
            _cached_types.clear()
        _cached_types[schema_text] = _parse_schema(schema_text, path)
    return _cached_types[schema_text]


def _parse_schema(text: str, path: str) -> DatumType:
    try:
        avro = parse_avro_schema(text, path)
    except CorruptTableError as error:
        raise CorruptTimelineError(path, None, error.found, error.expected) from error
    if any(isinstance(inner, AvroArray) and not min_width(inner.items) for inner in inner_types(avro)):
        actual = f"an array of items that take no bytes, in {path}"
        raise UnsupportedTableError("Avro schema", actual, "items of at least one byte")
    try:
        return DatumType(avro=avro, parsed=fastavro.parse_schema(json.loads(text)))
    except Exception as error:
        raise CorruptTimelineError(path, None, f"a schema that is none ({error})", "an Avro schema") from error


def iter_datums(
    kind: DatumType,
    content: pa.Buffer,
    spans: Iterable[tuple[int, int]],
    path: str,
    offset: int,
    reader_schema: Any = None,  # noqa: ANN401 - parsed by fastavro
) -> Iterator[dict[str, Any]]:
    """The records at ``spans`` of the content, with the fields of ``reader_schema``, or all fields if it is None.

    ``path`` and ``offset`` locate the content in errors. fastavro trusts the lengths in a datum, so each
    is checked before.

    Raises:
        CorruptTimelineError: a span is not exactly one record.
    """
    try:
        source = DatumBytes.of(content, np.zeros(1, np.int64), path, offset)
        step = value_step(kind.avro, source)
        for start, end in spans:
            if step(start, end) != end:
                raise source.corrupt(start, "bytes after the last field", "the end of the record")
            yield _decode(content.slice(start, end - start).to_pybytes(), kind, reader_schema, path, offset + start)
    except CorruptTableError as error:
        raise CorruptTimelineError(path, error.offset, error.found, error.expected) from error


def _decode(datum: bytes, kind: DatumType, reader_schema: Any, path: str, offset: int) -> dict[str, Any]:  # noqa: ANN401
    try:
        record: Any = fastavro.schemaless_reader(io.BytesIO(datum), kind.parsed, reader_schema)
    except Exception as error:
        raise CorruptTimelineError(path, offset, f"damaged Avro ({error})", "an Avro record") from error
    assert isinstance(record, dict)
    return record


def iter_instants(state: TableState, since: str, *, of_all_states: bool = False) -> Iterator[Instant]:
    """The completed instants from ``since`` on, in the order of the files; with ``of_all_states``, each state of each.

    The completion time of another state is when the instant got it.

    Raises:
        CorruptTimelineError: a file is missing or an entry is damaged.
        CorruptLogFileError: a file is not a log file.
        UnsupportedTableError: a schema contains itself.
    """
    for block in _iter_blocks(state):
        for header in _entries(block, _HEADER_SCHEMA):
            action = parse_action(text_field(header, "actionType", block.path))
            is_counted = of_all_states or _is_completed(header, block.path)
            if action is not None and is_counted and header["commitTime"] >= since:
                name = text_field(header, "actionState", block.path)
                yield Instant(
                    requested_time=header["commitTime"],
                    action=action,
                    state=InstantState[name] if name in InstantState.__members__ else InstantState.COMPLETED,
                    completion_time=text_field(header, "stateTransitionTime", block.path) or None,
                )


def iter_commits(state: TableState, times: frozenset[str]) -> Iterator[tuple[str, CommitMetadata]]:
    """The metadata of the commits at ``times``; the other entries are decoded without their contents.

    Raises:
        CorruptTimelineError: a file is missing or an entry is damaged.
        CorruptLogFileError: a file is not a log file.
        UnsupportedTableError: a schema contains itself.
    """
    for block in _iter_blocks(state):
        path = block.path
        actions = [
            number
            for number, header in enumerate(_entries(block, _HEADER_SCHEMA))
            if parse_action(text_field(header, "actionType", path)) in COMMIT_ACTIONS
            and _is_completed(header, path)
            and header["commitTime"] in times
        ]
        for entry in _entries(block, None, actions):
            field = next((name for name in _CONTENTS if entry.get(name)), "")
            yield entry["commitTime"], commit_metadata_of_record(map_field(entry, field, path), path)


def iter_contents(state: TableState, at: str | None) -> Iterator[tuple[Instant, Record, str]]:
    """Instants in all of their states, each with the contents of its file and a name for errors.

    Without ``at``, a requested time, all of them; with it, the contents of others are not decoded.

    Raises:
        CorruptTimelineError: a file is missing or an entry is damaged.
        CorruptLogFileError: a file is not a log file.
        UnsupportedTableError: a schema contains itself.
    """
    for block in _iter_blocks(state):
        headers = enumerate([] if at is None else _entries(block, _HEADER_SCHEMA))
        numbers = None if at is None else [number for number, header in headers if header["commitTime"] == at]
        for entry in _entries(block, None, numbers):
            action = parse_action(text_field(entry, "actionType", block.path))
            if action is None:
                continue
            is_completed = _is_completed(entry, block.path)
            instant = Instant(
                requested_time=text_field(entry, "commitTime", block.path),
                action=action,
                state=InstantState.COMPLETED if is_completed else InstantState.REQUESTED,
                completion_time=text_field(entry, "stateTransitionTime", block.path) or None if is_completed else None,
            )
            contents = [value for name, value in entry.items() if name not in _TEXT_FIELDS and isinstance(value, dict)]
            yield instant, contents[0] if contents else {}, f"{block.path}, instant {instant.requested_time}"


def _is_completed(header: Record, path: str) -> bool:
    # The oldest entries name no state: only completed instants were archived.
    state = text_field(header, "actionState", path)
    return bool(text_field(header, "commitTime", path)) and state in ("", InstantState.COMPLETED.name)


def _iter_blocks(state: TableState) -> Iterator[LogBlock]:
    """The blocks of entries. Raises on a damaged block, where Hudi silently skips the commits in it."""
    for info in state.storage.list_directory(state.config.archived_path):
        if info.is_dir or _FILE_NAME.fullmatch(info.name) is None:
            continue
        scan = scan_blocks(read_timeline_file(state.storage, info.path), info.path)
        if scan.corrupt:
            corrupt = scan.corrupt[0]
            raise CorruptTimelineError(info.path, corrupt.offset, f"a damaged block: {corrupt.reason}", _EXPECTED)
        for block in scan.blocks:
            if block.block_type is not BlockType.AVRO_DATA or block.schema_text is None:
                raise CorruptTimelineError(info.path, block.offset, "a block that is not one of entries", _EXPECTED)
            yield block


def _entries(block: LogBlock, reader_schema: object, numbers: Sequence[int] | None = None) -> list[Record]:
    """The entries of a block with the fields of ``reader_schema``: all of them, or those at ``numbers``."""
    if numbers is not None and not numbers:
        return []
    kind = datum_type(block.schema_text or "", block.path)
    try:
        starts, ends = content_bounds(block.content, block.path, block.content_offset)
    except CorruptTableError as error:
        raise CorruptTimelineError(block.path, error.offset, error.found, error.expected) from error
    spans = list(zip(starts.tolist(), ends.tolist(), strict=True))
    chosen = spans if numbers is None else [spans[number] for number in numbers]
    return list(iter_datums(kind, block.content, chosen, block.path, block.content_offset, reader_schema))
