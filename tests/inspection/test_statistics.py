"""Figures of tables, beside what their rows and files say."""

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiTable, QueryError
from hudi_bridge.inspection import (
    inspect_bootstrap,
    inspect_file_sizes,
    inspect_key_filters,
    inspect_overlap,
    inspect_partitions,
    inspect_properties,
    inspect_write_amplification,
)
from tests.support.compatibility_page import golden_tables
from tests.support.counting_files import CountingFileSystem
from tests.support.golden_cases import golden_bootstrapped, golden_table, spread
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at, sorted_column

ROW = {"id": "a", "ts": 1, "value": "x"}


def rows(*keys: str) -> list[dict[str, object]]:
    return [ROW | {"id": key} for key in keys]


@pytest.mark.parametrize("name", one_in(4, [table.name for table in spread(golden_tables(), 30)]))
def test_partitions_add_up(name: str) -> None:
    folder = golden_table(name)
    table = HudiTable.open(folder)
    slices = table.file_slices()
    shown = inspect_partitions(table).to_pylist()
    assert [row["partition_path"] for row in shown] == sorted({part.partition_path for part in slices})
    assert sum(row["file_slices"] for row in shown) == len(slices)
    assert sum(row["base_size_bytes"] + row["log_size_bytes"] for row in shown) == sum(
        part.base_size_bytes + part.log_size_bytes for part in slices
    )
    for row in shown:
        if row["base_rows"] is not None and table.config.base_file_format == "PARQUET":
            paths = [
                part.base_file.path
                for part in slices
                if part.partition_path == row["partition_path"] and part.base_file
            ]
            assert row["base_rows"] == sum(pq.read_metadata(folder / path).num_rows for path in paths)


def test_a_partition_and_its_values() -> None:
    table = HudiTable.open(golden_table("a_story_v9_120"))
    row = inspect_partitions(table).to_pylist()[0]
    assert (row["partition_path"], row["values"]) == ("a", [("part", "a")])
    assert row["newest_commit"] <= str(table.latest_instant)
    assert 0 < row["log_share"] < 1


def test_write_amplification(tmp_path: Path) -> None:
    table = HudiTable.open(golden_table("a_story_v9_120"))
    shown = {row["operation"]: row for row in inspect_write_amplification(table).to_pylist()}
    first = shown["BULK_INSERT"]
    assert (first["write_amplification"], first["rows_written"]) == (1.0, first["rows_changed"])
    writer = TableWriter(folder=tmp_path / "t").create()
    writer.commit(at(1))
    assert inspect_write_amplification(writer.open()).column("write_amplification").to_pylist() == [None]


