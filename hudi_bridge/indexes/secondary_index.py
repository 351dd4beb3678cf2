"""The secondary index of the metadata table: from a value of a column to record keys, then to their file groups.

A record is its key alone, ``value$record key``, with a backslash before each backslash, dollar and null character of
both. A null value is a null character. Since 1.1 the value alone decides on the file group, before it the whole key.

Hudi keeps the index for the merged rows of the newest snapshot. It is not used where rows may have other values than
Hudi's writer saw: columns with ids or defaults, and payloads of the user. Nor is it trusted blindly. Hudi 1.2 updates
only one of several secondary indexes of a table, and does not enter the rows of ``bulk_insert``, which its own queries
then miss. So the index is used only if it is alone, and if the active timeline shows that all writes since its creation
entered their rows.

Source: ``SecondaryIndexSupport``, ``HoodieBackedTableMetadata.readSecondaryIndexLocationsWithKeys`` and
``SecondaryIndexKeyUtils`` of Hudi.
"""

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.caching import cached_property
from hudi_bridge.common.threads import REQUESTS_AT_ONCE, map_in_threads
from hudi_bridge.errors import CorruptTableError
from hudi_bridge.indexes.candidates import RecordIndex
from hudi_bridge.indexes.metadata_table import INDEX_ERRORS, IndexDefinition, IndexPartition, MetadataTable
from hudi_bridge.indexes.record_kinds import KEY, RECORD_INDEX, SECONDARY_INDEX
from hudi_bridge.merge.arrays import Column
from hudi_bridge.readers.filters import allowed_values
from hudi_bridge.splits.notes import PlanNotes
from hudi_bridge.splits.split import ReadContext
from hudi_bridge.timeline.instant import Action
from hudi_bridge.timeline.instant_files import GroupId, read_commit_metadata, read_indexing_plan
from hudi_bridge.timeline.timeline import TableState

_SPECIAL = re.compile(r"([\\$\0])")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_PARTS = re.compile(r"(?P<value>(?:[^\\$]|\\.)*)\$(?P<key>.*)", re.DOTALL)
_LOG = logging.getLogger(__name__)
_MOST_VALUES = 1_000
_MOST_KEYS = 100_000
"""A value that more records have is not looked for: they are everywhere."""
_KIND = "secondary_index"
STEP = "secondary index"
_FIRST_VERSION = "V1"
_ENTERED = frozenset(("UPSERT", "UPSERT_PREPPED", "INSERT", "DELETE", "DELETE_PARTITION", "COMPACT", "CLUSTER"))
"""The operations of writes after which the index has all rows: they enter them, or none are new.

A log compaction is none of them, as it takes keys out of the record index that have rows in other file groups.
"""


def keys_with_values(table: MetadataTable, partition: str, values: Iterable[str], *, by_value: bool) -> list[str]:
    """The record keys that have one of the values; ``by_value`` is whether values determine the file group.

    Raises:
        CorruptTableError: the index is damaged.
        StorageError: it cannot be read.
    """
    prefixes = {value: _SPECIAL.sub(r"\\\1", value) + "$" for value in values}
    # Of what releases hash a part is escaped, and has the dollar, or is not and has not.
    hashed = [(value, prefix, prefix[:-1]) for value, prefix in prefixes.items()] if by_value else None
    records = table.of_prefixes(partition, list(prefixes.values()), hashed)
    return [_record_key(partition, str(key)) for key in records.column(KEY).to_pylist()]


def stored_keys(values: Column, keys: Column) -> Column:
    """The records of an index for the values of rows, as text and not null, and their record keys."""
    parts: list[Any] = [pc.replace_substring_regex(texts, r"([\\$\x00])", r"\\\1") for texts in (values, keys)]
    joined: Column = pc.binary_join_element_wise(*parts, "$")
    return joined


def _record_key(partition: str, stored: str) -> str:
    parts = _PARTS.fullmatch(stored)
    if parts is None:
        raise CorruptTableError(partition, None, f"a key {stored!r}", "a value, a dollar and a record key")
    return _ESCAPED.sub(r"\1", parts["key"])


