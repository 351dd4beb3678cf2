"""A split that has travelled gives the same rows as the dataset it comes from."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiTable, QueryError, QueryType, RealtimeFileSplit, open_reader
from hudi_bridge.errors import CorruptTableError
from tests.compare import differences
from tests.table_writer import KEY_AND_VALUE, TableWriter, at


@pytest.fixture(params=[6, 9])
def table(tmp_path: Path, request: Any) -> HudiTable:
    fields = (*KEY_AND_VALUE, ("part", "string"))
    writer = TableWriter(folder=tmp_path, version=request.param, fields=fields, partition_fields=("part",)).create()
    for part in "pq":
        where: dict[str, Any] = {"partition": part, "file_id": f"f{part}-0"}
        rows = [{"id": key, "ts": 1, "value": "old", "part": part} for key in "abc"]
        writer.base_file(at(1), rows, row_group_size=2, **where)
        blocks = [
            writer.data_block(at(2), [{"id": "a", "ts": 2, "value": "new", "part": part}], **where),
            writer.delete_block(at(2), [("b", 1)], partition=part),
        ]
        writer.log_file(at(2), blocks, base_instant=at(1), **where)
    writer.commit(at(1))
    writer.commit(at(2))
    return writer.open()


def json_copy(split: RealtimeFileSplit) -> RealtimeFileSplit:
    return RealtimeFileSplit.from_json(split.to_json())


def pickled_copy(split: RealtimeFileSplit) -> RealtimeFileSplit:
    copy: RealtimeFileSplit = pickle.loads(pickle.dumps(split))
    return copy


@pytest.mark.parametrize("travel", [json_copy, pickled_copy])
@pytest.mark.parametrize("query_type", [QueryType.SNAPSHOT, QueryType.READ_OPTIMIZED])
def test_travelled_splits_give_the_rows_of_the_dataset(table: HudiTable, query_type: QueryType, travel: Any) -> None:
    dataset = table.read_optimized() if query_type is QueryType.READ_OPTIMIZED else table.snapshot()
    splits = [travel(split) for split in table.splits(query_type=query_type)]
    assert len(splits) == 2
    for columns, row_filter in ((None, None), (["value", "part"], None), (["id"], pc.field("value") == "new")):
        readers = [open_reader(split, columns=columns, row_filter=row_filter) for split in splits]
        batches = [batch for reader in readers for batch in reader.batches()]
        found = pa.Table.from_batches(batches, readers[0].schema)
        assert differences(dataset.to_table(columns=columns, filter=row_filter), found) == []


def test_columns_and_filters_are_checked_at_once(table: HudiTable) -> None:
    split = table.splits()[0]
    with pytest.raises(QueryError, match="nope"):
        open_reader(split, columns=["nope"])
    with pytest.raises(QueryError, match="nope"):
        open_reader(split, row_filter=pc.field("nope") == 1)


def test_a_split_whose_paths_leave_the_table_is_refused(table: HudiTable) -> None:
    split = table.splits(query_type=QueryType.READ_OPTIMIZED)[0]
    for path in ("../secret.parquet", "/etc/passwd", "p/../../x"):
        with pytest.raises(CorruptTableError, match="leaves the table"):
            list(open_reader(replace(split, base_path=path)).batches())


def test_a_split_of_no_files_is_refused(table: HudiTable) -> None:
    with pytest.raises(QueryError, match="split"):
        open_reader(replace(table.splits()[0], base_path=None, log_paths=()))
