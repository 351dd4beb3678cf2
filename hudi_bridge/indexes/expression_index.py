r"""Rules out file slices by expression indexes: the ranges of a function's results in each file.

As with column stats, a slice is ruled out only if all its files are in the index. The results have to follow from the
filter: it compares, by ``=`` or ``IN``, Arrow's function of the same meaning or the column itself.

Spark writes the index, and differs from Arrow in letters outside of ASCII, by the language of the writer. A text in
ASCII has the same result in both. An ASCII result of Arrow may come from a text outside of ASCII, with ``\u0130`` for
``i`` or ``\u0131`` for ``I``, which Spark may leave or turn into another letter: ``FUNCTIONS`` widen their ranges by
that. Results that depend on the writer's time zone (of times, ``from_unixtime``) follow from no filter.

Source: ``ExpressionIndexSupport`` of Hudi.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.indexes.data_skipping import in_batches, splits_with_values
from hudi_bridge.indexes.metadata_table import INDEX_ERRORS, IndexDefinition, IndexPartition, MetadataTable
from hudi_bridge.indexes.record_kinds import BLOOM_FILTERS, COLUMN_STATS, EXPRESSION_INDEX
from hudi_bridge.merge.arrays import Column
from hudi_bridge.readers.filters import allowed_results, allowed_values
from hudi_bridge.schema.meta_columns import COMPLETION_TIME_COLUMN, META_COLUMNS
from hudi_bridge.splits.notes import PlanNotes
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.timeline.timeline import TableState

Range = tuple[Any, Any]
"""The least and the greatest result, both included."""
_LOG = logging.getLogger(__name__)
STEP = "expression index"
_NO_FILTERS = f"it is of type {BLOOM_FILTERS}, with which Hudi fails to write logs"
"""Hudi 1.0.2 and 1.2.0: ``IllegalArgumentException: Invalid base file '….log.…' for MetaIndexBloomFilter!``"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedFunction:
    """A function over a column of the type that ``takes`` says, whose results have a type.

    ``of_value`` is the result for a value, ``of_result`` the range of what the index may have for a result of one of
    the functions of ``arrow``; each is None if it is not known.
    """

    takes: Callable[[pa.DataType], bool]
    returns: pa.DataType
    arrow: tuple[str, ...]
    of_value: Callable[[Any], Any]
    of_result: Callable[[Any], Range | None]

    def result_ranges(self, row_filter: pc.Expression, column: str) -> Sequence[Range] | None:
        """The ranges among which is the result of every row passing the filter; None if they are not known."""
        values = allowed_values(row_filter, column)
        if values is not None:
            results = [self.of_value(value) for value in _plain(values)]
            return None if None in results else [(result, result) for result in results]
        for name in self.arrow:
            allowed = allowed_results(row_filter, name, column)
            if allowed is not None:
                ranges = [self.of_result(value) for value in _plain(allowed)]
                return None if None in ranges else [result for result in ranges if result is not None]
        return None


def _plain(values: Column) -> list[Any]:
    try:
        return list(values.to_pylist())
    except (ValueError, OverflowError):
        # A date that Python does not have.
        return [None]


def _in_case(change: Callable[[str], str], letter: str, greatest: str) -> tuple[Callable[[Any], Any], Any]:
    """The results for values and for results; Spark may have up to ``greatest`` for a letter of Arrow's result."""

    def of_value(value: object) -> str | None:
        return change(value) if isinstance(value, str) and value.isascii() else None

    def of_result(value: object) -> Range | None:
        return (value, value.replace(letter, greatest)) if isinstance(value, str) and value.isascii() else None

    return of_value, of_result


def _part_of_date(name: str) -> IndexedFunction:
    return IndexedFunction(
        takes=pa.types.is_date32,
        returns=pa.int32(),
        arrow=(name,),
        of_value=lambda value: getattr(value, name, None),
        of_result=_number,
    )


