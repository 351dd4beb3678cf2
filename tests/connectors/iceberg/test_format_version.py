"""Tables of version 3 of Iceberg's format: deletion vectors, ids of rows, and the way from version 2."""

import json
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import StaticTable
from pyroaring import BitMap64

from hudi_bridge.connectors.iceberg.compatibility import FormatVersion, IcebergClient
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.iceberg.row_lineage import RowIds
from hudi_bridge.connectors.iceberg.slice_files import DataFile, puffin_file
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.errors import QueryError
from hudi_bridge.storage.storage import Storage
from tests.connectors.iceberg.asking import DATA, DELETES, avro, local, row_ids
from tests.connectors.iceberg.golden import KEYS, as_pyiceberg_has_it, name_of
from tests.connectors.iceberg.snapshots import Client, iceberg_rows, lists, update, update_lists
from tests.service.iceberg_service import client, rows, running, service_options
from tests.support.compare import differences
from tests.support.golden_queries import QUERIES, Key, answer_of, parametrize_keys
from tests.support.table_writer import TableWriter, at

__all__ = ["lists"]  # a fixture
CASES_PER_GROUP = 2
V3 = FormatVersion.V3
ROW_ID, POSITION = 2147483540, 2147483645


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "key" in metafunc.fixturenames:
        # The conditions of group K are written in SQL and for Arrow.
        keys = [key for key in KEYS if QUERIES[key].kind != "snapshot_filtered"]
        parametrize_keys(metafunc, keys, CASES_PER_GROUP)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    roots = sorted({query.table.parent.parent for query in QUERIES.values()})
    with running(service_options(tmp_path_factory.mktemp("scratch"), roots, format_version=V3)) as service:
        yield client(service)


@pytest.mark.engine("pyiceberg")
def test_rows_are_those_of_hudi(key: Key, catalog: RestCatalog) -> None:
    query = QUERIES[key]
    table = catalog.load_table((query.case, name_of(query)))
    assert table.format_version == 3
    assert differences(as_pyiceberg_has_it(answer_of(query)), as_pyiceberg_has_it(rows(table))) == []


@pytest.mark.engine("pyiceberg")
def test_planned_scans_have_vectors(tmp_path: Path) -> None:
    query = QUERIES["a_story_v9_120", 0]
    options = service_options(tmp_path / "scratch", [query.table.parent.parent], format_version=V3)
    with running(options) as service:
        planned = client(service, warehouse="planned").load_table((query.case, name_of(query)))
        assert differences(answer_of(query), rows(planned)) == []
        formats = {file.file_format.value for task in planned.scan().plan_files() for file in task.delete_files}
    assert (planned.format_version, formats) == (3, {"PUFFIN"})


@pytest.fixture
def builders() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def table(tmp_path: Path) -> TableWriter:
    """Three slices of four rows with a log each, which updates one row, deletes one and inserts one."""
    table = TableWriter(folder=tmp_path / "table").create()
    for number in range(3):
        stored = [{"id": f"{number}-{key}", "ts": 1, "value": "old"} for key in "abcd"]
        table.base_file(at(1), stored, file_id=f"f{number}-0")
    table.commit(at(1))
    for number in range(3):
        update(table, 2, number)
    table.commit(at(2))
    return table


def test_a_puffin_file_is_laid_out_as_specified() -> None:
    made = puffin_file("file:///data/base.parquet", np.array([1, 3, 5]))
    # One bitmap with key 0: a sorted array of three 16-bit values.
    bitmap = bytes.fromhex("0100000000000000 00000000 3a300000 01000000 0000 0200 10000000 0100 0300 0500")
    vector = bytes.fromhex("d1d33964") + bitmap
    blob = len(vector).to_bytes(4, "big") + vector + zlib.crc32(vector).to_bytes(4, "big")
    assert made.content.startswith(b"PFA1" + blob + b"PFA1{")
    assert (made.vector.of, made.vector.offset, made.vector.size) == ("file:///data/base.parquet", 4, len(blob))
    footer = made.content[4 + len(blob) + 4 : -12]
    assert made.content[-12:] == len(footer).to_bytes(4, "little") + bytes(4) + b"PFA1"
    assert json.loads(footer)["blobs"] == [
        {
            "type": "deletion-vector-v1",
            "fields": [POSITION],
            "snapshot-id": -1,
            "sequence-number": -1,
            "offset": 4,
            "length": len(blob),
            "properties": {"referenced-data-file": "file:///data/base.parquet", "cardinality": "3"},
        }
    ]


@given(st.sets(st.integers(0, 2**63 - 1) | st.integers(0, 100), min_size=1))
def test_a_vector_holds_the_positions(positions: set[int]) -> None:
    made = puffin_file("x", np.array(sorted(positions), dtype=np.int64))
    blob = made.content[made.vector.offset : made.vector.offset + made.vector.size]
    assert int.from_bytes(blob[:4], "big") == len(blob) - 8
    assert int.from_bytes(blob[-4:], "big") == zlib.crc32(blob[4:-4])
    assert set(BitMap64.deserialize(blob[8:-4])) == positions


