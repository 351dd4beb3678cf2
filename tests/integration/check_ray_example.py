"""Reads tables with examples/ray_datasource.py: ``check_ray_example.py FOLDER``, which it writes to."""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
from ray.data.expressions import col
from ray_datasource import HudiDatasource, read_hudi

from hudi_bridge import HudiTable
from tests.integration.example_tables import EMPTY, FIRST, STORY, answers, keys_of_part_a, numbers
from tests.support.compare import differences
from tests.support.golden_cases import golden_table


def check(folder: Path) -> None:
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)

    def ids_of(dataset: Any) -> list[str]:
        return sorted(row["id"] for row in dataset.take_all())

    def rows_of(dataset: Any) -> pa.Table:
        return pa.concat_tables(ray.get(dataset.to_arrow_refs()), promote_options="default")

    table = HudiTable.open(golden_table(STORY))
    assert differences(answers(table), rows_of(read_hudi(table))) == []
    assert read_hudi(table).schema().names == table.schema.names
    assert read_hudi(str(golden_table(STORY)), FIRST).count() == 60
    assert read_hudi(table).count() == 65
    assert read_hudi(HudiTable.open(golden_table(EMPTY))).count() == 0

    found = read_hudi(table).filter(expr=col("part") == "a").select_columns(["id"]).materialize()
    assert sorted(found.take_all(), key=str) == [{"id": key} for key in sorted(keys_of_part_a(table))]
    # All is done by the tasks that read.
    assert "Filter" not in found.stats()
    assert "Project" not in found.stats()
    source = HudiDatasource(table).apply_predicate(col("part") == "a").apply_projection({"id": "id"})
    tasks = source.get_read_tasks(1)
    assert 0 < len(tasks) < len(HudiDatasource(table).get_read_tasks(1))
    assert {name for task in tasks for block in task() for name in block.schema.names} == {"id"}

    few = numbers(folder)
    held = ray.data.from_arrow(answers(few))
    for condition in (
        col("x") > 1,
        col("x") <= 1,
        ~(col("x") > 1),
        col("x") != 1.0,
        col("x") == 0.0,
        col("x").is_null(),
        col("x").is_in([0.0, 5.0, None]),
        col("n") + 1 > 2,
        (col("n") > 1) | (col("x") > 4),
    ):
        ours, theirs = (ids_of(one.filter(expr=condition)) for one in (read_hudi(few), held))
        assert ours == theirs, (condition, ours, theirs)
    ray.shutdown()


if __name__ == "__main__":
    check(Path(sys.argv[1]))
