"""Copy-on-write tables: log files of commands, which rollbacks leave, and log files of rows, which they must not have.

What rollbacks of Hudi 0.15.0 leave of a failed write with change data was seen in a table that it wrote.
"""

import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from hudi_bridge import HudiReadError, HudiTable, UnsupportedTableError
from hudi_bridge.config import QueryType
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.inspection.file_groups import FileGroupHistories
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.splits.file_system_view import FILES
from hudi_bridge.splits.partitions import QueryColumns
from hudi_bridge.splits.table_files import FolderListings, TableFiles
from hudi_bridge.storage.storage import Storage
from hudi_bridge.tools.checks.examination import examine
from hudi_bridge.tools.checks.findings import Severity
from tests.changes.cdc_tables import AFTER, CHANGES, cdc_block
from tests.logformat.log_writer import log_block, rollback_block
from tests.support.table_writer import TableWriter, at, completion_of

FIRST = [{"id": "a", "ts": 1, "value": "a1"}, {"id": "b", "ts": 1, "value": "b1"}]
ROLLBACK = rollback_block(at(4), at(3))
REFUSED = "table type: found COPY_ON_WRITE, and the log file "


def table_with_rollback(
    folder: Path, blocks: bytes = ROLLBACK, *, version: int = 6, is_archived: bool = False, logs: bool = True
) -> TableWriter:
    """A table whose third write was rolled back, in a file group with rows and in one without a base file.

    Later writes have not touched the first one. With ``is_archived``, the timeline begins after the rollback.
    """
    options = {
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER",
    }
    table = TableWriter(folder=folder, version=version, options=options).create()
    bases = [table.base_file(at(1), FIRST), table.base_file(at(2), AFTER)]
    if not is_archived:
        table.commit(at(1), action="commit", wrote=bases[:1])
        table.commit(at(2), action="commit", wrote=bases[1:])
    for file_id in ("f1-0", "f2-0"):
        log = table.log_file(at(3), [blocks], file_id=file_id)
        log.with_name(f"{log.name}.cdc").write_bytes(cdc_block(table, at(3), CHANGES, "DATA_BEFORE_AFTER"))
        if not logs:
            log.unlink()
    if version < 8 and not is_archived:
        (table.timeline_folder / f"{at(4)}.rollback").write_bytes(b"")
    last = table.base_file(at(5), [{"id": "d", "ts": 5, "value": "d5"}], file_id="f3-0")
    table.commit(at(5), action="commit", wrote=[last])
    return table


def ids(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.column("id").to_pylist()))


@pytest.mark.parametrize("is_archived", [False, True])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_log_files_of_rollbacks_are_not_read(version: int, is_archived: bool, tmp_path: Path) -> None:
    writer = table_with_rollback(tmp_path, version=version, is_archived=is_archived)
    without = table_with_rollback(tmp_path / "other", version=version, is_archived=is_archived, logs=False).open()
    table = writer.open()
    for query in (table.snapshot(), table.read_optimized()):
        assert ids(query.to_table()) == ["a", "c", "d"]
        assert (query.count_rows(), query.left_out_log_files()) == (3, 0)
        assert query.explain().log_files == 0
        splits = list(query.splits())
        assert [split.slices[0].log_paths for split in splits] == [(), ()]
        assert pickle.loads(pickle.dumps(splits)) == splits
    assert table.snapshot().get("a") == without.snapshot().get("a")
    assert [(part.file_id, part.log_files) for part in table.file_slices()] == [("f1-0", ()), ("f3-0", ())]
    if not is_archived:
        assert ids(table.snapshot(as_of=at(4)).to_table()) == ["a", "c"]
        after = completion_of(at(1)) if version >= 8 else at(1)
        assert ids(table.incremental(after=after).to_table()) == ["a", "c", "d"]
    for read in (lambda of: of.incremental(after="000"), lambda of: of.changes("000")):
        assert outcome(read, table) == outcome(read, without)
    with duckdb.connect() as connection:
        attach(connection, tmp_path, name="t")
        assert connection.sql("select id from t order by id").fetchall() == [("a",), ("c",), ("d",)]


def outcome(read: Callable[[HudiTable], object], table: HudiTable) -> object:
    """The rows that are read, without the folder in them, or the kind of error."""
    try:
        rows: pa.Table = read(table).to_table()  # type: ignore[attr-defined]
    except HudiReadError as error:
        return type(error)
    return rows.to_pylist()


@pytest.mark.parametrize("is_archived", [False, True])
def test_doctor_takes_no_log_file_of_a_rollback_for_one_of_a_merge_on_read_table(
    is_archived: bool, tmp_path: Path
) -> None:
    writer = table_with_rollback(tmp_path, is_archived=is_archived)
    diagnosis = examine(writer.folder, deep=True)
    without = examine(table_with_rollback(tmp_path / "other", is_archived=is_archived, logs=False).folder, deep=True)
    assert diagnosis.findings == without.findings
    assert sum(cost.log_files for cost in diagnosis.slices) == 0
    assert diagnosis.worst < Severity.ERROR


