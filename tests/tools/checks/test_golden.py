"""No false alarm: what the doctor finds in tables that Hudi has written is what is wrong with them."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hudi_bridge.tools.checks.examination import examine
from hudi_bridge.tools.checks.findings import Severity
from tests.support.golden_cases import ARCHIVES, _unpacked
from tests.support.strength import one_in

INSTANT = re.compile(r"20\d{12}")
NOW = "20261123000000"
"""More than a day after most of the tables were written."""
CUT = frozenset({"log-sizes", "log-blocks"})
PENDING = frozenset({"pending-actions"})
BACKDATED = frozenset({"timeline-order"})
KNOWN: dict[str, frozenset[str]] = {
    # Log files that the generator has put together into one, and damaged.
    "c_corrupt_garbage_0150": frozenset({"log-blocks"}),
    "c_corrupt_middle_0150": CUT,
    "c_corrupt_size_0150": frozenset({"log-blocks"}),
    "c_corrupt_tail_0150": CUT,
    "c_corrupt_tail_120": CUT,
    "c_corrupt_block_120": frozenset({"log-blocks"}),
    # Actions that have not ended.
    "c_inflight_leftover_0150": PENDING,
    "c_inflight_leftover_0150_nomdt": PENDING,
    "c_inflight_leftover_120": PENDING,
    "c_inflight_middle_0150": PENDING,
    "c_inflight_middle_120": PENDING,
    "c_requested_only_120": PENDING,
    "d_clustering_pending_0150": PENDING,
    "d_clustering_pending_111": PENDING,
    "d_log_only_pending_0150": PENDING,
    "d_log_only_pending_120": PENDING,
    "d_pending_compaction_0150": PENDING,
    "d_pending_compaction_120": PENDING,
    "d_pending_compaction_inflight_120": PENDING,
    "d_pending_compaction_v6_by120": PENDING,
    "i_only_inflight_0150": PENDING,
    "i_only_inflight_120": PENDING,
    # Upgraded while a compaction was pending, which loses log files.
    "m_auto_pending_120": frozenset({"logs-of-compactions"}),
    "m_call_pending_120": frozenset({"logs-of-compactions"}),
    # Instants that are long before the clock, as XTable takes them from the commits of another table.
    **{f"external/{name}_v9": BACKDATED for name in ("flat", "prefixes", "parts")},
    "java_client/record_index_v9": BACKDATED,
    "external/without_ending_v9": BACKDATED | {"properties"},
    # A name with a slash, of a log file that a repeated task has written.
    "log_with_store_in_path_102": frozenset({"metadata-files"}),
    # Later writes to a file group that an overwrite had replaced, which a clean has deleted.
    "cleaned_newest_slice_120": frozenset({"missing-files"}),
    # Upgraded after a rollback: log files were named after their base file before.
    "rolled_back_before_upgrade_102": frozenset({"log-instants"}),
    # Base files with more values than rows, as Hudi 1.0 has written them.
    "torn_by_writer_102": frozenset({"base-footers"}),
}
KNOWN_DEEP = {"q_cdc_move_120": frozenset({"keys-twice"})}
"""Hudi itself returns two rows for a key that has moved to another partition and back."""
DEEP = ("h", "q_cdc_move_120", "trips", "variants")
"""The archives, or names in them, of which all data are read."""


@pytest.mark.heavy
@pytest.mark.parametrize(
    "archive", one_in(5, sorted(path.name.partition(".")[0] for path in ARCHIVES.glob("*.tar.xz")))
)
def test_nothing_else_is_wrong_with_golden_tables(archive: str) -> None:
    tables = _tables(_unpacked(ARCHIVES / f"{archive}.tar.xz"))
    assert tables
    for name, table in tables.items():
        deep = archive in DEEP or name in DEEP
        expected = KNOWN.get(name, KNOWN.get(f"{archive}/{name}", frozenset())) | (
            KNOWN_DEEP.get(name, frozenset()) if deep else frozenset()
        )
        diagnosis = examine(table, deep=deep, now=_now(table))
        alarms = [finding for finding in diagnosis.findings if finding.severity >= Severity.WARNING]
        assert {finding.check for finding in alarms} == expected, (name, list(map(str, alarms)))


def _now(table: Path) -> str:
    """An hour after the newest instant of a table that was written later than ``NOW``."""
    instants = [actual[0] for path in (table / ".hoodie").rglob("*") if (actual := INSTANT.match(path.name))]
    newest = datetime.strptime(max(instants, default=NOW), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    return max(NOW, f"{newest + timedelta(hours=1):%Y%m%d%H%M%S}")


def _tables(folder: Path) -> dict[str, Path]:
    """The tables below a folder by the name of their case."""
    actual = [path.parent for path in folder.rglob("hoodie.properties") if path.parts.count(".hoodie") == 1]
    tables = [path.parent for path in actual]
    return {"/".join(table.relative_to(folder).parts).removesuffix("/table"): table for table in tables}
