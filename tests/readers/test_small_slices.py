from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge import HudiTable
from hudi_bridge.errors import CorruptBaseFileError, DataFileGoneError, HudiReadError
from hudi_bridge.merge.arrays import Column
from hudi_bridge.readers import small_slices
from hudi_bridge.readers.base_formats.opening import open_base_file
from hudi_bridge.readers.base_formats.small_parquet import SmallParquetFile
from hudi_bridge.readers.blobs import BatchReader
from hudi_bridge.readers.realtime_compacted import slice_reader
from hudi_bridge.readers.request import RowRequest, SliceRead, SplitRead
from hudi_bridge.readers.small_slices import MAX_SLICES, SmallSlices, small_groups
from hudi_bridge.readers.split_columns import record_keys
from hudi_bridge.split_reader import reader_for, with_small_ones_together
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in
from tests.support.table_writer import Row, TableWriter, at, record_positions

# Tables with several small slices: by position and by key, with partitions in the path, several releases, and columns
# that were renamed.
TABLES = (
    "a_story_v5_0122",
    "b_default_payload_0150",
    "b_partial_update_payload_0150",
    "d_bucket_index_0150",
    "e_composite_keys_0150",
    "e_multilevel_0150",
    "e_urlencode_0150",
    "h_column_stats_120",
    "l_storm_120",
)


def slices_of(path: Path) -> tuple[RealtimeFileSplit, ...]:
    return tuple(part for split in HudiTable.open(path).snapshot().splits() for part in split.slices)


def row(key: str, ts: int, value: str) -> Row:
    return {"id": key, "ts": ts, "value": value}


def rows_of(
    storage: Storage,
    parts: Sequence[RealtimeFileSplit | SmallSlices],
    columns: list[str] | None,
    keys: "Column | None" = None,
) -> pa.Table:
    schema = parts[0].context.schema
    request = replace(RowRequest.of(schema, columns), record_keys=keys)
    reads = [SplitRead(storage=storage, split=part, request=request, use_threads=False) for part in parts]
    actual = [batch for read in reads for batch in reader_for(read).batches()]
    return pa.Table.from_batches(actual, pa.schema([schema.field(name) for name in request.columns]))


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[RealtimeFileSplit]:
    """The slices that are read alone."""
    actual: list[RealtimeFileSplit] = []

    def noting(read: SliceRead) -> BatchReader:
        actual.append(read.split)
        return slice_reader(read)

    monkeypatch.setattr(small_slices, "slice_reader", noting)
    return actual


@pytest.mark.parametrize("name", one_in(4, TABLES))
def test_slices_have_the_same_rows_together_as_alone(name: str, alone: list[RealtimeFileSplit]) -> None:
    slices = slices_of(golden_table(name))
    assert len(slices) > 2
    storage = slices[0].context.open_storage()
    for columns in (None, slices[0].context.schema.names[-1:]):
        expected = rows_of(storage, slices, columns)
        alone.clear()
        actual = rows_of(storage, [SmallSlices(slices=slices)], columns)
        assert differences(expected, actual) == []
        assert not alone


@pytest.mark.heavy
@pytest.mark.parametrize("name", one_in(4, [*TABLES, "e_virtual_keys_120", "b_sql_partial_120"]))
def test_rows_of_keys_are_the_same_together_as_alone(name: str, alone: list[RealtimeFileSplit]) -> None:
    slices = slices_of(golden_table(name))
    storage, context = slices[0].context.open_storage(), slices[0].context
    batches = rows_of(storage, slices, list(context.key_columns)).combine_chunks().to_batches()
    actual = sorted({str(key) for batch in batches for key in record_keys(batch, context).to_pylist()})
    for names in ([*actual[::2], "none"], actual[-1:], ["none"]):
        keys = pa.array(names, pa.string())
        for columns in (None, context.schema.names[-1:]):
            expected = rows_of(storage, slices, columns, keys)
            alone.clear()
            assert differences(expected, rows_of(storage, [SmallSlices(slices=slices)], columns, keys)) == []
            assert (expected.num_rows > 0) == (names != ["none"])
            assert not alone


