"""The versions of one record key in files, as values."""

from dataclasses import dataclass

import pyarrow as pa

from hudi_bridge.plain_values import is_nested, to_json, values_as_text
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordVersion:
    """One version of a record: a row of a base file, or a record of a log block.

    ``instant_time`` is that of the base file or of the block. ``block_number`` counts the blocks of the log file from
    1; ``offset`` is the byte at which the block starts. Both are None for a base row. ``ordering`` is empty if the
    merge rule compares no ordering value. ``delete`` is what makes the version a delete, None if it is not one.
    ``absent`` names the columns of ``row`` that a partial update left out. ``row`` has one row, or none if the version
    is in a delete block. ``is_delete``, ``always_deletes`` and ``marked`` are as in ``merge.log_records``.

    Part of a ``FileGroupHistory``.
    """

    instant_time: str
    path: str
    block_number: int | None
    offset: int | None
    ordering: tuple[object, ...]
    delete: str | None
    is_partial: bool
    absent: frozenset[str]
    is_delete: bool
    always_deletes: bool
    marked: bool
    row: pa.Table

    @property
    def is_base_row(self) -> bool:
        """Whether the version is in a base file."""
        return self.block_number is None

    @property
    def kind(self) -> str:
        """The kind of the version, in at most two words."""
        if self.is_base_row:
            return "base row"
        if self.delete is not None:
            return "delete"
        return "partial update" if self.is_partial else "log row"

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns that the version has values of: none in a delete block, in a partial update those it sets."""
        names = self.row.schema.names if self.row.num_rows else ()
        return tuple(name for name in names if name not in self.absent)

    @property
    def commit_time(self) -> str | None:
        """The commit that last wrote the row; None for a delete block and in a table without meta columns."""
        if not self.row.num_rows or COMMIT_TIME_COLUMN not in self.row.schema.names:
            return None
        value: str | None = self.row.column(COMMIT_TIME_COLUMN)[0].as_py()
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class UncountedVersion:
    """A version that a snapshot does not see, and the reason.

    Its ``row`` has only the columns that merging needs if its block has others that cannot be read.

    Part of a ``FileGroupHistory``.
    """

    version: RecordVersion
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadablePlace:
    """A damaged place in a log file that may have had the key; ``offset`` is None for the whole file.

    Part of a ``FileGroupHistory``.
    """

    path: str
    offset: int | None
    reason: str

    def text(self, shown_path: str | None = None) -> str:
        """The place and what is wrong with it; ``shown_path`` is what to call the file, by default its path."""
        where = "" if self.offset is None else f" at byte {self.offset:,}"
        return f"{shown_path or self.path}{where}: {self.reason}"


def shown_values(row: pa.Table) -> dict[str, str]:
    """The values of a table of one row as text for display, by column."""
    values = {field.name: values_as_text(row.column(field.name).combine_chunks())[0] for field in row.schema}
    return {
        name: to_json(value) if is_nested(row.schema.field(name).type) and value is not None else value_text(value)
        for name, value in values.items()
    }


def value_text(value: object) -> str:
    """A value as text for display."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return value.hex() if isinstance(value, bytes) else str(value)


def ordering_text(values: tuple[object, ...]) -> str:
    """Ordering values as text for display, in parentheses if there are several."""
    texts = [value_text(value) for value in values]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
