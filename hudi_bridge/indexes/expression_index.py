"""Uses the expression indexes of the metadata table that have stats: the ranges of a function's results in each file.

As with column stats, a slice is passed over only if all its files are in the index.

Source: ``ExpressionIndexSupport`` of Hudi.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import pyarrow.compute as pc

from hudi_bridge.errors import HudiReadError
from hudi_bridge.indexes.indexed_functions import FUNCTIONS, IndexedFunction, Range
from hudi_bridge.metadata.data_skipping import splits_with_values
from hudi_bridge.metadata.index_definitions import IndexDefinition
from hudi_bridge.metadata.record_kinds import BLOOM_FILTERS, COLUMN_STATS, EXPRESSION_INDEX
from hudi_bridge.metadata.table import MetadataTable
from hudi_bridge.schema.meta_columns import META_COLUMNS
from hudi_bridge.splits.plan_notes import PlanNotes
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.timeline.table_state import TableState

_LOG = logging.getLogger(__name__)
_SPLITS_AT_ONCE = 4_096
STEP = "expression index"
_NO_FILTERS = f"it is of type {BLOOM_FILTERS}, with which Hudi fails to write logs"
"""Hudi 1.0.2 and 1.2.0: ``IllegalArgumentException: Invalid base file '….log.…' for MetaIndexBloomFilter!``"""


class ExpressionIndexesOfTable:
    """The expression indexes of a table; one that cannot be used is reported once, and passes over no slice.

    They describe files, which do not change, so they serve queries of earlier states too. ``why_not`` says why an index
    cannot be used, by its name.
    """

    def __init__(self, state: TableState, metadata: Callable[[], MetadataTable]) -> None:
        """The indexes of a state, whose metadata table is opened when it is first needed."""
        self.why_not: dict[str, str] = {}
        self._metadata = metadata
        known = state.config.metadata_partitions if state.options.uses_metadata_table else ()
        self._names = [name for name in known if name.startswith(EXPRESSION_INDEX)]

    def splits_that_may_pass(
        self,
        splits: Iterable[RealtimeFileSplit],
        row_filter: pc.Expression,
        columns: Sequence[str],
        context: ReadContext,
        notes: PlanNotes | None = None,
    ) -> Iterator[RealtimeFileSplit]:
        """The splits of which rows may pass a filter that refers to some columns of a query."""
        questions = self._questions(row_filter, columns, context) if self._names else []
        waiting = iter(splits)
        while part := list(islice(waiting, _SPLITS_AT_ONCE)):
            before = len(part)
            for definition, function, wanted in questions:
                part = self._chosen(part, definition, function, wanted)
            if notes is not None and questions:
                notes.counted(STEP, before, len(part))
            yield from part
        if notes is not None:
            for name, reason in self.why_not.items():
                notes.not_used(STEP, f"{name}: {reason}")

    def _questions(
        self, row_filter: pc.Expression, columns: Sequence[str], context: ReadContext
    ) -> list[tuple[IndexDefinition, IndexedFunction, Sequence[Range]]]:
        """The indexes that can be asked, with the ranges of results that may pass."""
        rule = context.merge_rule
        if context.schema_ids is not None or (rule is not None and rule.payload is not None):
            return []
        others = {*META_COLUMNS, *context.path_columns, *dict(context.field_defaults)}
        found = []
        for definition in self._definitions():
            column = definition.source_fields[0] if len(definition.source_fields) == 1 else ""
            if definition.kind == BLOOM_FILTERS and column in columns:
                self.why_not[definition.name] = _NO_FILTERS
            function = FUNCTIONS.get(definition.function)
            if function is None or definition.kind != COLUMN_STATS or column not in columns or column in others:
                continue
            wanted = function.wanted(row_filter, column) if function.takes(context.schema.field(column).type) else None
            if wanted is not None:
                found.append((definition, function, wanted))
        return found

    def _definitions(self) -> list[IndexDefinition]:
        try:
            definitions = self._metadata().definitions
        except HudiReadError as error:
            for name in self._names:
                self.why_not[name] = str(error)
            _LOG.warning("the indexes %s are not used: %s", ", ".join(self._names), error)
            self._names = []
            return []
        return [definitions[name] for name in self._names if name in definitions]

    def _chosen(
        self,
        splits: list[RealtimeFileSplit],
        definition: IndexDefinition,
        function: IndexedFunction,
        wanted: Sequence[Range],
    ) -> list[RealtimeFileSplit]:
        if definition.name not in self._names:
            return splits
        try:
            table = self._metadata()
            table.require(definition.name)
            column = definition.source_fields[0]
            return splits_with_values(table, definition.name, splits, column, function.returns, wanted)
        except HudiReadError as error:
            self._names.remove(definition.name)
            self.why_not[definition.name] = str(error)
            _LOG.warning("the index %s is not used: %s", definition.name, error)
            return splits
