"""Notes of a plan about what it ruled out, step by step, for ``explain``; and warnings, each
logged once per process.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from hudi_bridge.config import TableConfig
from hudi_bridge.options import READ_AS_RELEASE_KEY
from hudi_bridge.releases import Series
from hudi_bridge.storage.masking import masked

_Split = TypeVar("_Split")

METADATA_TABLE = "metadata table"
LISTING = "listing of folders"
COMMITS = "commits of the range"
PARTITION_CONDITION = "partition condition"
PARTITIONS = "partitions"
SLICES = "file slices"
_LOG = logging.getLogger(__name__)
_given: set[str] = set()
_FILES_NAMED = 5
_messages_of_files: defaultdict[str, set[str]] = defaultdict(set)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """Where the names of files come from; ``why_not_metadata_table`` is None for the metadata table."""

    name: str
    why_not_metadata_table: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningStep:
    """One step of pruning, with the numbers ``before`` and ``after`` it, in partitions or file slices (``unit``).

    Both are None if the step was not taken; ``why_not`` has the reason. In a listing, a folder that was ruled out with
    all partitions in it counts as one partition.

    Part of an ``Explanation``.
    """

    name: str
    unit: str
    before: int | None
    after: int | None
    why_not: str | None


class PlanNotes:
    """Collects the steps of one plan, in the order in which they are first mentioned."""

    def __init__(self) -> None:
        """Notes without a step."""
        self._steps: dict[str, PruningStep] = {}
        self.listed = 0
        """The number of splits that were listed, before any index was asked."""
        self.files_found_by: FileSource | None = None
        """How the names of files were found, if not as in other queries of the table."""

    @property
    def steps(self) -> tuple[PruningStep, ...]:
        """The steps so far."""
        return tuple(self._steps.values())

    def counting(self, splits: Iterable[_Split]) -> Iterator[_Split]:
        """The same splits, which are counted when they are listed."""
        for split in splits:
            self.listed += 1
            yield split

    def counted(self, name: str, before: int, after: int, unit: str = SLICES) -> None:
        """Notes a step; the numbers for parts of the table are added up."""
        earlier = self._steps.get(name)
        if earlier is not None:
            before, after = before + (earlier.before or 0), after + (earlier.after or 0)
        why_not = None if earlier is None else earlier.why_not
        self._steps[name] = PruningStep(name=name, unit=unit, before=before, after=after, why_not=why_not)

    def not_used(self, name: str, why_not: str, unit: str = SLICES) -> None:
        """Notes why a step was not taken, or not for the whole table."""
        earlier = self._steps.get(name)
        before, after = (None, None) if earlier is None else (earlier.before, earlier.after)
        self._steps[name] = PruningStep(name=name, unit=unit, before=before, after=after, why_not=why_not)


def warn_of_other_release(config: TableConfig, *, newest: Series | None) -> None:
    """Warns if the newest commit was written by another series of Hudi than the properties; None if it wrote no file.

    The properties decide the rules by which a table is read. Hudi 1.x does not change them when it writes to a table of
    version 6 without an upgrade; and after a downgrade, 0.x writes to a table with the properties of 1.x.
    """
    if config.layout.is_of_one_series or newest in (None, config.rules.series):
        return
    _warn_once(
        f"{config.table_path}: its properties are those of Hudi {config.rules.series}, whose rules hold, "
        f"but Hudi {newest} wrote the newest commit; the option {READ_AS_RELEASE_KEY} says whose rules are to hold"
    )


def warn_of_log_of_compaction(log_path: str, compaction: str) -> None:
    """Warn that a log file is skipped: its name has a pending compaction's instant, as before table version 8."""
    _warn_once(
        f"{log_path} is not read: it is named after the pending compaction {compaction}, as before table version 8; "
        "Hudi passes it over, too, and loses what was written between the compaction's plan and an upgrade that did "
        "not run it"
    )


def warn_of_unused_metadata(table_path: str, reason: str) -> None:
    """Warn that the metadata table of a table cannot be used."""
    _warn_once(f"{table_path}: files are listed in storage, since the metadata table cannot be used: {reason}")


def warn_of_unread_commit(table_path: str, reason: str) -> None:
    """Warns that a commit does not name the files it wrote, so that lost files would not be detected."""
    _warn_once(f"{table_path}: the files that a commit wrote are not looked for, since it cannot be read: {reason}")


def warn_of_lost_completion(table_path: str, action: str, pending: str, commit: str) -> None:
    """Warns that a write counts as pending, as in Hudi, although a completed one is based on its files."""
    _warn_once(
        f"{table_path}: the {action} {pending} has not completed by the timeline, although the commit {commit} is "
        "based on its files: is its completed file lost? Its rows are left out, as in Hudi"
    )


def warn_of_short_log(path: str, size_bytes: int, named_bytes: int, commit: str) -> None:
    """Warns that a log file is read up to its end, as in Hudi, although it was longer."""
    _warn_once(
        f"{path} has {size_bytes:,} bytes, and had at least {named_bytes:,} when the commit {commit} completed: what "
        "it lacks is not read, as in Hudi"
    )


def warn_of_cleaned_file(path: str, commit: str, clean: str) -> None:
    """Warns that a file of a newest file slice is left out, as in Hudi, since a clean of Hudi has deleted it."""
    _warn_once(
        f"{path}: rows that the commit {commit} wrote are lost, as in Hudi: the clean {clean} has deleted the file, "
        "although its file slice is the newest of the file group"
    )


def warn_of_schema_beside_commits(table_path: str, source: str) -> None:
    """Warns that neither a commit on the active timeline nor the properties have a schema, so
    another source is used.
    """
    _warn_once(f"{table_path}: no commit on the active timeline has a schema; the columns are those of {source}")


def warn_of_missing_meta_columns(table_path: str, path: str, names: Iterable[str]) -> None:
    """Warns that a file lacks meta columns, although hoodie.populate.meta.fields is true: they are null, as in Hudi."""
    _warn_of_file(table_path, f"meta columns that {path} lacks are null: {', '.join(names)}")


def warn_of_foreign_rows(table_path: str, path: str, column: str, text: str) -> None:
    """Warns that the meta columns of rows name another file or partition; the rows are returned, as in Hudi."""
    _warn_of_file(
        table_path,
        f"the rows of {path} are those of another file, as their {column} {text!r} says; was it put in the place of "
        "this one?",
    )


def _warn_of_file(table_path: str, message: str) -> None:
    """Warns of a few files of each table alone: of a copied table, thousands may be alike."""
    messages = _messages_of_files[table_path]
    if message in messages or len(messages) > _FILES_NAMED:
        return
    messages.add(message)
    named = message if len(messages) <= _FILES_NAMED else "of more files like these, nothing is said"
    _LOG.warning("%s: %s", masked(table_path), named)


def _warn_once(message: str) -> None:
    if message not in _given:
        _given.add(message)
        _LOG.warning("%s", message)
