"""Whoever follows an advice to delete something loses no row that a reader shows.

Golden tables are damaged in each way that the checks of names and timelines know; what the advice says is then done.
"""

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product, starmap
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_bridge import HudiReadError, HudiTable
from hudi_bridge.splits.file_slice import parse_base_file_name, parse_log_file_name
from hudi_bridge.tools.checks.examination import examine
from hudi_bridge.tools.checks.findings import Finding
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in
from tests.support.table_writer import at

LATER = "20270101000000000"
TABLES = (
    "b_event_time_120",
    "c_data_and_delete_block_0150",
    "d_pending_compaction_0150",
    "d_compacted_then_logs_120",
    "i_cow_0150",
    "e_nonpart_0150",
)
"""With and without partitions, of timeline layouts 1 and 2, merge on read and copy on write, one being compacted."""
DELETING = re.compile(r"\b(delete|remove|drop|restore the table|savepoint)", re.IGNORECASE)
Damage = Callable[[Path], None]


def timeline_files(table: Path, *suffixes: str) -> list[Path]:
    folder = table / ".hoodie" / "timeline"
    folder = folder if folder.is_dir() else table / ".hoodie"
    return sorted(path for path in folder.iterdir() if path.name[:1].isdigit() and path.name.endswith(suffixes))


def completed(table: Path) -> list[Path]:
    return timeline_files(table, ".commit", ".deltacommit", ".replacecommit")


def data_files(table: Path) -> list[Path]:
    """All data files, base files first."""
    paths = [path for path in table.rglob("*") if ".hoodie" not in path.parts]
    bases = [path for path in paths if not path.name.startswith(".") and parse_base_file_name(path.name) is not None]
    logs = [path for path in paths if path.name.startswith(".") and parse_log_file_name(path.name) is not None]
    return [*sorted(bases), *sorted(logs)]


def first(paths: list[Path]) -> Path:
    return paths[0]


def last(paths: list[Path]) -> Path:
    return paths[-1]


def written(files: Callable[[Path], list[Path]], choose: Callable[[list[Path]], Path], content: bytes) -> Damage:
    return lambda table: _write(choose(files(table)), content)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def lost(files: Callable[[Path], list[Path]], choose: Callable[[list[Path]], Path]) -> Damage:
    return lambda table: choose(files(table)).unlink()


def all_emptied(table: Path) -> None:
    for path in completed(table):
        path.write_bytes(b"")


def copied(pattern: str, replacement: str) -> Damage:
    """A copy of the newest base file under another name."""

    def damage(table: Path) -> None:
        bases = [path for path in data_files(table) if path.suffix == ".parquet"]
        base = max(bases, key=lambda path: path.name.rpartition("_")[2])
        name = re.sub(pattern, replacement, base.name)
        assert name != base.name
        shutil.copy(base, base.with_name(name))

    return damage


def with_leftovers(table: Path) -> None:
    """Markers and heartbeats of all writes, and of one that the timeline does not know."""
    for path in [*completed(table), Path(at(1))]:
        instant = re.split(r"[_.]", path.name)[0]
        (table / ".hoodie" / ".temp" / instant).mkdir(parents=True)
        (table / ".hoodie" / ".heartbeat").mkdir(exist_ok=True)
        (table / ".hoodie" / ".heartbeat" / instant).write_bytes(b"")


def no_partition_metadata(table: Path) -> None:
    first(sorted(table.rglob(".hoodie_partition_metadata*"))).write_bytes(b"nothing")


DAMAGES: dict[str, Damage] = {
    "the oldest commit is empty": written(completed, first, b""),
    "the newest commit is empty": written(completed, last, b""),
    "all commits are empty": all_emptied,
    "the oldest commit names nothing": written(completed, first, b"{}"),
    "the newest commit names nothing": written(completed, last, b"{}"),
    "the newest commit is cut": written(completed, last, b'{"partitionToWriteStats": {'),
    "the oldest commit is gone": lost(completed, first),
    "the newest commit is gone": lost(completed, last),
    "a request is empty": written(lambda table: timeline_files(table, ".requested"), last, b""),
    "a file beside that sorts before": copied(r"_[0-9-]+_(?=[0-9]+\.)", "_0-0-0_"),
    "a file beside that sorts after": copied(r"_[0-9-]+_(?=[0-9]+\.)", "_9-9-9_"),
    "a file of a failed task": copied(r"^[^_]+_", "ffffffff-0_"),
    "a file of an unknown write": copied(r"_[0-9]+\.", f"_{LATER}."),
    "a base file is gone": lost(data_files, first),
    "a data file is gone": lost(data_files, last),
    "markers and heartbeats": with_leftovers,
    "partition metadata that is none": no_partition_metadata,
}


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "damage"), one_in(5, starmap(pytest.param, product(TABLES, DAMAGES))))
def test_no_row_is_lost_by_following_an_advice_to_delete(name: str, damage: str, tmp_path: Path) -> None:
    table = tmp_path / "t"
    shutil.copytree(golden_table(name), table)
    DAMAGES[damage](table)
    before = answers(table)
    deleted = [path for finding in examine(table, now=LATER).findings for path in advised(finding, table)]
    for path in deleted:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    after = answers(table)
    changed = {query: rows for query, rows in before.items() if after.get(query) != rows}
    assert not changed, (deleted, changed)