@pytest.mark.parametrize("is_by_position", [False, True])
def test_equal_keys_of_different_slices_stay_apart(
    tmp_path: Path, alone: list[RealtimeFileSplit], is_by_position: bool
) -> None:
    table = TableWriter(folder=tmp_path).create()
    for number in range(3):
        table.base_file(at(1), [row("a", 1, f"a{number}"), row("b", 1, f"b{number}")], file_id=f"f{number}-0")
    table.commit(at(1))
    for number, keys in enumerate(("a", "b", "ab")):
        positions = record_positions(["ab".index(key) for key in keys], at(1)) if is_by_position else None
        changed = [row(key, 2, f"new {key}{number}") for key in keys]
        table.log_file(at(2), [table.data_block(at(2), changed, positions=positions)], file_id=f"f{number}-0")
    table.commit(at(2))
    slices = slices_of(tmp_path)
    actual = rows_of(slices[0].context.open_storage(), [SmallSlices(slices=slices)], ["value"])
    assert sorted(map(str, actual["value"].to_pylist())) == ["a1", "b0", "new a0", "new a2", "new b1", "new b2"]
    assert not alone


@pytest.fixture
def table(tmp_path: Path) -> TableWriter:
    """Three base files of a row each, with a log of another key."""
    table = TableWriter(folder=tmp_path).create()
    for number in range(3):
        table.base_file(at(1), [row(f"k{number}", 1, "old")], file_id=f"f{number}-0")
    table.commit(at(1))
    for number in range(3):
        table.log_file(at(2), [table.data_block(at(2), [row("added", 2, "new")])], file_id=f"f{number}-0")
    table.commit(at(2))
    return table


def test_slices_whose_positions_do_not_fit_are_read_alone(table: TableWriter, alone: list[RealtimeFileSplit]) -> None:
    # The block tells the position of another key, which only a comparison of keys finds out.
    block = table.data_block(at(3), [row("k0", 3, "newer")], positions=record_positions([7], at(1)))
    table.log_file(at(3), [block], file_id="f0-0")
    table.commit(at(3))
    slices = slices_of(table.folder)
    storage = slices[0].context.open_storage()
    assert rows_of(storage, [SmallSlices(slices=slices)], None).num_rows == 6
    assert not alone
    block = table.data_block(at(2), [row("k1", 3, "newer")], positions=record_positions([7], at(1)))
    slices = tuple(replace(part, log_paths=part.log_paths[-1:], log_sizes=(), log_size_bytes=0) for part in slices[:1])
    assert rows_of(storage, [SmallSlices(slices=slices)], None)["value"].to_pylist() == ["newer"]
    assert alone == list(slices)


@pytest.mark.parametrize("is_mixed", [False, True])
def test_rows_of_equal_keys_are_merged_together_as_alone(
    tmp_path: Path, alone: list[RealtimeFileSplit], *, is_mixed: bool
) -> None:
    table = TableWriter(folder=tmp_path).create()
    for number in range(3):
        rows = [row("a", 1, "one"), row("b", 1, "x"), row("a", 1, "two")]
        table.base_file(at(1), rows, file_id=f"f{number}-0")
    table.commit(at(1))
    for number in range(3):
        new = table.data_block(at(2), [row("a", 2, "new")] * 2, positions=record_positions([0, 2], at(1)))
        later = table.data_block(
            at(2), [row("b", 2, "y")], positions=None if is_mixed else record_positions([1], at(1))
        )
        table.log_file(at(2), [new, later], file_id=f"f{number}-0")
    table.commit(at(2))
    slices = slices_of(table.folder)
    storage = slices[0].context.open_storage()
    expected = rows_of(storage, slices, None)
    assert expected["value"].to_pylist().count("new") == (3 if is_mixed else 6)
    alone.clear()
    assert differences(expected, rows_of(storage, [SmallSlices(slices=slices)], None)) == []
    keys = pa.array(["a"])
    assert rows_of(storage, [SmallSlices(slices=slices)], None, keys)["value"].to_pylist().count("two") == 3 * is_mixed
    assert not alone


@pytest.mark.parametrize("suffix", ["parquet", "log"])
def test_an_error_names_the_file_of_the_slice_that_it_is_in(table: TableWriter, suffix: str) -> None:
    slices = slices_of(table.folder)
    path = next(table.folder.glob(f"*f1-0*.{suffix}*" if suffix == "parquet" else ".f1-0*.log*"))
    content = path.read_bytes()
    path.write_bytes(content[:-100] + bytes(100) if suffix == "parquet" else content.replace(b"added", b"\xff" * 5))
    with pytest.raises(HudiReadError, match="f1-0"):
        rows_of(slices[0].context.open_storage(), [SmallSlices(slices=slices)], None)
    path.unlink()
    with pytest.raises(DataFileGoneError, match="f1-0"):
        rows_of(slices[0].context.open_storage(), [SmallSlices(slices=slices)], None)


