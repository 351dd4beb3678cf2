"""Makes Arrow tables of rows, and reads the commits that rows are about."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from hudi_bridge.common.threads import REQUESTS_AT_ONCE, map_in_threads
from hudi_bridge.errors import HudiReadError, StorageError
from hudi_bridge.timeline.history import ArchivedInstant, read_archived_contents
from hudi_bridge.timeline.instant import COMMIT_ACTIONS, Instant
from hudi_bridge.timeline.instant_files import CommitMetadata, commit_metadata_of_record, read_commit_metadata
from hudi_bridge.timeline.timeline import TableState


def arrow_schema(**types: Any) -> pa.Schema:  # noqa: ANN401 - pyarrow has no common class in its stubs
    """A schema of columns with these types."""
    return pa.schema(types)


def rows_to_table(schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The rows as a table; columns that a row lacks are null."""
    return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadInstant:
    """An instant, what it wrote if it is a completed commit, and the ``problem`` if that cannot be read."""

    instant: Instant
    metadata: CommitMetadata | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The archived timeline, or the ``problem`` if it cannot be read."""

    entries: tuple[ArchivedInstant, ...] = ()
    problem: str | None = None


def read_archive(state: TableState) -> Archive:
    """The archived instants that are no longer on the active timeline.

    Raises:
        StorageError: a file cannot be read.
    """
    active = {(instant.requested_time, instant.comparable_action) for instant in state.timeline.instants}
    try:
        entries = read_archived_contents(state)
    except StorageError:
        raise
    except HudiReadError as error:
        return Archive(problem=str(error))
    return Archive(
        entries=tuple(
            entry for entry in entries if (entry.instant.requested_time, entry.instant.comparable_action) not in active
        )
    )


def commits_of_archive(archive: Archive) -> list[ReadInstant]:
    """The archived instants, commits with what they wrote."""
    return [_of_archive(entry) for entry in archive.entries]


def active_commits(state: TableState, instants: Iterable[Instant]) -> list[ReadInstant]:
    """Instants on the active timeline, completed commits with what they wrote; some are read at a time.

    Raises:
        StorageError: a file cannot be read.
    """
    return map_in_threads(partial(_of_timeline, state), tuple(instants), REQUESTS_AT_ONCE)


def _of_archive(entry: ArchivedInstant) -> ReadInstant:
    if entry.instant.action not in COMMIT_ACTIONS:
        return ReadInstant(instant=entry.instant)
    try:
        return ReadInstant(instant=entry.instant, metadata=commit_metadata_of_record(entry.result, entry.name))
    except HudiReadError as error:
        return ReadInstant(instant=entry.instant, problem=str(error))


def _of_timeline(state: TableState, instant: Instant) -> ReadInstant:
    if not instant.is_completed or instant.action not in COMMIT_ACTIONS:
        return ReadInstant(instant=instant)
    try:
        return ReadInstant(instant=instant, metadata=read_commit_metadata(state, instant))
    except StorageError:
        raise
    except HudiReadError as error:
        return ReadInstant(instant=instant, problem=str(error))
