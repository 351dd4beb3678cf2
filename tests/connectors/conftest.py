from pathlib import Path

import pytest

from tests.connectors.damage import copy_with_damaged_logs


@pytest.fixture
def damaged_table(tmp_path: Path) -> Path:
    return copy_with_damaged_logs("a_story_v9_120", tmp_path)