def _number(value: object) -> Range | None:
    return (value, value) if isinstance(value, int) and not isinstance(value, bool) else None


def _text_function(arrow: tuple[str, ...], functions: tuple[Callable[[Any], Any], Any]) -> IndexedFunction:
    of_value, of_result = functions
    return IndexedFunction(
        takes=pa.types.is_string, returns=pa.string(), arrow=arrow, of_value=of_value, of_result=of_result
    )


FUNCTIONS: Mapping[str, IndexedFunction] = {
    "lower": _text_function(("utf8_lower", "ascii_lower"), _in_case(str.lower, "i", "\u0131")),
    "upper": _text_function(("utf8_upper", "ascii_upper"), _in_case(str.upper, "I", "\u0130")),
    "year": _part_of_date("year"),
    "month": _part_of_date("month"),
    "day": _part_of_date("day"),
}
"""The functions by Hudi's names."""


class ExpressionIndexesOfTable:
    """The expression indexes of a table; one that cannot be used is reported once, and passes over no slice.

    They describe files, which do not change, so they serve queries of earlier states too. ``why_not`` says why an index
    cannot be used, by its name.
    """

    def __init__(self, state: TableState, metadata: Callable[[], MetadataTable]) -> None:
        """The indexes of a state, whose metadata table is opened when it is first needed."""
        self.why_not: dict[str, str] = {}
        self._metadata = metadata
        self._indexes: dict[str, IndexPartition] = {}
        partitions = state.config.metadata_partitions if state.options.uses_metadata_table else ()
        self._names = [name for name in partitions if name.startswith(EXPRESSION_INDEX)]

    def splits_that_may_pass(
        self,
        splits: Iterable[RealtimeFileSplit],
        row_filter: pc.Expression,
        columns: Sequence[str],
        context: ReadContext,
        notes: PlanNotes | None = None,
    ) -> Iterator[RealtimeFileSplit]:
        """The splits whose rows may pass a filter that refers to some columns of a query."""
        questions = self._questions(row_filter, columns, context) if self._names else []
        for batch in in_batches(splits):
            part = batch
            before = len(part)
            for definition, function, ranges in questions:
                part = self._select(part, definition, function, ranges)
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
        others = {*META_COLUMNS, COMPLETION_TIME_COLUMN, *context.path_columns, *dict(context.field_defaults)}
        questions = []
        for definition in self._definitions():
            column = definition.source_fields[0] if len(definition.source_fields) == 1 else ""
            if definition.kind == BLOOM_FILTERS and column in columns:
                self.why_not[definition.name] = _NO_FILTERS
            function = FUNCTIONS.get(definition.function)
            if function is None or definition.kind != COLUMN_STATS or column not in columns or column in others:
                continue
            ranges = (
                function.result_ranges(row_filter, column)
                if function.takes(context.schema.field(column).type)
                else None
            )
            if ranges is not None:
                questions.append((definition, function, ranges))
        return questions

    def _definitions(self) -> list[IndexDefinition]:
        try:
            definitions = self._metadata().definitions
        except INDEX_ERRORS as error:
            for name in self._names:
                self._report(name, str(error))
            self._names = []
            return []
        return [definitions[name] for name in self._names if name in definitions]

    def _select(
        self,
        splits: list[RealtimeFileSplit],
        definition: IndexDefinition,
        function: IndexedFunction,
        ranges: Sequence[Range],
    ) -> list[RealtimeFileSplit]:
        name, column = definition.name, definition.source_fields[0]
        if name not in self._indexes:
            self._indexes[name] = IndexPartition(self._metadata, name, None, partial(self._report, name))
        chosen = self._indexes[name].ask(
            lambda table: splits_with_values(table, name, splits, column, function.returns, ranges)
        )
        return splits if chosen is None else chosen

    def _report(self, name: str, reason: str) -> None:
        self.why_not[name] = reason
        _LOG.warning("the index %s is not used: %s", name, reason)
