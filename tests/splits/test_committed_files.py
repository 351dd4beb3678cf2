"""Data files that commits name and folders lack, or have empty: no query returns fewer rows for it."""

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import CorruptTableError, HudiReadError, HudiTable, InstantNotReadableError, tools
from hudi_bridge.config import QueryType
from hudi_bridge.splits import notes, table_files
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at, completion_of, sorted_column
from tests.timeline.timeline_files import clean

TABLES = ("e_hive_style_120", "c_many_blocks_0150", "d_two_compactions_nomdt_0150", "d_insert_overwrite_table_120")
ON: dict[str, str] = {}
OFF = {"hoodie.metadata.enable": "false"}

Query = Callable[[HudiTable], pa.Table]


@pytest.fixture(autouse=True)
def _warn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "_given", set())


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableWriter:
    return TableWriter(folder=tmp_path / "t", version=request.param).create()


def queries(table: HudiTable) -> dict[str, Query]:
    commits = table.timeline.commits()
    middle, before = commits[len(commits) // 2], commits[len(commits) // 2 - 1]
    after = before.completion_time or before.requested_time
    return {
        "snapshot": lambda table: table.snapshot().to_table(),
        "filtered": lambda table: table.snapshot().to_table(filter=pc.field("_hoodie_commit_time") > after),
        "read optimized": lambda table: table.read_optimized().to_table(),
        "time travel": lambda table: table.snapshot(middle.requested_time).to_table(),
        "incremental": lambda table: table.incremental(after).to_table(),
        "all of incremental": lambda table: table.incremental("earliest").to_table(),
        "changes": lambda table: table.changes(after).to_table(),
    }


def answer(query: Query, folder: Path, options: dict[str, str]) -> list[str] | None:
    """The rows, None if they are refused."""
    try:
        return sorted(map(repr, query(HudiTable.open(folder, options=options)).to_pylist()))
    except HudiReadError:
        return None


def files_of(folder: Path) -> Iterator[Path]:
    """The files that readers need in the partitions of a table."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and ".hoodie" not in path.relative_to(folder).parts and path.suffix != ".crc":
            yield path


@pytest.mark.heavy
@pytest.mark.parametrize("few_folders", one_in(2, [8, -1]))
@pytest.mark.parametrize("name", one_in(4, TABLES))
def test_no_query_lacks_rows_of_a_file_that_is_gone_or_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, few_folders: int
) -> None:
    monkeypatch.setattr(table_files, "_FEW_FOLDERS", few_folders)
    folder, aside = tmp_path / "t", tmp_path / "aside"
    shutil.copytree(golden_table(name), folder)
    asked = queries(HudiTable.open(folder))
    options = ON if few_folders < 0 else OFF
    whole = {name: answer(query, folder, options) for name, query in asked.items()}
    refused = 0
    for path in files_of(folder):
        path.rename(aside)
        for is_empty in (False, True):
            if is_empty:
                path.touch()
            for query_name, query in asked.items():
                rows = answer(query, folder, options)
                refused += rows is None
                assert rows in (whole[query_name], None), (path.name, is_empty, query_name)
        aside.replace(path)
    assert refused


def put_rows(table: TableWriter, number: int, name: str) -> Path:
    file = table.base_file(at(number), [{"id": name, "ts": number, "value": f"{name}{number}"}], file_id=f"{name}-0")
    table.commit(at(number), wrote=[file])
    return file


def values(table: TableWriter) -> list[str]:
    return sorted_column(table.open().snapshot().to_table(), "value")


def test_the_error_names_the_file_its_size_and_the_commit(table: TableWriter) -> None:
    put_rows(table, 1, "a")
    lost = put_rows(table, 2, "b")
    size = lost.stat().st_size
    lost.unlink()
    with pytest.raises(CorruptTableError) as caught:
        values(table)
    assert (caught.value.path, caught.value.found) == (lost.name, "no such file")
    assert caught.value.expected == f"the file of {size:,} bytes that the commit {at(2)} names"


def test_an_older_base_file_may_have_been_cleaned(table: TableWriter) -> None:
    old = put_rows(table, 1, "a")
    put_rows(table, 2, "b")
    put_rows(table, 3, "a")
    old.unlink()
    assert values(table) == ["a3", "b2"]
    with pytest.raises(CorruptTableError, match="no such file"):
        table.open().snapshot(at(2)).to_table()
    name = f"{at(4)}.clean" if table.version < 8 else f"{at(4)}_{completion_of(at(4))}.clean"
    (table.timeline_folder / name).write_bytes(clean(None))
    with pytest.raises(InstantNotReadableError, match="have been cleaned") as caught:
        table.open().snapshot(at(2)).to_table()
    assert caught.value.earliest == at(3)
    assert values(table) == ["a3", "b2"]


def test_what_a_clean_has_deleted_is_left_out_with_a_warning(
    table: TableWriter, caplog: pytest.LogCaptureFixture
) -> None:
    put_rows(table, 1, "a")
    lost = put_rows(table, 2, "b")
    lost.unlink()
    name = f"{at(3)}.clean" if table.version < 8 else f"{at(3)}_{completion_of(at(3))}.clean"
    (table.timeline_folder / name).write_bytes(clean(None, "another.parquet", lost.name))
    put_rows(table, 4, "c")
    assert values(table) == ["a1", "c4"]
    (record,) = caplog.records
    assert f"the clean {at(3)} has deleted the file" in record.getMessage()
    # As of a commit before the clean, its rows were there.
    with pytest.raises(InstantNotReadableError, match="have been cleaned"):
        table.open().snapshot(at(2)).to_table()
    (finding,) = [finding for finding in tools.doctor(table.open()).findings if finding.check == "missing-files"]
    assert finding.found == f"no such file, which the clean {at(3)} has deleted"
    # A clean that cannot be read tells nothing of the file.
    (table.timeline_folder / name).write_bytes(b"Obj")
    with pytest.raises(CorruptTableError, match="found no such file") as caught:
        values(table)
    assert caught.value.path == lost.name


def test_a_commit_that_cannot_be_read_is_told_once_and_names_nothing(
    table: TableWriter, caplog: pytest.LogCaptureFixture
) -> None:
    lost = put_rows(table, 1, "a")
    put_rows(table, 2, "b")
    (commit,) = table.timeline_folder.glob(f"{at(1)}*commit")
    commit.write_bytes(b"{")
    lost.unlink()
    for _ in range(2):
        assert values(table) == ["b2"]
    (record,) = caplog.records
    assert (record.levelno, commit.name in record.getMessage()) == (logging.WARNING, True)


def test_a_partition_that_lost_its_metadata_or_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    shutil.copytree(golden_table("e_hive_style_120"), folder)

    def rows(options: dict[str, str], *parts: str) -> int:
        return HudiTable.open(folder, options=options).snapshot().to_table(filter=pc.field("part").isin(parts)).num_rows

    of_a, of_b = rows(OFF, "a"), rows(OFF, "b")
    (folder / "part=b" / ".hoodie_partition_metadata").unlink()
    with pytest.raises(CorruptTableError, match=r"without \.hoodie_partition_metadata"):
        rows(OFF, "b")
    # The metadata table has the partition nevertheless.
    assert rows(ON, "b") == of_b
    shutil.rmtree(folder / "part=b")
    with pytest.raises(CorruptTableError, match=r"part=b/.*: found no such file"):
        rows(OFF, "a", "b")
    assert rows(OFF, "a") == of_a


def test_a_lost_partition_is_noticed_while_other_queries_name_theirs(tmp_path: Path) -> None:
    """As two threads do with one table: what one of them has found must not be taken for what the other has."""
    folder = tmp_path / "t"
    shutil.copytree(golden_table("e_hive_style_120"), folder)
    planner = HudiTable.open(folder, options=OFF)._latest
    columns = planner.columns(QueryType.SNAPSHOT)
    shutil.rmtree(folder / "part=b")

    def meanwhile(paths: Sequence[str]) -> Sequence[str]:
        assert list(planner.files.file_slices(QueryType.SNAPSHOT, columns, None, within=["part=a"]))
        return paths

    with pytest.raises(CorruptTableError, match="no such file"):
        list(planner.files.file_slices(QueryType.SNAPSHOT, columns, None, meanwhile))


def test_a_log_file_that_ends_early_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "t"
    shutil.copytree(golden_table("e_hive_style_120"), folder)
    log = next(path for path in files_of(folder) if ".log." in path.name)
    size = log.stat().st_size
    log.write_bytes(log.read_bytes()[:-9])
    HudiTable.open(folder).snapshot().to_table()
    assert f"{log.name} has {size - 9:,} bytes, and had at least {size:,}" in caplog.text
