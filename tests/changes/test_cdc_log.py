import json
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_bridge import CorruptLogFileError, DataFileGoneError, HudiTable, open_reader
from hudi_bridge.changes.split import ChangeSplit
from hudi_bridge.logformat.layout import BlockType, HeaderKey
from tests.changes.cdc_tables import CHANGES, cdc_block, data, logged_table, since_the_first
from tests.logformat.log_writer import avro_content, log_block
from tests.support.compare import differences
from tests.support.golden_cases import golden_change_data
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at, completion_of


@pytest.mark.parametrize("mode", ["OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"])
def test_changes_of_each_logging_mode(tmp_path: Path, mode: str) -> None:
    rows = since_the_first(logged_table(tmp_path / "t", mode)).to_table().to_pylist()
    assert [(row["op"], data(row["before"]), data(row["after"])) for row in rows] == [
        (op, before, after) for op, _, before, after in CHANGES
    ]
    assert {row["ts_ms"] for row in rows} == {at(2)}


@pytest.mark.parametrize("mode", ["OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"])
def test_images_that_nobody_asks_for_are_not_looked_for(tmp_path: Path, mode: str) -> None:
    table = logged_table(tmp_path / "t", mode)
    dataset = since_the_first(table)
    for path in table.folder.glob("*.parquet"):
        path.unlink()
    assert dataset.to_table(columns=["op"]).to_pydict() == {"op": ["u", "d", "i"]}
    assert dataset.count_rows() == 3


def test_logged_images_are_written_in_another_way_than_those_of_files(tmp_path: Path) -> None:
    actual = since_the_first(logged_table(tmp_path / "t", "DATA_BEFORE"), format="cdc").to_table().to_pylist()
    assert [row["before"] for row in actual] == [
        '{"id": "a", "ts": 1, "value": "a1"}',
        '{"id": "b", "ts": 1, "value": "b1"}',
        "null",
    ]
    assert [row["after"] for row in actual][1] is None
    assert str(actual[0]["after"]).startswith('{"_hoodie_commit_time":"')
    assert str(actual[0]["after"]).endswith('"id":"a","ts":2,"value":"a2"}')


@pytest.mark.parametrize("mode", ["OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"])
def test_images_have_the_types_of_the_files_where_rows_have_times_as_text(tmp_path: Path, mode: str) -> None:
    properties = {"hoodie.table.partition.fields": "ts", "hoodie.table.keygenerator.type": "TIMESTAMP"}
    table = logged_table(tmp_path / "t", mode, others=properties)
    assert table.open().snapshot().schema.field("ts").type == pa.string()
    changes = since_the_first(table, format="cdc").to_table().to_pylist()
    images = [json.loads(change[side] or "null") for change in changes for side in ("before", "after")]
    assert [image and image["ts"] for image in images] == [1, 2, 1, None, None, 2]
    assert [image and image["ts"] for image in since_the_first(table).to_table()["after"].to_pylist()] == [
        "2",
        None,
        "2",
    ]


def test_columns_added_since_are_null_in_logged_images(tmp_path: Path) -> None:
    table = logged_table(tmp_path / "t", "DATA_BEFORE_AFTER")
    wider = TableWriter(folder=table.folder, fields=(*table.fields, ("more", "int")), options=table.options)
    wider.commit(at(3), action="commit", wrote=[wider.base_file(at(3), [], file_id="f2-0")])
    rows = since_the_first(wider, up_to=completion_of(at(2))).to_table().to_pylist()
    assert [data(row["after"]) for row in rows] == [
        None if after is None else dict(after) | {"more": None} for _, _, _, after in CHANGES
    ]
    texts = since_the_first(wider, up_to=completion_of(at(2)), format="cdc").to_table()["after"].to_pylist()
    assert texts[0] == '{"id": "a", "ts": 2, "value": "a2", "more": null}'


