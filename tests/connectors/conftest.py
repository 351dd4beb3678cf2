from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.connectors.damage import copy_with_damaged_logs


@pytest.fixture
def damaged_table(tmp_path: Path) -> Path:
    return copy_with_damaged_logs("a_story_v9_120", tmp_path)


@pytest.fixture
def columns_read(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The columns that are read of Parquet files, one set for each time that a file is read."""
    read: list[set[str]] = []
    iter_batches: Any = pq.ParquetFile.iter_batches

    def spy(file: Any, *arguments: Any, columns: Any, **options: Any) -> Any:
        read.append(set(columns))
        return iter_batches(file, *arguments, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
    return read