def test_manifests_are_those_of_version_3(table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor) -> None:
    metadata = json.loads(Client(table, tmp_path / "scratch", builders, format_version=V3).load().metadata)
    snapshot = metadata["snapshots"][-1]
    assert (metadata["format-version"], metadata["next-row-id"]) == (3, 18)
    assert (snapshot["first-row-id"], snapshot["added-rows"]) == (0, 18)
    header, manifests = avro(snapshot["manifest-list"])
    assert (header["format-version"], header["first-row-id"]) == ("3", "0")
    assert [(manifest["content"], manifest["first_row_id"] is None) for manifest in manifests] == [
        (DATA, False),
        (DELETES, True),
    ]
    for listed in manifests:
        header, entries = avro(listed["manifest_path"])
        assert header["format-version"] == "3"
        assert listed["sequence_number"] == max(entry["sequence_number"] for entry in entries)
        assert listed["min_sequence_number"] == min(entry["sequence_number"] for entry in entries)
    data, deletes = (avro(listed["manifest_path"])[1] for listed in manifests)
    vectors = {entry["data_file"]["referenced_data_file"]: entry for entry in deletes}
    assert len(vectors) == len(deletes) == 3
    for entry in data:
        file = entry["data_file"]
        is_base = file["file_path"] in vectors
        assert entry["sequence_number"] == int(at(1) if is_base else at(2))
        # Of the writes of the newest instant, which the manifest is of; the others were there before.
        assert entry["status"] == (0 if is_base else 1)
    for path, entry in vectors.items():
        file = entry["data_file"]
        assert (file["file_format"], file["record_count"], file["first_row_id"]) == ("PUFFIN", 2, None)
        content = local(file["file_path"]).read_bytes()
        assert len(content) == file["file_size_in_bytes"]
        blob = content[file["content_offset"] :][: file["content_size_in_bytes"]]
        assert list(BitMap64.deserialize(blob[8:-4])) == [0, 1]
        assert json.loads(content[content.rindex(b"PFA1{") + 4 : -12])["blobs"][0]["properties"] == {
            "referenced-data-file": path,
            "cardinality": "2",
        }


def test_a_row_keeps_its_id_and_no_other_gets_it(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor
) -> None:
    """Over commits, restarts, an older snapshot that is built later, and snapshots that are dropped."""
    given_ids: dict[str, range] = {}
    ranges = []
    for commit in range(2, 7):
        if commit > 2:
            update(table, commit, commit % 3)
            table.commit(at(commit))
        own = Client(table, tmp_path / "scratch", builders, format_version=V3, keep=1, keep_seconds=0)
        metadata = json.loads(own.load().metadata)
        snapshot = metadata["snapshots"][-1]
        ids = row_ids(snapshot)
        assert all(given_ids.get(path, one) == one for path, one in ids.items())
        added = [one for path, one in ids.items() if path not in given_ids]
        assert sum(map(len, added)) == snapshot["added-rows"]
        assert all(item.start >= snapshot["first-row-id"] for item in added)
        assert all(item.stop <= metadata["next-row-id"] for item in ids.values())
        given_ids |= ids
        earlier = json.loads(own.load(at(commit - 1)).metadata)["snapshots"][-1]
        ranges += [
            range(item["first-row-id"], item["first-row-id"] + item["added-rows"]) for item in (snapshot, earlier)
        ]
    assert all(one.stop == following.start for one, following in pairwise(ranges))
    # The first of the earlier snapshots has base files alone, which have ids.
    assert [not item for item in ranges] == [number == 1 for number in range(len(ranges))]


def test_rows_of_a_copy_keep_their_ids_and_the_commit_of_the_base_file(
    lists: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor
) -> None:
    client = Client(lists, tmp_path / "scratch", builders, format_version=V3)
    seen = []
    for commit in (3, 4):
        update_lists(lists, commit, 0)
        lists.commit(at(commit))
        snapshot = json.loads(client.load().metadata)["snapshots"][-1]
        ids = row_ids(snapshot)
        entries = [entry for listed in avro(snapshot["manifest-list"])[1] for entry in avro(listed["manifest_path"])[1]]
        written = {entry["data_file"]["file_path"]: entry["sequence_number"] for entry in entries}
        seen.append({path: (ids[path], written[path]) for path in ids if path.endswith("-whole.parquet")})
    assert seen[0] == seen[1]
    assert [number for _, number in seen[0].values()] == [int(at(1))] * 2


