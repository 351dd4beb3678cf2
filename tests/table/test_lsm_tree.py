"""LSM trees, by tables of version 9 that Hudi wrote: sorted files of the same records have the same answers."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hudi_bridge import HudiTable
from hudi_bridge.config import TableConfig, TableType
from hudi_bridge.splits import table_files
from tests.support.compare import differences
from tests.support.counting_files import CountingFileSystem
from tests.support.deviations import ANSWERED, NOT_A_NUMBER
from tests.support.golden_cases import golden_table
from tests.support.golden_queries import QUERIES, answer_of, dataset_of, rows_through_arrow
from tests.support.lsm_tables import lsm_tree
from tests.support.strength import one_in
from tests.support.version_10 import UNRELEASED

OTHERWISE = {
    "the base row is merged before all logs, not after them": {
        "b_default_mode_120",
        "b_event_time_111",
        "b_event_time_120",
        "b_event_time_decimal_120",
        "b_event_time_int_120",
        "b_event_time_payload_120",
        "b_event_time_string_120",
        "b_event_time_timestamp_120",
        "b_nondefaults_payload_120",
        "b_partial_update_payload_120",
        "q_ord_ts_pre_120",
    },
    "rows of one key in a base file are merged": {
        "e_duplicate_keys_120",
        "e_duplicate_keys_commit_time_120",
        "e_duplicate_keys_fill_120",
    },
    "logs outside of a range do not hide base rows": {"d_cleaned_120"},
    "there are partial updates, which are refused": {"b_sql_partial_120", "b_sql_partial_parquet_120", "n_pkless_120"},
    "there are log blocks that the tests do not write as native logs": {
        "b_multi_ordering_120",
        "b_mysql_debezium_120",
        "c_corrupt_block_120",
        "i_only_inflight_120",
    },
}
"""Tables whose answers may be others in an LSM tree, by the reason."""
SOME = {
    "a_story_v9_120",
    "b_commit_time_120",
    "c_parquet_blocks_120",
    "d_log_compaction_120",
    "g_sor_rename_readd_120",
    "h_column_stats_120",
    "i_cdc_120",
    "q_nometa_mor_120",
}
"""Tables that are read in each run of the tests."""


PARTS = 8


@cache
def trees() -> list[str]:
    """The tables whose logs become native ones, and whose answers stay the same."""
    names = sorted({case for case, _ in ANSWERED} - set().union(*OTHERWISE.values()))
    return [name for name in names if is_tree(HudiTable.open(golden_table(name)).config)]


def is_tree(config: TableConfig) -> bool:
    return config.table_version == 9 and config.table_type is TableType.MERGE_ON_READ


def wrong_answers(case: str, folder: Path) -> dict[str, list[str]]:
    table = lsm_tree(case, folder).open()
    assert table.config.is_lsm_tree
    queries = [QUERIES[key] for key in sorted(ANSWERED - NOT_A_NUMBER) if key[0] == case]
    assert queries
    actual = {query.name: rows_through_arrow(dataset_of(query, table), query) for query in queries}
    wrong = {query.name: differences(answer_of(query), actual[query.name]) for query in queries}
    return {name: lines for name, lines in wrong.items() if lines}


@pytest.mark.parametrize("case", one_in(3, sorted(SOME)))
def test_answers_of_hudi_hold_in_lsm_trees(tmp_path: Path, case: str) -> None:
    assert wrong_answers(case, tmp_path) == {}


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_answers_of_hudi_hold_in_every_lsm_tree(tmp_path: Path, part: int) -> None:
    cases = trees()
    assert len(cases) > 120
    assert {case: wrong for case in cases[part::PARTS] if (wrong := wrong_answers(case, tmp_path))} == {}


def test_the_metadata_table_of_a_tree_tells_its_sorted_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # It lists the files, of few folders too; from a store, they are read by the sizes that it tells.
    monkeypatch.setattr(table_files, "_FEW_FOLDERS", 0)
    tree = lsm_tree("a_story_v9_120", tmp_path)
    listed = HudiTable.open(tree.folder, filesystem=CountingFileSystem(), options=UNRELEASED)
    assert differences(tree.open().snapshot().to_table(), listed.snapshot().to_table()) == []


@pytest.mark.parametrize("case", sorted(OTHERWISE["rows of one key in a base file are merged"]))
def test_no_key_is_twice_beside_logs(tmp_path: Path, case: str) -> None:
    table = lsm_tree(case, tmp_path).open()
    keys: list[Any] = table.snapshot().to_table()["_hoodie_record_key"].to_pylist()
    assert keys == sorted(set(keys))
