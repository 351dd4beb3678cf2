"""Look-ups by the key ranges and Bloom filters of the metadata table find the same rows, with fewer requests."""

import base64
import logging
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge.config import QueryType
from hudi_bridge.indexes import key_index
from hudi_bridge.indexes.footer_index import LookupKeys
from hudi_bridge.indexes.key_index import KEY_RANGES, KeyIndexOfTable, key_ranges
from hudi_bridge.indexes.metadata_table import MetadataTable
from hudi_bridge.indexes.record_kinds import VALUE
from hudi_bridge.options import METADATA_TABLE_KEY
from hudi_bridge.split_reader import open_reader
from hudi_bridge.table import HudiTable
from tests.support.compare import differences
from tests.support.counting_files import CountingFileSystem
from tests.support.golden_cases import golden_table
from tests.support.strength import examples, one_in

TABLES = ("h_all_indexes_120", "h_bloom_mdt_120", "h_column_stats_0150", "h_column_stats_120")
KEY = "_hoodie_record_key"


class BaseFiles:
    """The base files of a table, with the keys of each, and the indexes."""

    def __init__(self, name: str) -> None:
        table = HudiTable.open(golden_table(name))
        self.storage = table.storage
        self.splits = table.splits(query_type=QueryType.READ_OPTIMIZED)
        self.keys = [_keys(pa.Table.from_batches(open_reader(split).batches())) for split in self.splits]
        self.index = KeyIndexOfTable(table._state, lambda: MetadataTable(table._state))

    def may_hold(self, keys: Iterable[str]) -> Sequence[bool | None]:
        expected = set(keys)
        verdicts = self.index.may_hold(self.storage, self.splits, LookupKeys.of(expected))
        assert self.index.why_not == {}
        for verdict, present in zip(verdicts, self.keys, strict=True):
            assert verdict is not False or not present & expected
        return verdicts


def _keys(rows: pa.Table) -> set[str]:
    return {str(key) for key in rows.column(KEY).to_pylist()}


@pytest.fixture(params=TABLES, scope="module")
def files(request: pytest.FixtureRequest) -> BaseFiles:
    return BaseFiles(request.param)


@settings(max_examples=examples(20), deadline=None)
@given(
    numbers=st.sets(st.integers(-5, 1000), min_size=1, max_size=40), ending=st.sampled_from(["", "x", "\ue000", "𝄞"])
)
def test_no_base_file_with_a_key_is_left_out(files: BaseFiles, numbers: set[int], ending: str) -> None:
    files.may_hold([*(f"k{number:05d}" for number in numbers), f"k{min(numbers):05d}{ending}"])


def test_most_base_files_are_left_out(files: BaseFiles) -> None:
    (key,) = sorted(files.keys[0])[:1]
    verdicts = files.may_hold([key])
    assert verdicts.count(False) > len(verdicts) // 2
    assert verdicts[0] is not False
    assert set(files.may_hold(["nowhere", "zzz"])) == {False}
    everything = {key for keys in files.keys for key in keys}
    assert False not in files.may_hold(everything)


@pytest.mark.parametrize("name", one_in(2, TABLES[1:]))
def test_a_look_up_reads_fewer_footers(name: str) -> None:
    reads, rows = [], []
    for options in ({}, {METADATA_TABLE_KEY: "false"}):
        filesystem = CountingFileSystem()
        table = HudiTable.open(golden_table(name), filesystem, options)
        assert len(table.splits()) > key_index._FEW_FILES
        requests = filesystem.reset()
        rows.append(table.get(["k00155", "k00156x", "nowhere"]))
        reads.append(requests.reads)
        requests = filesystem.reset()
        assert differences(rows[0], table.get(["k00155"])) == []
        # The footer, the key column, the other columns.
        assert requests.reads <= 3
    assert rows[0].num_rows == 1
    assert differences(*rows) == []
    assert reads[0] < reads[1] - 10


def test_few_files_are_no_reason_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    table = HudiTable.open(golden_table("h_bloom_mdt_120"))
    monkeypatch.setattr(key_index, "_FEW_FILES", len(table.splits()))
    index = KeyIndexOfTable(table._state, lambda: pytest.fail("the metadata table is opened"))
    verdicts = index.may_hold(table.storage, table.splits(), LookupKeys.of(["k00155"]))
    assert set(verdicts) == {None}


def full_filter() -> bytes:
    head = (-1).to_bytes(4, "big", signed=True) + (7).to_bytes(4, "big") + b"\1" + (64).to_bytes(4, "big")
    return base64.b64encode(head + b"\xff" * 8)


def test_a_full_or_missing_filter_is_left_to_the_footer(monkeypatch: pytest.MonkeyPatch) -> None:
    files = BaseFiles("h_bloom_mdt_120")
    monkeypatch.setattr(key_index, "stored_filters", lambda _, of: [("SIMPLE", full_filter()), None] * (len(of) // 2))
    assert set(files.may_hold(["nowhere"])) == {None}


def test_a_range_in_which_orders_differ_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    files = BaseFiles("h_column_stats_120")
    ends = {"low": pa.array([None] * len(files.splits), pa.string()), "high": pa.nulls(len(files.splits), pa.string())}
    monkeypatch.setattr(key_index, "key_ranges", lambda *_: pa.table(ends, schema=KEY_RANGES))
    assert set(files.may_hold(["zzz"])) == {None}


@pytest.mark.parametrize(("nulls", "known"), [(0, ("k1", "k5")), (3, (None, None)), (None, (None, None))])
def test_a_range_without_all_row_groups_is_not_known(
    monkeypatch: pytest.MonkeyPatch, nulls: int | None, known: tuple[str | None, str | None]
) -> None:
    def stats(_table: MetadataTable, _column: str, keys: Sequence[str]) -> pa.Table:
        ends = {f"{end}_value": pa.array([{"string": key}], VALUE) for end, key in (("min", "k1"), ("max", "k5"))}
        return pa.table({"key": keys, "null_count": pa.array([nulls], pa.int64()), **ends})

    monkeypatch.setattr(key_index, "stats_of_files", stats)
    table = MetadataTable(HudiTable.open(golden_table("h_column_stats_120"))._state)
    (actual,) = key_ranges(table, [("a", "f.parquet")]).to_pylist()
    assert tuple(actual.values()) == known


@pytest.mark.parametrize("partition", ["bloom_filters", "column_stats"])
@pytest.mark.parametrize("damage", one_in(2, [b"\0", b"\xff"]))
def test_damaged_indexes_are_reported_once_and_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, partition: str, damage: bytes
) -> None:
    copy = tmp_path / "t"
    name = "h_bloom_mdt_120" if partition == "bloom_filters" else "h_column_stats_120"
    shutil.copytree(golden_table(name), copy)
    for path in (copy / ".hoodie/metadata" / partition).iterdir():
        if path.suffix == ".hfile":
            path.write_bytes(damage * path.stat().st_size)
    table = HudiTable.open(copy)
    expected = table.snapshot().to_table().filter(pc.field(KEY).isin(["k00155", "k00420"]))
    with caplog.at_level(logging.WARNING, "hudi_bridge"):
        for _ in range(2):
            assert differences(expected, table.get(["k00155", "k00420", "nowhere"])) == []
    assert sum(f"{partition} of the metadata table are not used" in record.message for record in caplog.records) == 1
    assert list(table._indexes.key_index.why_not) == [partition]
