"""Tables as datasets of Ray Data."""

import pickle
from collections.abc import Iterator
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import ray
from ray.data.expressions import col

from hudi_bridge import QueryError
from hudi_bridge.connectors.ray import HudiDatasource, read
from hudi_bridge.schema.meta_columns import own_columns
from tests.connectors.worker_tables import (
    EMPTY,
    FIRST,
    STORY,
    answers,
    arguments_of,
    ask_golden_tables,
    keys_of_part_a,
    numbers,
    query_of,
    story,
)
from tests.support.compare import differences
from tests.support.golden_cases import OPERATORS, golden_table
from tests.support.golden_queries import QUERIES, Key, answer_of


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    ask_golden_tables(metafunc, cases_per_group=1)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """One worker, without a token in the home of whoever tests, and without telling anybody of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
        yield
        ray.shutdown()


def rows_of(dataset: Any) -> pa.Table:
    # Ray drops blocks without rows, and with them the columns, which only its schema has then.
    tables = ray.get(dataset.to_arrow_refs()) or [dataset.schema().base_schema.empty_table()]
    return pa.concat_tables(tables, promote_options="default")


def ids_of(dataset: Any) -> list[str]:
    return sorted(row["id"] for row in dataset.take_all())


@pytest.mark.engine("ray")
def test_rows_are_those_of_hudi(key: Key) -> None:
    query = QUERIES[key]
    dataset = read(query.table, **arguments_of(query))
    if query.comparisons:
        compared = [OPERATORS[sign](col(name), value) for name, sign, value in query.comparisons]
        rows = rows_of(dataset.filter(expr=reduce(and_, compared)))
    else:
        rows = query.passing(rows_of(dataset))
    assert differences(answer_of(query), rows) == []


def test_rows_are_counted() -> None:
    assert read(story()).schema().names == story().schema.names
    assert read(str(golden_table(STORY)), as_of=FIRST).count() == 60
    assert read(story()).count() == 65
    assert read(golden_table(EMPTY)).count() == 0


def test_columns_and_conditions_are_passed_on() -> None:
    table = story()
    rows = read(table).filter(expr=col("part") == "a").select_columns(["id"]).materialize()
    assert sorted(row["id"] for row in rows.take_all()) == keys_of_part_a(table)
    assert "Filter" not in rows.stats()
    assert "Project" not in rows.stats()
    source = HudiDatasource(query_of(table)).apply_predicate(col("part") == "a").apply_projection({"id": "id"})
    (task,) = source.get_read_tasks(1)
    assert {name for block in task() for name in block.schema.names} == {"id"}
    (all_rows,) = HudiDatasource(query_of(table)).get_read_tasks(1)
    assert 0 < len(task.read_fn.args[0].splits) < len(all_rows.read_fn.args[0].splits)


def test_columns_are_chosen() -> None:
    assert read(story(), ["part", "id"]).schema().names == ["part", "id"]
    assert rows_of(read(story(), meta_columns=False)).column_names == own_columns(story().schema.names)
    with pytest.raises(QueryError, match="columns"):
        read(story(), ["nothing"])


@pytest.mark.parametrize(
    "condition",
    [
        col("x") > 1,
        col("x") <= 1,
        ~(col("x") > 1),
        col("x") != 1.0,
        col("x") == 0.0,
        col("x").is_null(),
        col("x").is_in([0.0, 5.0, None]),
        col("n") + 1 > 2,
        (col("n") > 1) | (col("x") > 4),
    ],
    ids=str,
)
def test_conditions_mean_what_they_mean_to_ray(condition: Any, tmp_path: Path) -> None:
    table = numbers(tmp_path)
    in_ray = ray.data.from_arrow(answers(table))
    assert ids_of(read(table).filter(expr=condition)) == ids_of(in_ray.filter(expr=condition))


def test_a_source_and_its_tasks_can_be_pickled() -> None:
    source = pickle.loads(pickle.dumps(HudiDatasource(query_of(story()))))
    tasks = pickle.loads(pickle.dumps(source.get_read_tasks(4)))
    assert sum(block.num_rows for task in tasks for block in task()) == 65


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(QueryError, match="hoodie"):
        read(golden_table(STORY), options={"hoodie.no.such": "1"})
    with pytest.raises(QueryError, match="read_optimized"):
        read(story(), after=FIRST, read_optimized=True)
