"""Damage of every kind, and all golden tables: what cannot be read is a row that says so, and the rest is shown."""

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_bridge import CorruptTimelineError, HudiReadError, HudiTable
from hudi_bridge.inspection import VIEWS, inspect_all_slices, inspect_log_blocks
from tests.robustness.damaged_files import FILES, damaged
from tests.support.compatibility_page import golden_tables
from tests.support.golden_cases import golden_merger_table, golden_table, spread
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at

OF_SNAPSHOT = ("_file_slices", "_files", "_partitions", "_file_sizes", "_overlap", "_key_filters", "_bootstrap")
"""Views of the files of a snapshot, which are unknown if a commit or a plan is damaged."""
DAMAGES = 5
ROW = {"id": "a", "ts": 1, "value": "x"}


@pytest.mark.parametrize("kind", one_in(4, [kind for kind in FILES if kind != "schema history"]))
def test_damage_is_a_row(kind: str, tmp_path: Path) -> None:
    case, pattern = FILES[kind]
    table = tmp_path / "table"
    shutil.copytree(golden_table(case), table, ignore=shutil.ignore_patterns("metadata", "*.crc"))
    chance = random.Random(20261127)
    paths = sorted(path for path in table.glob(pattern) if path.stat().st_size)
    problem_count = 0
    for _ in range(DAMAGES):
        path = chance.choice(paths)
        whole = path.read_bytes()
        path.write_bytes(damaged(whole, chance))
        problem_count += problems(HudiTable.open(table))
        path.write_bytes(whole)
    assert problem_count


def problems(table: HudiTable) -> int:
    """The rows of all views that tell of a problem."""
    problem_count = 0
    for suffix, view in VIEWS.items():
        try:
            shown = view.rows(table, None)
        except CorruptTimelineError:
            # Without the columns of the table, its records cannot be decoded.
            assert suffix in (*OF_SNAPSHOT, "_log_records")
        except HudiReadError:
            assert suffix in OF_SNAPSHOT
        else:
            problem_count += number_of_problems(shown)
    return problem_count


def number_of_problems(shown: pa.Table) -> int:
    return shown.num_rows - shown.column("problem").null_count if "problem" in shown.schema.names else 0


@pytest.mark.parametrize("name", one_in(7, [table.name for table in spread(golden_tables(), 60)]))
def test_whole_tables_have_no_problems(name: str) -> None:
    table = HudiTable.open(golden_table(name))
    for suffix, view in VIEWS.items():
        shown = view.rows(table, None)
        if view.schema is not None:
            assert shown.schema == view.schema
        assert number_of_problems(shown) == 0 or (suffix.startswith("_log_") and "corrupt" in name), suffix


def test_no_view_needs_a_payload_of_the_users() -> None:
    for folder in sorted(golden_merger_table().parent.iterdir()):
        table = HudiTable.open(folder / "table")
        assert sum(number_of_problems(view.rows(table, None)) for view in VIEWS.values()) == 0


def test_slices_are_shown_beside_a_plan_that_cannot_be_read(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t", version=9).create()
    writer.commit(at(1), wrote=[writer.base_file(at(1), [ROW])])
    log = writer.log_file(at(2), [writer.data_block(at(2), [ROW])])
    writer.commit(at(2), wrote=[log])
    (writer.timeline_folder / f"{at(3)}.compaction.requested").write_bytes(b"Obj\x01")
    (row,) = inspect_all_slices(writer.open()).to_pylist()
    assert (row["state"], row["log_files"], row["waits_for_cleaner"]) == ("unknown", 1, False)
    assert f"{at(3)}.compaction.requested" in row["problem"]
    (block,) = inspect_log_blocks(writer.open()).to_pylist()
    assert (block["rows"], block["counts"]) == (1, False)
    assert block["why_not"] == "unknown: what became of its file slice cannot be told"