class SecondaryIndexOfTable:
    """The secondary index of a table in its newest state. If it cannot be used, this is reported once.

    ``why_not`` has the reason by the name of the index.
    """

    def __init__(self, state: TableState, metadata: Callable[[], MetadataTable], record_index: RecordIndex) -> None:
        """The index of a state, whose metadata table is opened when it is first needed."""
        self.why_not: dict[str, str] = {}
        self._state = state
        self._metadata = metadata
        self._record_index = record_index
        partitions = state.config.metadata_partitions if state.options.uses_metadata_table else ()
        self._names = (
            [name for name in partitions if name.startswith(SECONDARY_INDEX)] if RECORD_INDEX in partitions else []
        )

    def file_groups(
        self, row_filter: pc.Expression, columns: Sequence[str], context: ReadContext, notes: PlanNotes | None = None
    ) -> AbstractSet[GroupId] | None:
        """The partition path and file id of all groups with rows that may pass; None if the index cannot answer."""
        groups = self._asked(row_filter, columns, context)
        if notes is not None:
            for name, reason in self.why_not.items():
                notes.not_used(STEP, f"{name}: {reason}")
        return groups

    def _asked(
        self, row_filter: pc.Expression, columns: Sequence[str], context: ReadContext
    ) -> AbstractSet[GroupId] | None:
        if not self._names or self._index.why_not is not None or not _has_rows_of_the_index(context):
            return None
        definition = self._definition
        if definition is None or definition.source_fields[0] not in columns:
            return None
        column = definition.source_fields[0]
        values = _texts(allowed_values(row_filter, column), column, context)
        return None if values is None else self._groups(definition, values)

    def _groups(self, definition: IndexDefinition, values: Sequence[str]) -> AbstractSet[GroupId] | None:
        name = definition.name

        def keys_of(table: MetadataTable) -> list[str] | None:
            if self._may_lack_rows is not None:
                self._index.give_up(self._may_lack_rows)
                return None
            by_value = definition.version is not None and definition.version != _FIRST_VERSION
            return keys_with_values(table, name, values, by_value=by_value)

        keys = self._index.ask(keys_of)
        return None if keys is None or len(keys) > _MOST_KEYS else self._record_index.file_groups(keys)

    @cached_property
    def _definition(self) -> IndexDefinition | None:
        """The only index of the table that can be used."""
        try:
            definitions = self._metadata().definitions
        except INDEX_ERRORS as error:
            self._index.give_up(str(error))
            return None
        if len(self._names) > 1:
            self._index.give_up(f"the table has others: {', '.join(self._names[1:])}")
            return None
        definition = definitions.get(self._names[0])
        if definition is None or definition.kind != _KIND or len(definition.source_fields) != 1:
            self._index.give_up("what it is made of is not known")
            return None
        return definition

    @cached_property
    def _index(self) -> IndexPartition:
        return IndexPartition(self._metadata, self._names[0], None, partial(self._report, self._names[0]))

    @cached_property
    def _may_lack_rows(self) -> str | None:
        """Why the index may lack rows, None if it has all."""
        state, timeline = self._state, self._state.timeline
        indexings = [instant for instant in timeline.completed() if instant.action is Action.INDEXING]
        plans = map_in_threads(partial(read_indexing_plan, state), indexings, REQUESTS_AT_ONCE) if indexings else []
        built = [
            (instant, plan[self._names[0]])
            for instant, plan in zip(indexings, plans, strict=True)
            if self._names[0] in plan
        ]
        if not built:
            return "the active timeline does not tell when it was made"
        indexing, up_to = built[-1]
        later = [
            commit
            for commit in timeline.commits()
            if commit.requested_time > up_to or (commit.completion_time or "") > indexing.requested_time
        ]
        written = map_in_threads(partial(read_commit_metadata, state), later, REQUESTS_AT_ONCE) if later else []
        for commit, metadata in zip(later, written, strict=True):
            if metadata.operation_type not in _ENTERED:
                return f"{metadata.operation_type} at {commit.requested_time} may not have entered its rows"
        return None

    def _report(self, name: str, reason: str) -> None:
        self.why_not[name] = reason
        _LOG.warning("the index %s is not used: %s", name, reason)


def _has_rows_of_the_index(context: ReadContext) -> bool:
    rule = context.merge_rule
    return context.schema_ids is None and context.populates_meta_fields and (rule is None or rule.payload is None)


def _texts(values: "Column | None", column: str, context: ReadContext) -> list[str] | None:
    """Values as the index writes them; None if there are too many, or if they might be written otherwise."""
    if values is None or len(values) > _MOST_VALUES or column in dict(context.field_defaults):
        return None
    kind = context.schema.field(column).type
    is_text = pa.types.is_string(kind) and (pa.types.is_string(values.type) or pa.types.is_large_string(values.type))
    is_number = kind in (pa.int32(), pa.int64()) and pa.types.is_integer(values.type)
    return [str(value) for value in values.to_pylist()] if is_text or is_number else None