def test_several_blocks_and_splits_on_other_machines(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "unused")
    blocks = [cdc_block(writer, at(2), [change], "DATA_BEFORE_AFTER") for change in CHANGES]
    dataset = since_the_first(logged_table(tmp_path / "t", "DATA_BEFORE_AFTER", blocks))
    (split,) = dataset.splits()
    assert isinstance(split, ChangeSplit)
    for copy in (ChangeSplit.from_json(split.to_json()), pickle.loads(pickle.dumps(split))):
        assert copy == split
        batches = list(open_reader(copy, columns=["op", "after"]).batches())
        assert [op for batch in batches for op in batch["op"].to_pylist()] == ["u", "d", "i"]


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_damage_is_an_error_since_changes_would_be_lost(tmp_path: Path, cut: int) -> None:
    block = cdc_block(TableWriter(folder=tmp_path / "unused"), at(2), CHANGES, "DATA_BEFORE_AFTER")
    table = logged_table(tmp_path / "t", "DATA_BEFORE_AFTER", [block[:-cut]])
    with pytest.raises(CorruptLogFileError, match="cdc"):
        since_the_first(table).to_table()


@pytest.mark.parametrize(
    "block",
    [
        log_block(BlockType.AVRO_DATA, avro_content([]), {HeaderKey.SCHEMA: '"string"'}),
        log_block(BlockType.CDC_DATA, avro_content([])),
        log_block(
            BlockType.CDC_DATA,
            avro_content([]),
            {
                HeaderKey.SCHEMA: json.dumps(
                    {"type": "record", "name": "r", "fields": [{"name": "op", "type": "string"}]}
                )
            },
        ),
        log_block(
            BlockType.CDC_DATA,
            avro_content([]),
            {
                HeaderKey.SCHEMA: json.dumps(
                    {
                        "type": "record",
                        "name": "r",
                        "fields": [{"name": "op", "type": "string"}, {"name": "before", "type": "int"}],
                    }
                )
            },
        ),
    ],
    ids=["another block", "no schema", "no image", "an image that is no record"],
)
def test_blocks_of_other_kinds_are_refused(tmp_path: Path, block: bytes) -> None:
    table = logged_table(tmp_path / "t", "DATA_BEFORE_AFTER", [block])
    with pytest.raises(CorruptLogFileError, match=r"log\.1"):
        since_the_first(table).to_table()


def test_neither_a_key_nor_both_images(tmp_path: Path) -> None:
    block = cdc_block(TableWriter(folder=tmp_path / "unused"), at(2), CHANGES, "DATA_BEFORE")
    damaged = block.replace(b'"record_key"', b'"record_kex"', 1)
    assert damaged != block
    table = logged_table(tmp_path / "t", "DATA_BEFORE", [damaged])
    with pytest.raises(CorruptLogFileError, match="op and both images or a key"):
        since_the_first(table).to_table()


def test_an_operation_that_is_none(tmp_path: Path) -> None:
    block = cdc_block(TableWriter(folder=tmp_path / "unused"), at(2), [("x", "a", None, None)], "OP_KEY_ONLY")
    table = logged_table(tmp_path / "t", "OP_KEY_ONLY", [block])
    with pytest.raises(CorruptLogFileError, match="the operation 'x'"):
        since_the_first(table).to_table()


def test_a_logged_key_that_the_slices_do_not_have_is_an_error(tmp_path: Path) -> None:
    block = cdc_block(TableWriter(folder=tmp_path / "unused"), at(2), [("u", "x", None, None)], "OP_KEY_ONLY")
    table = logged_table(tmp_path / "t", "OP_KEY_ONLY", [block])
    with pytest.raises(CorruptLogFileError, match="'x'"):
        since_the_first(table).to_table()


def test_a_file_that_is_gone_since_the_plan_is_named(tmp_path: Path) -> None:
    table = logged_table(tmp_path / "t", "DATA_BEFORE_AFTER")
    dataset = since_the_first(table)
    next(table.folder.glob(".*.cdc")).unlink()
    with pytest.raises(DataFileGoneError, match="cdc"):
        dataset.to_table()


@pytest.mark.heavy
@pytest.mark.parametrize("name", one_in(3, ["mor_op_key_only", "mor_data_before", "cow_data_before_after"]))
def test_json_of_every_type_is_that_of_hudi_byte_for_byte(name: str) -> None:
    folder = golden_change_data(name)
    actual = HudiTable.open(str(folder / "table")).changes("earliest", format="cdc").to_table()
    assert differences(pq.read_table(folder / "cdc.parquet"), actual) == []