def test_file_sizes(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t").create()
    sizes = []
    for number in (1, 2):
        files = [writer.base_file(at(number), rows(*"abc"[:number]), file_id=f"f{number}-{i}") for i in range(2)]
        writer.commit(at(number), wrote=files)
        sizes += [file.stat().st_size for file in files]
    every, first, second = inspect_file_sizes(writer.open()).to_pylist()
    assert (every["instant_time"], every["files"], every["total_bytes"]) == (None, 4, sum(sizes))
    assert (every["min_bytes"], every["max_bytes"]) == (min(sizes), max(sizes))
    assert [(row["instant_time"], row["files"], row["mean_bytes"]) for row in (first, second)] == [
        (at(1), 2, sum(sizes[:2]) / 2),
        (at(2), 2, sum(sizes[2:]) / 2),
    ]


def test_overlap(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t").create()
    keys = (("a", "c"), ("b", "d"), ("d", "e"), ("x", "z"))
    files = [writer.base_file(at(1), rows(*pair), file_id=f"f{number}-0") for number, pair in enumerate(keys)]
    writer.commit(at(1), wrote=files)
    by_column = {row["column"]: row for row in inspect_overlap(writer.open()).to_pylist()}
    assert set(by_column) == {"id", "ts", "value"}
    of_id = by_column["id"]
    # a-c meets b-d, which meets d-e; x-z stands alone.
    assert (of_id["mean_overlap"], of_id["max_overlap"], of_id["files_with_range"]) == (1.0, 2, 4)
    # Of the ends, b, c and d are in two files, and a, e, x and z in one.
    assert (of_id["mean_depth"], of_id["max_depth"]) == (10 / 7, 2)
    assert (by_column["ts"]["mean_overlap"], by_column["ts"]["p50_overlap"]) == (3.0, 3)
    assert inspect_overlap(writer.open(), ["id"]).column("column").to_pylist() == ["id"]
    with pytest.raises(QueryError, match="found 'ID', expected columns among"):
        inspect_overlap(writer.open(), ["ID"])


@pytest.mark.parametrize("name", ["g_logs_drop_readd_0150", "g_logs_type_string_0150"])
def test_files_in_which_a_column_has_another_type_have_no_range(name: str) -> None:
    shown = inspect_overlap(HudiTable.open(golden_table(name))).to_pylist()
    assert any(row["files_with_range"] < row["files"] for row in shown)


def test_key_filters() -> None:
    table = HudiTable.open(golden_table("a_story_v9_120"))
    keys = table.read_optimized().to_table(["_hoodie_record_key", "_hoodie_file_name"])
    for row in inspect_key_filters(table).to_pylist():
        own = keys.filter(pc.field("_hoodie_file_name") == row["path"].rpartition("/")[2])
        record_keys = sorted_column(own, "_hoodie_record_key")
        assert (row["min_record_key"], row["max_record_key"]) == (record_keys[0], record_keys[-1])
        assert row["rows"] == len(record_keys)
        assert (row["hash_functions"], row["filter_rows"], row["problem"]) == (30, 1, None)
        assert 0 <= row["false_positive_rate"] < 0.001


def test_a_damaged_footer_is_a_row(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t").create()
    files = [writer.base_file(at(1), rows("a"), file_id=f"f{number}-0", with_key_index=True) for number in range(2)]
    writer.commit(at(1), wrote=files)
    content = bytearray(files[0].read_bytes())
    content[-40:-10] = b"\xff" * 30
    files[0].write_bytes(content)
    damaged, whole = inspect_key_filters(writer.open()).to_pylist()
    assert files[0].name in damaged["problem"]
    assert (whole["problem"], whole["min_record_key"]) == (None, "a")


def test_a_damaged_footer_is_told_beside_the_ranges_of_the_others(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t").create()
    files = [writer.base_file(at(1), rows("a"), file_id=f"f{number}-0") for number in range(3)]
    writer.commit(at(1), wrote=files)
    files[0].write_bytes(files[0].read_bytes()[:-4] + b"PAR0")
    (row,) = inspect_overlap(writer.open(), ["id"]).to_pylist()
    assert (row["files"], row["files_with_range"], row["max_overlap"]) == (3, 2, 1)
    assert files[0].name in row["problem"]


def test_write_amplification_of_archived_commits() -> None:
    table = HudiTable.open(golden_table("d_archived_120"))
    active, every = (inspect_write_amplification(table, archived=archived).to_pylist() for archived in (False, True))
    assert [row for row in every if not row["archived"]] == active
    assert len(every) > len(active)
    assert all(row["rows_written"] for row in every)


def test_a_damaged_commit_is_a_row(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t", version=6, partition_fields=("value",)).create()
    for number in (1, 2):
        path = writer.base_file(at(number), rows("a"), file_id=f"f{number}-0", partition=f"p{number}")
        writer.commit(at(number), action="commit", wrote=[path])
    (writer.timeline_folder / f"{at(1)}.commit").write_bytes(b"{")
    table = writer.open()
    damaged, whole = inspect_write_amplification(table).to_pylist()
    assert (damaged["rows_written"], whole["problem"]) == (None, None)
    assert f"{at(1)}.commit" in damaged["problem"]
    first, second = inspect_partitions(table).to_pylist()
    assert (first["base_rows"], second["base_rows"], second["problem"]) == (None, 0, None)
    assert f"{at(1)}.commit" in first["problem"]


def test_footers_are_one_request_for_each_file() -> None:
    files = CountingFileSystem()
    table = HudiTable.open(str(golden_table("a_story_v9_120")), filesystem=files)
    table.splits()
    requests = files.reset()
    inspect_key_filters(table)
    assert set(requests.by_file.values()) == {1}
    assert all(name.endswith(".parquet") for name in requests.opened)


def test_the_files_that_a_table_was_bootstrapped_from() -> None:
    query = next(query for query in golden_bootstrapped() if query.case == "flat_v9")
    source = query.table.parent / "source"
    table = HudiTable.open(query.table, options={"hudi_bridge.bootstrap.source": str(source)})
    shown = inspect_bootstrap(table).to_pylist()
    assert shown
    for row in shown:
        assert (source / row["source_path"]).stat().st_size == row["source_size_bytes"]
    assert inspect_bootstrap(HudiTable.open(golden_table("a_story_v9_120"))).num_rows == 0


def test_properties() -> None:
    shown = {row["name"]: row for row in inspect_properties(HudiTable.open(golden_table("a_story_v9_120"))).to_pylist()}
    assert shown["hoodie.table.version"] == {
        "name": "hoodie.table.version",
        "value": "9",
        "default": None,
        "source": "hoodie.properties",
    }
    meta = shown["hoodie.populate.meta.fields"]
    assert (meta["value"], meta["default"]) == ("true", "true")
