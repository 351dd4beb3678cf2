"""What a table was asked before changes no answer: those of one object in random order are those of a fresh one."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiDataset, HudiReadError, HudiTable
from tests.support.compare import differences
from tests.support.golden_cases import golden_queries, golden_table, spread
from tests.support.strength import one_in

CASES = (
    *spread(sorted({query.case for query in golden_queries(("snapshot",))}), 24),
    "e_drop_part_cols_120",
    "e_null_part_120",
    "e_ts_keygen_0150",
    "e_urlencode_0150",
    "e_urlencode_120",
    "g_sor_mixed_120",
    "h_all_indexes_120",
    "o_custom_text_hive_120",
    "o_odd_enc_hive_120",
    "w_operation_120",
)
QUESTIONS = 24

Answer = pa.Table | str
Question = Callable[[HudiTable], pa.Table]


def queries(table: HudiTable) -> list[Callable[[HudiTable], HudiDataset]]:
    instants = [commit.requested_time for commit in spread(table.timeline.commits(), 3)]
    return [
        HudiTable.snapshot,
        HudiTable.read_optimized,
        partial(HudiTable.incremental, after="earliest"),
        *(
            partial(query, as_of=instant)
            for instant in instants
            for query in (HudiTable.snapshot, HudiTable.read_optimized)
        ),
        *(partial(HudiTable.incremental, after=instant) for instant in instants),
    ]


def read(query: Callable[[HudiTable], HudiDataset], condition: pc.Expression | None, table: HudiTable) -> pa.Table:
    return query(table).to_table(filter=condition)


def looked_up(query: Callable[[HudiTable], HudiDataset], key: str, table: HudiTable) -> pa.Table:
    return query(table).get(key)


class Questions:
    """Draws questions to a table: a query, with values that any query shows, be it spelled otherwise there."""

    def __init__(self, table: HudiTable, chosen: random.Random) -> None:
        answers = [(query, answered(partial(read, query, None), table.refresh())) for query in queries(table)]
        self._asked = [(query, answer) for query, answer in answers if isinstance(answer, pa.Table)]
        self._partition_fields = table.config.partition_fields
        self._chosen = chosen

    def draw(self) -> Question:
        """A query as a whole, with a filter, or for one record key."""
        (query, answer), (_, other) = self._chosen.choice(self._asked), self._chosen.choice(self._asked)
        names = [field.name for field in answer.schema if field in list(other.schema) and _compares(field.type)]
        if not names:
            return partial(read, query, None)
        name = self._chosen.choice([*names, *sorted(set(names).intersection(self._partition_fields)) * len(names)])
        values = list(other[name].unique().drop_null())
        if not values or self._chosen.random() < 0.1:
            return partial(read, query, None)
        value: Any = self._chosen.choice(values)
        if name == "_hoodie_record_key" and self._chosen.random() < 0.5:
            return partial(looked_up, query, value.as_py())
        column: Any = pc.field(name)
        return partial(read, query, self._chosen.choice((column == value, column == value, column < value)))


def _compares(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_float64(kind)


def answered(question: Question, table: HudiTable) -> Answer:
    try:
        return question(table)
    except HudiReadError as error:
        return type(error).__name__


@pytest.mark.heavy
@pytest.mark.parametrize("case", one_in(19, sorted(set(CASES))))
def test_one_table_answers_as_fresh_ones_do(case: str) -> None:
    try:
        table = HudiTable.open(golden_table(case))
    except HudiReadError:
        return
    chosen = random.Random(case)
    questions = Questions(table, chosen)
    for question in (questions.draw() for _ in range(QUESTIONS)):
        expected = answered(question, HudiTable.open(golden_table(case)))
        answer = answered(question, table)
        if isinstance(expected, pa.Table) and isinstance(answer, pa.Table):
            assert differences(expected, answer) == []
        else:
            assert answer == expected
        table = table.refresh() if chosen.random() < 0.1 else table
