"""A metadata table with a file that is lost, cut off or another's changes no answer, and the doctor sees it."""

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import tools
from hudi_bridge.indexes import data_skipping
from hudi_bridge.options import METADATA_TABLE_KEY
from hudi_bridge.splits import table_files
from hudi_bridge.table import HudiTable
from hudi_bridge.tools.checks.findings import Severity
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in

OFF = {METADATA_TABLE_KEY: "false"}
OTHERS = {
    "files": "h_sql_indexes_updated_102",
    "record_index": "h_secondary_index_updated_120",
    "column_stats": "h_sql_indexes_updated_102",
    "partition_stats": "h_sql_indexes_updated_102",
    "bloom_filters": "h_bloom_mdt_120",
    "secondary_index_idx_city": "h_secondary_index_updated_120",
    "expr_index_idx_low": "h_expression_index_102",
}
"""Another table with the partition, or with one of its kind."""
CASES = [
    *(("h_all_indexes_120", name) for name in ("bloom_filters", "column_stats", "files", "partition_stats")),
    *(("h_sql_indexes_updated_102", name) for name in ("expr_index_idx_low", "secondary_index_idx_city")),
    ("h_partitioned_record_index_120", "record_index"),
    ("h_record_index_0150", "record_index"),
]

COLUMNS = ("_hoodie_record_key", "city", "name", "ts")
Question = Callable[[HudiTable], pa.Table]


@pytest.fixture(autouse=True)
def _of_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables here have few folders."""
    monkeypatch.setattr(table_files, "_FEW_FOLDERS", 0)
    monkeypatch.setattr(data_skipping, "_FEW_PARTITIONS", 0)


def written(path: Path) -> str:
    """The instant in the name of a file of the metadata table."""
    match = re.search(r"_(\d{14,20})(?:\.|$)", path.name)
    assert match is not None
    return match[1]


def data_files(folder: Path, *, is_log: bool) -> list[Path]:
    """The base files or logs of a partition that hold records, oldest first."""
    files = [path for path in folder.iterdir() if path.suffix != ".crc" and path.name.startswith(".") == is_log]
    return sorted((path for path in files if path.stat().st_size > 100), key=lambda path: (written(path), path.name))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def as_another(path: Path) -> None:
    """The largest file of the kind that another table has takes the name of ``path``."""
    partition = path.parent.name
    metadata = golden_table(OTHERS[partition]) / ".hoodie/metadata"
    folder = next(metadata.glob(f"{partition.partition('_idx')[0]}*"))
    files = data_files(folder, is_log=path.name.startswith("."))
    path.write_bytes(max((file.read_bytes() for file in files), key=len))


def as_sibling(path: Path) -> None:
    """The largest log of another instant takes the name of ``path``."""
    logs = [log for log in data_files(path.parent, is_log=True) if written(log) != written(path)]
    path.write_bytes(max((log.read_bytes() for log in logs), key=len))


def emptied_with_commit(path: Path) -> None:
    """As a power failure leaves what was written last."""
    timeline = path.parent.parent / ".hoodie"
    for commit in (*timeline.glob(f"{written(path)}*.deltacommit"), *timeline.glob(f"*/{written(path)}*.deltacommit")):
        commit.write_bytes(b"")
    path.write_bytes(b"")


DAMAGES: Mapping[str, tuple[bool, Callable[[Path], object]]] = {
    "no log": (True, Path.unlink),
    "an empty log": (True, lambda path: path.write_bytes(b"")),
    "a cut log": (True, cut),
    "another table's log": (True, as_another),
    "another instant's log": (True, as_sibling),
    "an empty log of an empty commit": (True, emptied_with_commit),
    "no base file": (False, Path.unlink),
    "a cut base file": (False, cut),
    "another table's base file": (False, as_another),
}


def questions(table: HudiTable) -> Iterator[tuple[str, Question]]:
    """Questions of all kinds, with values of the row that was written last."""
    rows = table.snapshot().to_table().sort_by([("_hoodie_commit_time", "descending")])
    key = str(rows["_hoodie_record_key"][0])
    conditions = {name: pc.field(name) == rows[name][0] for name in COLUMNS if name in rows.column_names}
    conditions["oldest"] = pc.field("ts") <= pc.min(rows["ts"])
    yield "get", lambda table: table.get(key)
    yield "read optimized", lambda table: table.read_optimized().to_table()
    yield "range", lambda table: table.incremental("earliest").to_table(filter=pc.field("ts") >= rows["ts"][0])
    for name, condition in conditions.items():
        yield name, partial(filtered, condition=condition)


def filtered(table: HudiTable, condition: pc.Expression) -> pa.Table:
    return table.snapshot().to_table(filter=condition)


@cache
def answers(case: str) -> Mapping[str, tuple[Question, pa.Table]]:
    table = HudiTable.open(golden_table(case), options=OFF)
    return {name: (question, question(table)) for name, question in questions(table)}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("case", "partition", "damage"),
    one_in(11, (pytest.param(*case, damage) for case, damage in product(CASES, DAMAGES))),
)
def test_no_answer_changes(tmp_path: Path, case: str, partition: str, damage: str) -> None:
    table = Path(shutil.copytree(golden_table(case), tmp_path / "table"))
    is_log, apply = DAMAGES[damage]
    path = data_files(table / f".hoodie/metadata/{partition}", is_log=is_log)[-1]
    apply(path)
    damaged = HudiTable.open(table)
    for name, (question, answer) in answers(case).items():
        assert differences(answer, question(damaged)) == [], name
    findings = [finding for finding in tools.doctor(damaged).findings if finding.check == "metadata-table"]
    lost = partition if "commit" not in damage else written(path)
    assert any(lost in str(finding.path) and finding.severity is Severity.ERROR for finding in findings), findings