def test_what_decompresses_to_much_is_read_alone(
    table: TableWriter, alone: list[RealtimeFileSplit], monkeypatch: pytest.MonkeyPatch
) -> None:
    table.base_file(at(3), [row("large", 1, "x" * 20_000)], file_id="f3-0")
    table.commit(at(3))
    monkeypatch.setattr(small_slices, "_MAX_BYTES", 10_000)
    slices = slices_of(table.folder)
    actual = rows_of(slices[0].context.open_storage(), [SmallSlices(slices=slices)], ["id"])
    assert sorted(map(str, actual["id"].to_pylist())) == ["added", "added", "added", "k0", "k1", "k2", "large"]
    assert [part.file_id for part in alone] == ["f3-0"]


def test_only_reads_of_all_rows_of_small_slices_are_together(table: TableWriter) -> None:
    slices = slices_of(table.folder)
    storage, schema = slices[0].context.open_storage(), slices[0].context.schema
    large = replace(slices[2], log_size_bytes=1 << 21)
    together = with_small_ones_together(storage, [*slices[:2], large], RowRequest.of(schema), 1)
    assert together == [SmallSlices(slices=slices[:1]), SmallSlices(slices=slices[1:2]), large]
    filtered = RowRequest.of(schema, row_filter=pc.field("value") == "old")
    assert with_small_ones_together(storage, slices, filtered, 1) == list(slices)
    of_keys = replace(RowRequest.of(schema), record_keys=pa.array(["k0"]))
    assert with_small_ones_together(storage, slices, of_keys, 1) == list(slices)
    actual = with_small_ones_together(storage, [*slices, *slices], of_keys, 1)
    assert sum(len(part.slices) for part in actual if isinstance(part, SmallSlices)) == 2 * len(slices)


@given(small=st.integers(0, 5000), cores=st.integers(1, 64))
def test_groups_are_all_slices_and_small_at_first(small: int, cores: int) -> None:
    sizes = list(small_groups(small, cores))
    assert sum(sizes) == small
    assert sizes[:1] in ([], [1])
    assert all(0 < size <= MAX_SLICES for size in sizes)


@given(small=st.integers(1, 5000), cores=st.integers(1, 64))
def test_groups_of_rows_that_are_held_are_large_and_as_many_for_each_core(small: int, cores: int) -> None:
    sizes = list(small_groups(small, cores, materialized=True))
    assert sum(sizes) == small
    assert max(sizes) <= min(MAX_SLICES, min(sizes) + 1)
    assert len(sizes) % cores == 0 or len(sizes) == small
    assert len(sizes) < small / MAX_SLICES + cores


BLOOM_FILTER = "org.apache.hudi.bloomfilter"


@pytest.mark.parametrize("filter_bytes", [0, 10, 200, 500_000])
def test_a_base_file_is_read_without_its_bloom_filter(table: TableWriter, filter_bytes: int) -> None:
    path = table.folder / "any.parquet"
    rows = pa.table({"id": ["a", "b"], "value": [BLOOM_FILTER, "\x18\x1b" + BLOOM_FILTER]})
    with pq.ParquetWriter(path, rows.schema, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({BLOOM_FILTER: "A" * filter_bytes, "other": "kept"})
    assert pq.read_metadata(path).serialized_size > filter_bytes
    split = slices_of(table.folder)[0]
    with SmallParquetFile(split.context.open_storage(), split, path.name) as file:
        assert pa.Table.from_batches(file.rows(["id", "value"])).to_pydict() == rows.to_pydict()
        (batch,) = file.batches(0, ["value"], 10)
        assert batch.to_pydict() == rows.select(["value"]).to_pydict()
        assert 0 < file.stored_bytes(0, ["id"]) < file.stored_bytes(0, ["id", "value"])
        assert sum(file.leaf_bytes(0, rows.schema.names)) == file.size_bytes
        assert file.footer.serialized_size < 2_000
    with open_base_file(split.context.open_storage(), split, path.name, use_threads=False) as base:
        assert pa.Table.from_batches(base.batches(0, ["id", "value"], 10)).to_pydict() == rows.to_pydict()
        assert base.parquet_footer is not None
        assert base.parquet_footer.serialized_size < 2_000
        assert (base.parquet_footer.metadata or {})[b"other"] == b"kept"


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1\0\0\0\0PAR1", b"PAR1" + b"\xff" * 8 + b"PAR1", bytes(100)])
def test_what_is_no_parquet_is_refused(table: TableWriter, content: bytes) -> None:
    (table.folder / "any.parquet").write_bytes(content)
    split = slices_of(table.folder)[0]
    with pytest.raises((CorruptBaseFileError, OSError, ValueError)):
        SmallParquetFile(split.context.open_storage(), split, "any.parquet")