def test_the_file_groups_of_a_table_show_log_files_of_rollbacks(tmp_path: Path) -> None:
    groups = FileGroupHistories(table_with_rollback(tmp_path).open().planner()).of_partitions()
    shown = {log.path for group in groups for version in group.versions for log in version.file_slice.log_files}
    assert {path.rpartition("/")[2] for path in shown} == {
        f".{file_id}_{at(3)}.log.1_0-1-1" for file_id in ("f1-0", "f2-0")
    }


class AllFiles:
    """An index that has log files too, as the metadata table does."""

    why_not = None

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def partitions(self) -> Sequence[str]:
        return [""]

    def files(self, partition_paths: Sequence[str]) -> pa.Table:
        rows = [
            dict(zip(FILES.names, (path, info.name, info.size_bytes), strict=True))
            for path in partition_paths
            for info in self._storage.list_directory(path)
            if not info.is_dir
        ]
        return pa.Table.from_pylist(rows, schema=FILES)


@pytest.mark.parametrize("is_indexed", [False, True])
def test_each_log_file_is_read_once_for_all_states(
    is_indexed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = table_with_rollback(tmp_path).open()._state
    monkeypatch.setattr("hudi_bridge.splits.table_files._FEW_FOLDERS", 0)
    listings = FolderListings(state, AllFiles(state.storage) if is_indexed else None)
    columns = QueryColumns(schema=pa.schema([]), from_path=())
    read: Counter[str] = Counter()
    read_buffer = Storage.read_buffer

    def counted(storage: Storage, path: str, size_bytes: int | None = None) -> pa.Buffer:
        read[path] += ".log." in path
        return read_buffer(storage, path, size_bytes)

    monkeypatch.setattr(Storage, "read_buffer", counted)
    for seen, groups in ((state, ["f1-0", "f3-0"]), (state.as_of(at(4)), ["f1-0"])):
        files = TableFiles(seen, listings)
        for query in (QueryType.SNAPSHOT, QueryType.READ_OPTIMIZED):
            slices = list(files.file_slices(query, columns, None))
            assert [(part.file_id, part.log_files) for part in slices] == [(file_id, ()) for file_id in groups]
        by_group = files.slices_of([("", "f1-0"), ("", "f2-0")])
        assert [(group, part.log_files) for group, part in by_group.items()] == [(("", "f1-0"), ())]
    assert +read == {f".{file_id}_{at(3)}.log.1_0-1-1": 1 for file_id in ("f1-0", "f2-0")}


def blocks_of(kind: str) -> bytes:
    table = TableWriter(folder=Path())
    return {
        "rows": table.data_block(at(3), FIRST),
        "rows, rolled back": table.data_block(at(3), FIRST) + ROLLBACK,
        "deletes": table.delete_block(at(3), [("a", 1)]) + ROLLBACK,
        "change data": log_block(BlockType.CDC_DATA, b"rows"),
        "nothing": b"",
        "a part of a rollback": ROLLBACK[:-1],
        "a rollback and a part of one": ROLLBACK + ROLLBACK[:40],
        "no block": b"rows" + ROLLBACK,
        "more than commands": ROLLBACK * 100,
    }[kind]


@pytest.mark.parametrize("is_archived", [False, True])
@pytest.mark.parametrize(
    "kind",
    [
        "rows",
        "rows, rolled back",
        "deletes",
        "change data",
        "nothing",
        "a part of a rollback",
        "a rollback and a part of one",
        "no block",
        "more than commands",
    ],
)
def test_log_files_of_more_than_commands_are_refused(kind: str, is_archived: bool, tmp_path: Path) -> None:
    table = table_with_rollback(tmp_path, blocks_of(kind), is_archived=is_archived).open()
    for query in (table.snapshot(), table.read_optimized()):
        with pytest.raises(UnsupportedTableError, match=REFUSED):
            query.to_table()
    findings = [finding.found for finding in examine(tmp_path).findings if finding.check == "properties"]
    assert any("the type COPY_ON_WRITE, but 2 log files" in finding for finding in findings), findings


@pytest.mark.parametrize("error", [FileNotFoundError, OSError])
def test_a_log_file_that_cannot_be_read_is_refused(
    error: type[OSError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_with_rollback(tmp_path).open()
    read_buffer = Storage.read_buffer

    def failing(storage: Storage, path: str, size_bytes: int | None = None) -> pa.Buffer:
        if not path.endswith(".log.1_0-1-1"):
            return read_buffer(storage, path, size_bytes)
        raise FileNotFoundError(path) if error is FileNotFoundError else storage.failure("read", path, error("lost"))

    monkeypatch.setattr(Storage, "read_buffer", failing)
    with pytest.raises(UnsupportedTableError, match=REFUSED):
        table.snapshot().to_table()
