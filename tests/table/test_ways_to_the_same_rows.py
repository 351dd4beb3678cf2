"""The same rows by any way: with and without the metadata table and data skipping, by filters, counts and columns.

Tables are golden ones of all groups, spread over the archives; values of filters come from their rows.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiDataset, HudiReadError, HudiTable
from hudi_bridge.splits import table_files
from tests.support.compare import differences
from tests.support.golden_cases import golden_table, spread
from tests.support.golden_queries import QUERIES
from tests.support.strength import one_in

Query = Callable[[HudiTable], HudiDataset]
CASES = spread(sorted({query.case for query in QUERIES.values()}), 60)
OTHER_WAYS = ({"hoodie.metadata.enable": "false"}, {"hoodie.enable.data.skipping": "false"})


def queries(table: HudiTable, random: Random) -> Iterator[tuple[str, Query]]:
    yield "snapshot", lambda table: table.snapshot()
    yield "read optimized", lambda table: table.read_optimized()
    yield "all commits", lambda table: table.incremental("earliest")
    commits = table.timeline.commits()
    if commits:
        commit, last = random.choice(commits), random.choice(commits)
        end = max(commit.completion_time or commit.requested_time, last.completion_time or last.requested_time)
        yield "time travel", lambda table: table.snapshot(commit.requested_time)
        yield "some commits", lambda table: table.incremental(commit.completion_time or commit.requested_time)
        yield "first commits", lambda table: table.incremental("earliest", end)


def conditions(rows: pa.Table, random: Random) -> Iterator[pc.Expression]:
    """Conditions on columns and fields of structs, with values that there are."""
    paths: list[tuple[tuple[str, ...], Any]] = []
    for outer in rows.schema:
        inner = outer.type if pa.types.is_struct(outer.type) else ()
        paths += [((outer.name,), outer.type), *(((outer.name, part.name), part.type) for part in inner)]
    plain = [(path, kind) for path, kind in paths if not pa.types.is_nested(kind) and kind.num_fields == 0]
    for path, kind in random.sample(plain, min(3, len(plain))):
        column: Any = rows[path[0]] if len(path) == 1 else pc.struct_field(rows[path[0]], path[1])
        values = column.drop_null()
        field: Any = pc.field(*path)
        if not len(values) or isinstance(kind, pa.BaseExtensionType):
            yield field.is_null()
            continue
        value = values[random.randrange(len(values))]
        yield random.choice([field == value, field < value, field >= value, field.is_valid(), field.is_null()])


@pytest.mark.parametrize("case", one_in(20, CASES))
def test_rows_do_not_depend_on_the_way(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The metadata table lists the files, of few folders too.
    monkeypatch.setattr(table_files, "_FEW_FOLDERS", 0)
    random = Random(case)
    table, *others = (HudiTable.open(golden_table(case), options=options) for options in ({}, *OTHER_WAYS))
    for name, query in queries(table, random):
        try:
            dataset = query(table)
            rows = dataset.to_table()
        except HudiReadError as error:
            for other in others:
                with pytest.raises(type(error)):
                    query(other).to_table()
            continue
        for other in others:
            assert differences(rows, query(other).to_table()) == [], name
        columns = random.sample(rows.schema.names, min(3, rows.num_columns))
        assert differences(rows.select(columns), dataset.to_table(columns)) == [], (name, columns)
        for condition in (None, *conditions(rows, random)):
            expected = rows if condition is None else rows.filter(condition)
            assert differences(expected, dataset.to_table(filter=condition)) == [], (name, condition)
            assert dataset.count_rows(condition) == expected.num_rows, (name, condition)
            assert dataset.to_table(columns=[], filter=condition).num_rows == expected.num_rows, (name, condition)
            assert dataset.head(2, filter=condition).num_rows == min(2, expected.num_rows), (name, condition)
