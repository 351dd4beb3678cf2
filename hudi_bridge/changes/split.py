"""The splits of a change query. Like other splits, they can be pickled or written as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.config import QueryType
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.schema.meta_columns import COMPLETION_TIME_COLUMN, own_columns
from hudi_bridge.splits.split import (
    ReadContext,
    RealtimeFileSplit,
    context_from_json,
    context_to_json,
    split_of_text,
    split_text,
)

OPERATION, INSTANT, BEFORE, AFTER = "op", "ts_ms", "before", "after"
"""The columns of changes, by Hudi's names."""

_KIND = "changes"


class ChangeFormat(StrEnum):
    """The format of images: structs of the table's columns, or Hudi's JSON texts."""

    ROWS = "rows"
    CDC = "cdc"


def change_schema(image: pa.Schema, change_format: ChangeFormat) -> pa.Schema:
    """The columns of changes to a table with the given columns.

    The completion time of the commit is a column of the change, and not of its images.
    """
    position = image.get_field_index(COMPLETION_TIME_COLUMN)
    more = () if position < 0 else (image.field(position),)
    image = image if position < 0 else image.remove(position)
    kind = pa.string() if change_format is ChangeFormat.CDC else pa.struct(list(image))
    columns = ((OPERATION, pa.string()), (INSTANT, pa.string()), (BEFORE, kind), (AFTER, kind))
    return pa.schema([*(pa.field(name, column) for name, column in columns), *more])


def change_context(image: ReadContext, change_format: ChangeFormat) -> ReadContext:
    """The context of changes whose images are read with the context ``image``."""
    schema = image.schema
    if image.completion_times is not None:
        schema = schema.append(pa.field(COMPLETION_TIME_COLUMN, pa.string()))
    return replace(image, schema=change_schema(schema, change_format), query_type=QueryType.CHANGES)


def own_images(schema: pa.Schema) -> dict[str, pc.Expression]:
    """The columns of changes as expressions that leave meta columns out of the images.

    Raises:
        QueryError: the images are JSON, as in Hudi's queries.
    """
    columns = {name: pc.field(name) for name in schema.names}
    for name in (BEFORE, AFTER):
        kind: Any = schema.field(name).type
        if not pa.types.is_struct(kind):
            raise QueryError("meta_columns", "False for images that are JSON", f"the format {ChangeFormat.ROWS}")
        names = own_columns(field.name for field in kind)
        image = pc.make_struct(*(pc.field(name, field) for field in names), field_names=names)
        missing = pa.scalar(None, pa.struct([kind.field(field) for field in names]))
        columns[name] = pc.if_else(pc.field(name).is_valid(), image, missing)
    return columns


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """The change of one file group.

    ``before`` and ``after`` are its slices, None if it did not exist yet or no longer exists. ``instant`` is the last
    commit that changed it. ``cdc_paths`` are the change data files of the changes; if empty, the slices are compared.

    Part of a ``ChangeSplit``.
    """

    instant: str
    before: RealtimeFileSplit | None
    after: RealtimeFileSplit | None
    cdc_paths: tuple[str, ...] = ()

    @property
    def slices(self) -> tuple[RealtimeFileSplit, ...]:
        """The slices before and after that exist."""
        return tuple(split for split in (self.before, self.after) if split is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSplit:
    """File groups whose changes are found together, because records may have moved between them.

    Attributes:
        image: the context with which the slices are read, with the columns of the images.
        change_format: the format of the images.
        commit_times: the commits whose changes are returned; None for all, so that rows name them.
        digits: whether the JSON of decimals has their digits, which Hudi loses.
        groups: the changes of each file group.

    Made by ``HudiDataset.splits`` of ``HudiTable.changes``, and by ``from_json``.
    """

    image: ReadContext
    change_format: ChangeFormat
    commit_times: frozenset[str] | None
    digits: bool
    groups: tuple[GroupChange, ...]

    @property
    def context(self) -> ReadContext:
        """The context of the slices, with the columns of changes."""
        return change_context(self.image, self.change_format)

    @property
    def slices(self) -> tuple[RealtimeFileSplit, ...]:
        """All file slices of the split."""
        return tuple(split for group in self.groups for split in group.slices)

    def to_json(self) -> str:
        """The split, with its context, as JSON text; raises like ``RealtimeFileSplit.to_json``."""
        groups = [
            {
                "instant": group.instant,
                "before": None if group.before is None else group.before.to_json(),
                "after": None if group.after is None else group.after.to_json(),
                "cdc_paths": group.cdc_paths,
            }
            for group in self.groups
        ]
        split = {field.name: getattr(self, field.name) for field in fields(self)}
        split |= {
            "image": context_to_json(self.image),
            "commit_times": None if self.commit_times is None else sorted(self.commit_times),
            "groups": groups,
        }
        return split_text(_KIND, split)

    @classmethod
    def from_json(cls, text: str, payloads: Mapping[str, RecordPayload] | None = None) -> Self:
        """The split that ``to_json`` wrote; ``payloads`` are a user's own, as for ``HudiTable.open``.

        Raises:
            QueryError: the text is not such a split, or needs a payload that is not given.
        """
        with split_of_text(text, _KIND, cls.__name__) as split:
            commit_times = split["commit_times"]
            return cls(
                image=context_from_json(split["image"], payloads or {}),
                change_format=ChangeFormat(split["change_format"]),
                commit_times=None if commit_times is None else frozenset(commit_times),
                digits=bool(split["digits"]),
                groups=tuple(_group(group, payloads) for group in split["groups"]),
            )


def _group(document: dict[str, Any], payloads: Mapping[str, RecordPayload] | None) -> GroupChange:
    before, after = document["before"], document["after"]
    return GroupChange(
        instant=document["instant"],
        before=None if before is None else RealtimeFileSplit.from_json(before, payloads),
        after=None if after is None else RealtimeFileSplit.from_json(after, payloads),
        cdc_paths=tuple(document["cdc_paths"]),
    )