@pytest.mark.parametrize(
    ("damage", "part"),
    [
        ("a file of an unknown write", "delete them"),
        ("a file beside that sorts before", "delete the others"),
        ("markers and heartbeats", "delete the folder"),
    ],
)
def test_what_no_reader_shows_may_be_deleted(damage: str, part: str, tmp_path: Path) -> None:
    table = tmp_path / "t"
    shutil.copytree(golden_table("c_data_and_delete_block_0150"), table)
    DAMAGES[damage](table)
    findings = [finding for finding in examine(table, now=LATER).findings if part in (finding.remedy or "")]
    assert [path for finding in findings for path in advised(finding, table)]


@pytest.mark.parametrize("name", ["b_event_time_120", "c_data_and_delete_block_0150"])
@pytest.mark.parametrize("content", [b"", b"{}"])
def test_files_of_a_commit_without_content_are_those_of_a_commit(name: str, content: bytes, tmp_path: Path) -> None:
    table = tmp_path / "t"
    shutil.copytree(golden_table(name), table)
    whole = HudiTable.open(table).snapshot().to_table()
    commit = first(completed(table))
    commit.write_bytes(content)
    assert HudiTable.open(table).snapshot().to_table() == whole
    findings = examine(table, now=LATER).findings
    (finding,) = (item for item in findings if item.check == "files-no-commit-names")
    assert "which names no file at all" in finding.found
    assert "restore the commit's file" in str(finding.remedy)
    empty = [item for item in findings if item.path is not None and table / item.path == commit]
    assert [item.found for item in empty] == ([] if content else ["an empty file of a completed action"])


def answers(table: Path) -> Mapping[str, object]:
    """The rows of each query that can be answered, in some order."""
    answered: dict[str, object] = {}
    for name, query in queries(table):
        try:
            rows = query().to_pylist()
        except HudiReadError:
            continue
        answered[name] = sorted(map(repr, rows))
    return answered


def queries(table: Path) -> Iterator[tuple[str, Callable[[], pa.Table]]]:
    instants = [re.split(r"[_.]", path.name)[0] for path in completed(table)]
    yield "snapshot", lambda: HudiTable.open(table).snapshot().to_table()
    yield "read optimized", lambda: HudiTable.open(table).read_optimized().to_table()
    for instant in (instants[0], instants[-1]):
        yield f"as of {instant}", partial(_rows_as_of, table, instant)
        yield f"after {instant}", partial(_rows_after, table, instant)


def _rows_as_of(table: Path, instant: str) -> pa.Table:
    return HudiTable.open(table).snapshot(as_of=instant).to_table()


def _rows_after(table: Path, instant: str) -> pa.Table:
    return HudiTable.open(table).incremental(after=instant).to_table()


def advised(finding: Finding, table: Path) -> Iterator[Path]:
    """What a finding advises to delete, which has to be among the advices that are known here."""
    remedy = finding.remedy or ""
    if not DELETING.search(remedy) or finding.path is None:
        return
    path = table / finding.path
    if "delete them" in remedy:
        base = parse_base_file_name(path.name)
        name = base or parse_log_file_name(path.name)
        assert name is not None
        yield from (data_file for data_file in data_files(table) if name.instant_time in data_file.name)
    elif "delete the others: " in remedy:
        yield from (table / name for name in re.findall(r"'([^']+)'", remedy.partition("delete the others: ")[2]))
    elif "delete its files from the timeline" in remedy:
        instant = re.split(r"[_.]", path.name)[0]
        yield from (
            timeline_file for timeline_file in timeline_files(table, "") if timeline_file.name.startswith(instant)
        )
    elif finding.check in ("heartbeats", "marker-folders"):
        yield path
    elif "delete_metadata_table" in remedy or "DROP INDEX" in remedy:
        # No data file goes.
        return
    else:
        raise AssertionError(f"an advice that is not known here: {finding}")
