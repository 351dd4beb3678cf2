"""Views of DuckDB, which scans base files itself, have the rows of Arrow's answer, whatever is asked of them."""

import random
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge import HudiTable
from hudi_bridge.connectors.duckdb import READ_OPTIMIZED, attach
from hudi_bridge.connectors.duckdb.dialect import from_arrow
from tests.connectors.predicates import random_condition, terms_of
from tests.properties import histories
from tests.properties.filtered_tables import TABLES, tables, write
from tests.properties.histories import STEPS, History, Step
from tests.support.compare import differences
from tests.support.strength import examples, one_in
from tests.support.table_writer import TableWriter

CONDITIONS = 4


@pytest.mark.parametrize("name", one_in(3, TABLES))
def test_conditions_mean_what_they_mean_on_rows_in_memory(name: str) -> None:
    @settings(max_examples=examples(5), deadline=None)
    @given(pieces=tables(), seed=st.integers(0, 1 << 32))
    def check(pieces: Any, seed: int) -> None:
        choice = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
            table = write(Path(folder), name, pieces).open()
            attached = attach(connection, table, "live")
            assert all(plan.is_native for plan in attached.plan().values())
            for view, dataset in (("live", table.snapshot()), ("live" + READ_OPTIMIZED, table.read_optimized())):
                rows = dataset.to_table()
                # On a table of its own, DuckDB 2.0 finds a null field of a struct in any list of values.
                from_arrow(connection, rows).create_view("rows", replace=True)
                terms = terms_of(rows)
                for condition in ["true", *(random_condition(terms, choice) for _ in range(CONDITIONS))]:
                    query = f"SELECT * FROM {{}} WHERE {condition} ORDER BY ALL"
                    actual, expected = (
                        str(connection.execute(query.format(item)).fetchall()) for item in (view, "rows")
                    )
                    assert actual == expected, condition

    check()


@pytest.mark.parametrize("is_in_folder", one_in(2, [False, True]))
@pytest.mark.parametrize("name", one_in(3, histories.TABLES))
def test_views_follow_a_table_and_merge_again_what_has_changed(name: str, *, is_in_folder: bool) -> None:
    version, options = histories.TABLES[name]

    @settings(max_examples=examples(3), deadline=None)
    @given(steps=STEPS)
    def check(steps: list[Step]) -> None:
        with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
            writer = TableWriter(
                folder=Path(folder) / "t",
                version=version,
                fields=histories.FIELDS,
                partition_fields=("part",),
                options=options,
            ).create()
            cache = Path(folder) / "cache" if is_in_folder else None
            history = History(writer=writer)
            history.take(None)
            attached = attach(connection, writer.folder, "live", cache=cache)
            for step in steps:
                if step.kind == "forget":
                    attached = attach(connection, writer.folder, "live", cache=cache)
                    continue
                history.take(step)
                attached.refresh()
                expected = HudiTable.open(writer.folder).snapshot().to_table()
                assert differences(expected, connection.sql("FROM live").to_arrow_table()) == []

    check()