@given(st.lists(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 3)), unique_by=lambda one: one[0])))
def test_ranges_of_ids_are_disjoint(commits: list[list[tuple[str, int]]]) -> None:
    """Even if a file of the same name has another number of rows, in a table that was made anew."""
    known = RowIds(ranges={}, next_row_id=0)
    for files in commits:
        lineage = known.assign([file_of(name, count) for name, count in files])
        in_order = sorted(lineage.ranges.values())
        assert all(first + count <= following for (first, count), (following, _) in pairwise(in_order))
        for name, count in files:
            assert lineage.ranges[name][1] == count
            if known.ranges.get(name, (0, 0))[1] == count:
                assert lineage.ranges[name] == known.ranges[name]
            else:
                assert lineage.ranges[name][0] >= known.next_row_id
        known = RowIds(ranges={**known.ranges, **lineage.ranges}, next_row_id=lineage.next_row_id)


def test_a_slice_that_changes_gets_a_new_vector_and_the_others_keep_theirs(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor
) -> None:
    """Vectors stay as long as a snapshot that is kept refers to them."""
    own = Client(table, tmp_path / "scratch", builders, format_version=V3, keep=2, keep_seconds=0)
    own.load()
    actual = [vectors(own)]
    for commit in (3, 4):
        update(table, commit, 0)
        table.commit(at(commit))
        published = own.load()
        actual.append(vectors(own))
        assert differences(table.open().snapshot().to_table(), iceberg_rows(published)) == []
        earlier = iceberg_rows(published, snapshot_id=int(at(commit - 1)))
        assert differences(table.open().snapshot(at(commit - 1)).to_table(), earlier) == []
    assert [len(item) for item in actual] == [3, 4, 4]
    assert len(actual[0] & actual[1] & actual[2]) == 2


def test_a_table_of_version_2_is_upgraded_by_a_restart(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor
) -> None:
    for commit in (1, 2):
        Client(table, tmp_path / "scratch", builders).load(at(commit))
    update(table, 3, 0)
    table.commit(at(3))
    published = Client(table, tmp_path / "scratch", builders, format_version=V3).load()
    metadata = json.loads(published.metadata)
    assert [item.get("first-row-id") for item in metadata["snapshots"]] == [None, None, 0]
    for commit in (1, 2, 3):
        actual = iceberg_rows(published, snapshot_id=int(at(commit)))
        assert differences(table.open().snapshot(at(commit)).to_table(), actual) == []
    # Back again, clients of version 2 are not shown what they cannot read.
    for commit, version in ((4, V3), (5, FormatVersion.V2)):
        update(table, commit, 0)
        table.commit(at(commit))
        published = Client(table, tmp_path / "scratch", builders, format_version=version).load()
    metadata = json.loads(published.metadata)
    assert (metadata["format-version"], "next-row-id" in metadata) == (2, False)
    built = [item["snapshot-id"] for item in metadata["snapshots"] if "not-built" not in item["manifest-list"]]
    assert built == [int(at(commit)) for commit in (1, 2, 5)]
    assert differences(table.open().snapshot().to_table(), iceberg_rows(published)) == []


def test_a_published_folder_is_upgraded_and_not_downgraded(table: TableWriter, tmp_path: Path) -> None:
    expected = table.open().snapshot().to_table()
    for version in (2, 3, 3):
        position = publish(table, tmp_path / "published", FormatVersion(version))
        published = StaticTable.from_metadata(position)
        assert published.format_version == version
        assert differences(expected, published.scan().to_arrow()) == []
    before = sorted((tmp_path / "published").rglob("*"))
    with pytest.raises(QueryError, match="published in version 3") as refused:
        publish(table, tmp_path / "published", FormatVersion.V2)
    assert "--format-version" in str(refused.value)
    assert sorted((tmp_path / "published").rglob("*")) == before


@pytest.mark.parametrize(("number", "for_client"), [(1, None), (4, None), (3, IcebergClient.PRESTO)])
def test_versions_that_clients_cannot_have_are_refused(number: int, for_client: IcebergClient | None) -> None:
    with pytest.raises(QueryError, match="--format-version"):
        FormatVersion.of(number, for_client)
    assert FormatVersion.of(2, for_client) is FormatVersion.V2


def publish(table: TableWriter, folder: Path, version: FormatVersion) -> str:
    return publish_table(
        Storage.open(str(table.folder)),
        Scratch.open(str(folder)),
        locations=Locations(),
        builds=2,
        format_version=version,
    ).metadata_location


def vectors(own: Client) -> set[str]:
    names = own.names("data")
    assert not any(name.endswith("-deletes.parquet") for name in names)
    return {name for name in names if name.endswith(".puffin")}


def file_of(name: str, count: int) -> DataFile:
    return DataFile(
        location=name,
        rows=count,
        size_bytes=1,
        partition=None,
        value_counts={},
        null_counts={},
        lower_bounds={},
        upper_bounds={},
        split_offsets=(),
    )
