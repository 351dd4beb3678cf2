"""Damage of every kind to every kind of file: the same rows, rows without a block that was skipped aloud, or one of our
errors. Never another exception, a hang, or a process that dies; and where a format has checks, never other rows.
"""

import logging
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_bridge import CorruptBaseFileError, CorruptLogFileError, HudiReadError, HudiTable
from hudi_bridge.logformat.parquet import decode_parquet_block
from tests.robustness.bombs import BOMBS
from tests.robustness.damaged_files import FILES, damaged
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at

Query = Callable[[HudiTable], pa.Table]


def snapshot(table: HudiTable) -> pa.Table:
    return table.snapshot().to_table(use_threads=False)


def since_the_beginning(table: HudiTable) -> pa.Table:
    return table.incremental("earliest").to_table(use_threads=False)


def changes(table: HudiTable) -> pa.Table:
    return table.changes("earliest").to_table(use_threads=False)


def schema_versions(table: HudiTable) -> pa.Table:
    return pa.table({"version": [str(version) for version in table.schema_history]})


DAMAGES = 12
"""Of each kind of file; with more, other seeds and other tables nothing else was found."""


QUERIES: dict[str, Query] = {
    "change data": changes,
    "archived log files": since_the_beginning,
    "archived Parquet": since_the_beginning,
    "schema history": schema_versions,
}
"""What reads the damaged files, where a snapshot does not."""


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.mark.parametrize("kind", one_in(4, FILES))
def test_damage_never_escapes_the_error_tree(tmp_path: Path, kind: str) -> None:
    (case, pattern), query = FILES[kind], QUERIES.get(kind, snapshot)
    table = tmp_path / "table"
    shutil.copytree(golden_table(case), table, ignore=shutil.ignore_patterns("metadata", "*.crc"))
    chance = random.Random(20261122)
    paths = sorted(path for path in table.glob(pattern) if path.stat().st_size)
    assert paths
    errors = 0
    for _ in range(DAMAGES):
        path = chance.choice(paths)
        whole = path.read_bytes()
        path.write_bytes(damaged(whole, chance))
        try:
            query(HudiTable.open(str(table)))
        except HudiReadError:
            errors += 1
        path.write_bytes(whole)
    assert errors


@pytest.mark.parametrize("case", ["a_story_v6_0150", "f_types_120"])
def test_a_damaged_base_file_gives_its_own_rows_or_an_error(tmp_path: Path, case: str) -> None:
    table = tmp_path / "table"
    shutil.copytree(golden_table(case), table, ignore=shutil.ignore_patterns("metadata", "*.crc"))
    dataset = HudiTable.open(str(table)).read_optimized()
    expected = rows_of(dataset.to_table(use_threads=False))
    chance = random.Random(20261122)
    path = min(path for path in table.glob("**/*.parquet") if ".hoodie" not in path.parts)
    assert any(split.base_path == str(path.relative_to(table)) for split in HudiTable.open(str(table)).splits())
    whole = path.read_bytes()
    errors = 0
    for _ in range(40):
        path.write_bytes(damaged(whole, chance))
        try:
            assert rows_of(dataset.to_table(use_threads=False)) == expected
        except CorruptBaseFileError:
            errors += 1
    assert errors


def bits(content: bytes) -> Iterator[bytes]:
    footer = int.from_bytes(content[-8:-4], "little") + 8
    for number in range(4, len(content) - footer):
        for bit in range(8):
            yield content[:number] + bytes([content[number] ^ 1 << bit]) + content[number + 1 :]


def plain_parquet(path: Path, rows: pa.Table) -> bytes:
    """Pages without checksums, in which a flipped bit may end a column early."""
    pq.write_table(rows, path, use_dictionary=False, write_statistics=False, write_page_checksum=False)
    return path.read_bytes()


def test_rows_of_a_parquet_block_are_counted(tmp_path: Path) -> None:
    whole = plain_parquet(tmp_path / "whole", pa.table({"a": [1, 2, 3]}))
    short = 0
    for content in bits(whole):
        try:
            rows = pq.ParquetFile(pa.BufferReader(content)).read()
        except (pa.ArrowException, OSError):
            continue
        if rows.num_rows != 3:
            short += 1
            with pytest.raises(CorruptLogFileError, match="3, as the footer says"):
                decode_parquet_block(pa.py_buffer(content), ["a"], "p", 0)
    assert short


def test_rows_of_a_base_file_are_counted(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path).create()
    path = table.base_file(at(1), [{"id": key, "ts": 1, "value": key} for key in "abc"])
    table.commit(at(1))
    rows = pq.read_table(path)
    whole = plain_parquet(path, rows)
    dataset = table.open().snapshot()
    short = 0
    for content in list(bits(whole))[: 8 * 60]:
        try:
            batches = list(pq.ParquetFile(pa.BufferReader(content)).iter_batches())
        except (pa.ArrowException, OSError):
            continue
        if sum(batch.num_rows for batch in batches) != 3:
            short += 1
            path.write_bytes(content)
            with pytest.raises(CorruptBaseFileError, match=r"3, as the footer says|readable Parquet"):
                dataset.to_table()
    assert short


@pytest.mark.long
def test_bombs_are_refused_by_a_process_that_lives_on() -> None:
    command = [sys.executable, "-m", "tests.robustness.bombs"]
    actual = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    outcomes = dict(line.split(": ", 1) for line in actual.stdout.splitlines())
    assert actual.returncode == 0, f"{actual.stdout}{actual.stderr}"
    assert {name for name in BOMBS if not outcomes.get(name, "").endswith("Error")} == set(), outcomes
