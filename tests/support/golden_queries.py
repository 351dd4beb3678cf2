"""The queries of the golden tables by case and number, what is asked for each, and Hudi's answers."""

import json
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiDataset, HudiTable
from tests.support.golden_cases import CHANGE_KINDS, ROW_KINDS, GoldenQuery, golden_group, golden_queries, spread

Key = tuple[str, int]
"""A case and the place of a query in it."""


def query_id(key: Key) -> str:
    return QUERIES[key].name


QUERIES = {(query.case, query.index): query for query in golden_queries((*ROW_KINDS, *CHANGE_KINDS))}
CASES = {case for case, _ in QUERIES}


def chosen_cases(cases: Iterable[str], cases_per_group: int) -> set[str]:
    """Some cases of each group, spread over it."""
    groups: dict[str, list[str]] = defaultdict(list)
    for case in sorted(cases):
        groups[golden_group(case)].append(case)
    return {name for names in groups.values() for name in spread(names, cases_per_group)}


def representative(keys: Iterable[Key], cases_per_group: int) -> list[Key]:
    """Of some queries, the first of each kind to some cases of each group."""
    keys = sorted(keys)
    chosen = chosen_cases({case for case, _ in keys}, cases_per_group)
    first: dict[tuple[str, str], Key] = {}
    for key in keys:
        if key[0] in chosen:
            first.setdefault((key[0], QUERIES[key].kind), key)
    return sorted(first.values())


def parametrize_keys(metafunc: pytest.Metafunc, keys: Iterable[Key], cases_per_group: int) -> None:
    """Ask all queries with ``--matrix``, otherwise ``representative`` ones."""
    is_matrix = metafunc.config.getoption("--matrix")
    metafunc.parametrize("key", sorted(keys) if is_matrix else representative(keys, cases_per_group), ids=query_id)


@lru_cache(maxsize=2)
def open_table(path: Path) -> HudiTable:
    return HudiTable.open(str(path))


def dataset_of(query: GoldenQuery, table: HudiTable | None = None) -> HudiDataset:
    table = table or open_table(query.table)
    if query.kind == "incremental":
        return table.incremental(query.after, query.up_to)
    if query.kind in CHANGE_KINDS:
        return table.changes(query.after, query.up_to, format="cdc")
    return table.read_optimized() if query.kind == "read_optimized" else table.snapshot(query.as_of)


def answer_of(query: GoldenQuery) -> pa.Table:
    assert query.answer is not None
    return pq.read_table(query.answer)


def rows_through_arrow(dataset: HudiDataset, query: GoldenQuery) -> pa.Table:
    return dataset.to_table(filter=query.expression)


def parsed(image: str | None) -> str | None:
    """An image whatever the order of its fields, and whether or not it says which of them are null."""
    fields = json.loads(image or "null")
    return fields and json.dumps({name: value for name, value in fields.items() if value is not None}, sort_keys=True)
