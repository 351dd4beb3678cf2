"""The history of timeline layout 1: log files of Avro blocks, one entry for each state of an instant.

An entry is a ``HoodieArchivedMetaEntry``: ``commitTime``, ``actionType``, ``actionState``,
``stateTransitionTime`` (not in Hudi 0.12), and for each kind of file its content, nullable, as a record.

Source: ``ArchivedTimelineV1``, ``HoodieAvroDataBlock``.
"""

import functools
import re
from collections.abc import Collection, Iterator, Sequence

from hudi_bridge.config import TableConfig
from hudi_bridge.errors import CorruptTableError, CorruptTimelineError
from hudi_bridge.logformat.avro_columns import content_bounds, decode_avro_records
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.schema.avro import AvroRecord, parse_avro_schema
from hudi_bridge.storage import Storage
from hudi_bridge.timeline.commit_metadata import (
    CommitMetadata,
    commit_metadata_of_record,
    read_timeline_file,
)
from hudi_bridge.timeline.instant import COMMIT_ACTIONS, Instant, InstantState, parse_action
from hudi_bridge.timeline.records import Record, map_field, text_field

_FILE_NAME = re.compile(r"\.commits_\.archive\.[0-9]+(?:_[0-9-]+)?")
_HEADLINE = ("commitTime", "actionType", "actionState", "stateTransitionTime")
_CONTENTS = ("hoodieReplaceCommitMetadata", "hoodieCommitMetadata")
_COMMIT = ("commitTime", *_CONTENTS)
_EXPECTED = "whole blocks of archived instants"


def iter_instants(storage: Storage, config: TableConfig, since: str) -> Iterator[Instant]:
    """The completed instants from ``since`` on, in the order of the files.

    Raises:
        CorruptTimelineError: a file is gone or an entry is damaged.
        CorruptLogFileError: a file is no log file.
        UnsupportedTableError: a schema contains itself.
    """
    for block in _iter_blocks(storage, config):
        for headline in _entries(block, _HEADLINE):
            action = parse_action(text_field(headline, "actionType", block.path))
            if action is not None and _is_completed(headline, block.path) and headline["commitTime"] >= since:
                yield Instant(
                    requested_time=headline["commitTime"],
                    action=action,
                    state=InstantState.COMPLETED,
                    completion_time=text_field(headline, "stateTransitionTime", block.path) or None,
                )


def iter_commits(storage: Storage, config: TableConfig, wanted: frozenset[str]) -> Iterator[tuple[str, CommitMetadata]]:
    """The metadata of the wanted commits; every entry is looked at, only theirs are decoded in full.

    Raises:
        CorruptTimelineError: a file is gone or an entry is damaged.
        CorruptLogFileError: a file is no log file.
        UnsupportedTableError: a schema contains itself.
    """
    for block in _iter_blocks(storage, config):
        path = block.path
        found = [
            number
            for number, headline in enumerate(_entries(block, _HEADLINE))
            if parse_action(text_field(headline, "actionType", path)) in COMMIT_ACTIONS
            and _is_completed(headline, path)
            and headline["commitTime"] in wanted
        ]
        for entry in _entries(block, _COMMIT, found):
            field = next((name for name in _CONTENTS if entry.get(name)), "")
            yield entry["commitTime"], commit_metadata_of_record(map_field(entry, field, path), path)


def _is_completed(headline: Record, path: str) -> bool:
    # The oldest entries name no state: only completed instants were archived.
    state = text_field(headline, "actionState", path)
    return bool(text_field(headline, "commitTime", path)) and state in ("", InstantState.COMPLETED.name)


def _iter_blocks(storage: Storage, config: TableConfig) -> Iterator[LogBlock]:
    """The blocks of entries. Hudi steps over damaged ones, and so over the commits in them."""
    for info in storage.list_directory(config.history_path):
        if info.is_dir or _FILE_NAME.fullmatch(info.name) is None:
            continue
        scan = scan_blocks(read_timeline_file(storage, info.path), info.path)
        for corrupt in scan.corrupt:
            raise CorruptTimelineError(info.path, corrupt.offset, f"a damaged block: {corrupt.reason}", _EXPECTED)
        for block in scan.blocks:
            if block.block_type is not BlockType.AVRO_DATA or block.schema_text is None:
                raise CorruptTimelineError(info.path, block.offset, "a block that is not one of entries", _EXPECTED)
            yield block


def _entries(block: LogBlock, fields: Collection[str], numbers: Sequence[int] | None = None) -> list[Record]:
    """Some fields of the entries of a block: of all, or of those of some numbers."""
    if numbers is not None and not numbers:
        return []
    content, path, offset = block.content, block.path, block.content_offset
    try:
        writer = _parse_schema(block.schema_text or "", path)
        starts, ends = content_bounds(content, path, offset)
        if numbers is not None:
            starts, ends = starts[list(numbers)], ends[list(numbers)]
        rows = decode_avro_records(content, starts, ends, writer, fields, path, offset)
        return list(rows.to_pylist(maps_as_pydicts="strict"))
    except CorruptTableError as error:
        raise CorruptTimelineError(path, offset, error.found, error.expected) from error
    except (KeyError, ValueError, OverflowError) as error:
        found = f"values that Python does not hold ({error})"
        raise CorruptTimelineError(path, offset, found, "archived instants") from error


@functools.lru_cache(maxsize=8)
def _parse_schema(schema_text: str, path: str) -> AvroRecord:
    return parse_avro_schema(schema_text, path)
