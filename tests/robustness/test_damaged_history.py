"""A damaged history of commits: a range has all of its rows, or there is an error of ours."""

import random
import shutil
from collections.abc import Iterator
from itertools import starmap
from pathlib import Path

import pytest

from hudi_bridge import HudiReadError, HudiTable
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in
from tests.support.table_writer import sorted_column

_DAMAGES_A_FILE = 8


def damaged(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """Versions of a file with a byte flipped, a stretch of zeros, or the end missing."""
    for _ in range(_DAMAGES_A_FILE):
        position = chance.randrange(len(data))
        yield data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]
        yield data[:position] + bytes(min(16, len(data) - position)) + data[position + 16 :]
        yield data[:position]


@pytest.mark.parametrize(
    ("case", "file"),
    one_in(
        2,
        starmap(
            pytest.param,
            [
                ("d_archived_0150", "archived/.commits_.archive.2_1-0-1"),
                ("d_archived_120", "timeline/history/manifest_10"),
                ("d_archived_120", "timeline/history/_version_"),
            ],
        ),
    ),
)
def test_a_range_is_whole_or_an_error(case: str, file: str, tmp_path: Path) -> None:
    folder = shutil.copytree(golden_table(case), tmp_path / "table")
    path = folder / ".hoodie" / file
    whole = path.read_bytes()
    snapshot, changed = keys_of(folder)
    errors = 0
    for version in damaged(whole, random.Random(9)):
        path.write_bytes(version)
        try:
            actual = keys_of(folder)
        except HudiReadError:
            errors += 1
            assert HudiTable.open(str(folder)).snapshot().count_rows() == len(snapshot)
        else:
            assert actual == (snapshot, changed)
    assert errors


def keys_of(folder: Path) -> tuple[list[str], list[str]]:
    """The record keys of the snapshot, and of the rows of all commits."""
    table = HudiTable.open(str(folder))
    snapshot, changed = (dataset.to_table() for dataset in (table.snapshot(), table.incremental("earliest")))
    return sorted_column(snapshot, "_hoodie_record_key"), sorted_column(changed, "_hoodie_record_key")
