"""Tables whose timeline is not where it is looked for."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_bridge import HudiTable
from hudi_bridge.errors import CorruptTimelineError
from tests.support.table_writer import TableWriter, at


def _without_timeline(folder: Path) -> None:
    shutil.rmtree(folder / ".hoodie" / "timeline")


def _renamed(folder: Path) -> None:
    _replace(folder, "hoodie.timeline.path=timeline", "hoodie.timeline.path=timelinf")


def _of_version_6(folder: Path) -> None:
    _replace(folder, "hoodie.table.version=9", "hoodie.table.version=6")
    _replace(folder, "hoodie.timeline.layout.version=2", "hoodie.timeline.layout.version=1")


def _replace(folder: Path, old: str, new: str) -> None:
    path = folder / ".hoodie" / "hoodie.properties"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("damage", [_without_timeline, _renamed, _of_version_6])
@pytest.mark.parametrize("data", ["base", "log"])
def test_data_without_a_timeline_is_damage(tmp_path: Path, damage: Callable[[Path], None], data: str) -> None:
    table = written_table(tmp_path, data)
    opened = table.open()
    damage(tmp_path)
    for read in (table.open, lambda: HudiTable.open(str(tmp_path)).incremental("earliest")):
        with pytest.raises(CorruptTimelineError, match=r"no instant, although there is the data file p=1/\.?f1-0_"):
            read()
    if damage is _without_timeline:
        with pytest.raises(CorruptTimelineError, match="no instant"):
            opened.refresh()


def written_table(folder: Path, data: str) -> TableWriter:
    options = {"hoodie.timeline.path": "timeline"}
    table = TableWriter(folder=folder, partition_fields=("value",), options=options).create()
    rows = [{"id": "a", "ts": 1, "value": "1"}]
    if data == "base":
        table.base_file(at(1), rows, partition="p=1")
    else:
        table.log_file(at(1), [table.data_block(at(1), rows, partition="p=1")], partition="p=1")
    table.commit(at(1))
    return table


@pytest.mark.parametrize("version", [6, 9])
def test_a_table_that_nobody_has_written_to_is_empty(tmp_path: Path, version: int) -> None:
    table = TableWriter(folder=tmp_path, version=version).create()
    (tmp_path / "notes.parquet").write_bytes(b"")
    (tmp_path / "other.parquet").mkdir()
    assert table.open().snapshot().count_rows() == 0
    # Object stores know no empty folders.
    shutil.rmtree(tmp_path / ".hoodie" / "timeline", ignore_errors=True)
    assert table.open().refresh().snapshot().count_rows() == 0


def test_a_write_that_has_begun_is_a_timeline(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "1"}])
    table.pending(at(1))
    assert table.open().snapshot().count_rows() == 0
