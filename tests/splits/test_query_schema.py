"""The columns of a table as of an instant."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_bridge.errors import CorruptTableError
from tests.table_writer import KEY_AND_VALUE, META_FIELDS, TableWriter, at

OWN = ("id", "ts", "value")


@pytest.mark.parametrize("version", [6, 9])
def test_the_newest_commit_with_a_schema_decides(tmp_path: Path, version: int) -> None:
    table = TableWriter(folder=tmp_path, version=version).create()
    table.commit(at(1))
    TableWriter(folder=tmp_path, version=version, fields=(*KEY_AND_VALUE, ("late", "double"))).commit(at(2))
    opened = table.open()
    assert opened.schema.names == [*META_FIELDS, *OWN, "late"]
    assert opened.schema.field("late").type == pa.float64()
    assert opened.snapshot(at(1)).schema.names == [*META_FIELDS, *OWN]


@pytest.mark.parametrize("version", [6, 9])
def test_a_commit_without_a_schema_is_passed_over(tmp_path: Path, version: int) -> None:
    table = TableWriter(folder=tmp_path, version=version).create()
    table.commit(at(1))
    name = f"{at(2)}.deltacommit" if version < 8 else f"{at(2)}_{at(3)}.deltacommit"
    (table.timeline_folder / name).write_bytes(b"")
    assert table.open().schema.names == [*META_FIELDS, *OWN]


def test_the_schema_of_creation_stands_in_for_that_of_a_commit(tmp_path: Path) -> None:
    schema = {"type": "record", "name": "row", "fields": [{"name": "x", "type": ["null", "int"], "default": None}]}
    text = json.dumps(schema).replace(":", "\\:")
    TableWriter(folder=tmp_path, options={"hoodie.table.create.schema": text}).create()
    table = TableWriter(folder=tmp_path).open()
    assert table.schema.names == [*META_FIELDS, "x"]
    assert table.snapshot().count_rows() == 0


def test_a_table_before_its_first_commit_has_no_columns_and_no_rows(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path).create()
    table.pending(at(1))
    opened = table.open()
    assert opened.latest_instant is None
    assert opened.schema.names == []
    assert (opened.snapshot().to_table().num_rows, opened.snapshot().count_rows(), opened.splits()) == (0, 0, [])


def test_meta_columns_come_first_whether_or_not_the_schema_names_them(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path, fields=(*((name, "string") for name in META_FIELDS), *KEY_AND_VALUE)).create()
    table.commit(at(1))
    assert table.open().schema.names == [*META_FIELDS, *OWN]
    virtual = TableWriter(folder=tmp_path / "virtual", options={"hoodie.populate.meta.fields": "false"}).create()
    virtual.commit(at(1))
    assert virtual.open().schema.names == list(OWN)
    operation = TableWriter(
        folder=tmp_path / "operation", options={"hoodie.allow.operation.metadata.field": "true"}
    ).create()
    operation.commit(at(1))
    assert operation.open().schema.names == [*META_FIELDS, "_hoodie_operation", *OWN]


def test_dropped_partition_columns_come_last_as_text(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path, partition_fields=("day", "value")).create()
    table.commit(at(1))
    schema = table.open().schema
    assert schema.names == [*META_FIELDS, *OWN, "day"]
    assert schema.field("day").type == pa.string()


def test_times_that_a_key_generator_formats_are_text_in_1x(tmp_path: Path) -> None:
    for version, kind in ((6, pa.int64()), (9, pa.string())):
        option = {"hoodie.table.keygenerator.type": "TIMESTAMP"}
        folder = tmp_path / str(version)
        table = TableWriter(folder=folder, version=version, partition_fields=("ts",), options=option).create()
        table.commit(at(1))
        assert table.open().schema.field("ts").type == kind
        assert table.open().read_optimized().schema.field("ts").type == pa.string()


def test_a_schema_that_is_none_is_an_error_that_names_its_commit(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path, version=6).create()
    document = {"extraMetadata": {"schema": "{"}}
    (table.timeline_folder / f"{at(1)}.deltacommit").write_text(json.dumps(document))
    with pytest.raises(CorruptTableError, match=at(1)):
        _ = table.open().schema
