"""The sample tables that come with the package."""

import io
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiTable, QueryError, RecordMerger, RecordPayload, samples

TABLES = ("counters", "customers", "lake/sales/refunds", "lake/trips", "riders", "riders_by_name", "scores", "trips")


def stamps(folder: Path) -> dict[str, int]:
    return {path.relative_to(folder).as_posix(): path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    samples.unpack(folder)
    return folder


def test_all_tables_are_unpacked_and_nothing_else(tmp_path: Path) -> None:
    names = samples.unpack(tmp_path / "new" / "folder")
    unpacked = tmp_path / "new" / "folder"
    assert names == sorted(path.name for path in unpacked.iterdir())
    assert {path.parents[1].relative_to(unpacked).as_posix() for path in unpacked.rglob("hoodie.properties")} == set(
        TABLES
    )


class Counts(RecordPayload):
    def combine_and_get_update_value(self, current: Mapping[str, Any], incoming: Mapping[str, Any]) -> dict[str, Any]:
        return {**incoming, "count": current["count"] + incoming["count"]}


class Addresses(RecordPayload):
    def combine_and_get_update_value(self, current: Mapping[str, Any], incoming: Mapping[str, Any]) -> dict[str, Any]:
        newer = incoming if incoming["address_changed"] >= current["address_changed"] else current
        return {**incoming, "address": newer["address"], "address_changed": newer["address_changed"]}


class HighestScore(RecordMerger):
    def merge(self, older: Mapping[str, Any], newer: Mapping[str, Any]) -> Mapping[str, Any]:
        return newer if newer["score"] >= older["score"] else older


PAYLOADS = {
    "com.acme.CounterPayload": Counts(),
    "com.acme.AddressPayload": Addresses(),
    "6d3f0c1e-52a4-4f0b-9a55-0e6b2f7a1c11": HighestScore(),
}
"""What the classes in tests/golden do, in Python."""


@pytest.mark.parametrize("table", TABLES)
def test_the_rows_are_those_of_hudi(folder: Path, table: str) -> None:
    rows = HudiTable.open(folder / table, payloads=PAYLOADS).snapshot().to_table()
    answer = pq.read_table(io.BytesIO(samples.answer_of_hudi(table)))
    assert sorted(map(str, rows.to_pylist())) == sorted(map(str, answer.to_pylist()))
    assert rows.num_rows > 0


def test_the_archive_is_small() -> None:
    assert len(samples._stored()) < 200_000


def test_without_a_folder_a_table_is_unpacked_once_into_the_cache_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = Path(samples.trips())
    assert path.is_relative_to(tmp_path / "cache" / "hudi-bridge")
    assert HudiTable.open(path).snapshot().count_rows() == 12
    before = stamps(path)
    assert samples.trips() == str(path)
    assert stamps(path) == before


def test_by_default_the_cache_is_in_the_home_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Path(samples.trips()).is_relative_to(tmp_path / ".cache" / "hudi-bridge")


def test_what_has_the_name_of_a_table_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "trips").mkdir()
    (tmp_path / "trips" / "mine").touch()
    with pytest.raises(QueryError, match="something else than the sample"):
        samples.trips(tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["trips", "mine"]


def test_a_table_that_has_lost_a_file_is_not_taken_for_the_sample(tmp_path: Path) -> None:
    (base, *_) = Path(samples.trips(tmp_path)).glob("sf/*.parquet")
    base.unlink()
    with pytest.raises(QueryError, match="something else than the sample"):
        samples.trips(tmp_path)


def test_many_may_unpack_at_the_same_time(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        paths = set(threads.map(lambda _: samples.trips(tmp_path), range(16)))
    assert paths == {str(tmp_path / "trips")}
    assert [path.name for path in tmp_path.iterdir()] == ["trips"]
