from pathlib import Path

import pytest

from hudi_bridge.common.caching import memory_bytes

MISSING = Path("/nowhere/memory.max")


@pytest.mark.parametrize(("text", "limited"), [("1048576\n", True), ("max\n", False), ("9223372036854771712\n", False)])
def test_the_memory_of_a_container_counts_where_it_is_less(tmp_path: Path, text: str, limited: bool) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(text)
    whole = memory_bytes(())
    assert whole > 1 << 20
    assert memory_bytes((MISSING, limit)) == (1 << 20 if limited else whole)
