"""What workers of Daft, Dask and Ray are given; the libraries themselves are in ``check_*.py`` beside this module."""

import pickle
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiTable, InstantNotReadableError, QueryError
from hudi_bridge.connectors.split_tasks import SplitTask, TableQuery, pack
from hudi_bridge.table import RowsArguments
from tests.connectors.worker_tables import EMPTY, FIRST, NEWEST, NOT_OPENED, STORY, answers, query_of, story
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at, completion_of
from tests.timeline.timeline_files import clean


def rows_of(tasks: list[SplitTask], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches((batch for task in tasks for batch in task.batches()), schema)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_tasks_have_all_rows_once(parallelism: int) -> None:
    query = query_of(story())
    tasks = query.tasks(parallelism=parallelism)
    assert differences(answers(story()), rows_of(tasks, query.schema)) == []


def test_a_range_and_an_instant_and_base_files_alone() -> None:
    for rows, expected in (
        (NEWEST | {"as_of": FIRST}, story().snapshot(FIRST)),
        (NEWEST | {"read_optimized": True}, story().read_optimized()),
        (NEWEST | {"after": FIRST}, story().incremental(FIRST)),
    ):
        query = query_of(story(), rows)
        assert differences(expected.to_table(), rows_of(query.tasks(), query.schema)) == []


def test_conditions_choose_rows_and_splits() -> None:
    query = query_of(story(), columns=["id"])
    tasks = query.tasks(row_filter=pc.field("part") == "a")
    expected = story().snapshot().to_table(["id"], pc.field("part") == "a")
    assert differences(expected, rows_of(tasks, query.schema)) == []
    assert 0 < sum(len(task.splits) for task in tasks) < len(story().splits())
    assert query.tasks(row_filter=pc.field("part") == "nowhere") == []
    assert query_of(HudiTable.open(golden_table(EMPTY))).tasks() == []


def test_a_task_is_pickled_with_its_splits_alone() -> None:
    (task,) = query_of(story()).tasks(parallelism=1)
    alone = sum(len(pickle.dumps(split)) for split in task.splits)
    pickled = pickle.dumps(task)
    # The splits share what they have in common.
    assert len(pickled) < alone
    assert sum(batch.num_rows for batch in pickle.loads(pickled).batches()) == 65


def test_a_pickled_query_reads_the_same_instant(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    writer.commit(at(1), wrote=[writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}], file_id="f1-0")])
    pickled = pickle.dumps(query_of(writer.open()))
    writer.commit(at(2), wrote=[writer.base_file(at(2), [{"id": "b", "ts": 1, "value": "x"}], file_id="f2-0")])
    query = pickle.loads(pickled)
    assert rows_of(query.tasks(), query.schema).column("id").to_pylist() == ["a"]


def test_files_that_are_cleaned_before_they_are_listed_are_an_error(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    row = {"id": "a", "ts": 1, "value": "x"}
    first = writer.base_file(at(1), [row])
    writer.commit(at(1), wrote=[first])
    query = query_of(writer.open())
    writer.commit(at(2), wrote=[writer.base_file(at(2), [row])])
    first.unlink()
    (writer.timeline_folder / f"{at(3)}_{completion_of(at(3))}.clean").write_bytes(clean(None))
    with pytest.raises(InstantNotReadableError):
        query.tasks()


def test_columns_are_chosen() -> None:
    assert query_of(story(), columns=["part", "id"]).schema.names == ["part", "id"]
    own = TableQuery.of("the test", story(), NOT_OPENED, NEWEST, None, meta_columns=False)
    assert own.columns == tuple(name for name in story().schema.names if not name.startswith("_hoodie_"))
    with pytest.raises(QueryError, match="columns"):
        query_of(story(), columns=["nothing"])


@pytest.mark.parametrize(
    "rows",
    [
        NEWEST | {"up_to": FIRST},
        NEWEST | {"after": FIRST, "as_of": FIRST},
        NEWEST | {"after": FIRST, "read_optimized": True},
    ],
)
def test_arguments_that_exclude_one_another_are_refused(rows: RowsArguments) -> None:
    with pytest.raises(QueryError, match="after"):
        query_of(story(), rows)


def test_unknown_options_and_arguments_beside_a_table_are_refused() -> None:
    options = NOT_OPENED | {"options": {"hoodie.no.such": "1"}}
    with pytest.raises(QueryError, match=r"hoodie\.no\.such"):
        TableQuery.of("the test", golden_table(STORY), options, NEWEST, None, meta_columns=True)
    with pytest.raises(QueryError, match="an open table"):
        TableQuery.of("the test", story(), options, NEWEST, None, meta_columns=True)


def test_a_file_system_that_workers_lack_is_refused() -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(golden_table(STORY)), "/of_workers", recursive=True)
    opened = HudiTable.open("/of_workers", memory)
    for table, arguments in (("/of_workers", NOT_OPENED | {"filesystem": memory}), (opened, NOT_OPENED)):
        with pytest.raises(QueryError, match="filesystem"):
            TableQuery.of("the test", table, arguments, NEWEST, None, meta_columns=True)
    memory.rm("/of_workers", recursive=True)


def test_keys_that_workers_lack_are_refused() -> None:
    with pytest.raises(QueryError, match="the test"):
        query_of(HudiTable.open(golden_table(STORY), decryption_properties=lambda _: None))


def test_splits_of_no_size_share_a_task() -> None:
    assert sorted(index for group in pack([1 << 30, 0, 0, 0], 1 << 20, 4) for index in group) == [0, 1, 2, 3]
