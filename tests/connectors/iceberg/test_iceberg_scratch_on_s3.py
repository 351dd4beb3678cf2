"""A scratch folder in S3, as moto's server simulates it, with several services."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hudi_bridge.connectors.iceberg import table_snapshots
from hudi_bridge.connectors.scratch import Scratch
from tests.connectors.iceberg.scratch_on_s3 import endpoint, iceberg_rows, names, store
from tests.connectors.iceberg.snapshots import SLICES, Client, builders, table, update
from tests.support.compare import differences
from tests.support.table_writer import TableWriter, at

__all__ = ["builders", "endpoint", "table"]  # fixtures


@pytest.mark.long
def test_services_share_a_scratch_folder_in_s3(
    table: TableWriter, endpoint: str, builders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"s3://key:secret@views/t?scheme=http&region=us-east-1&endpoint_override={endpoint}"
    scratch = Scratch.open(uri)
    monkeypatch.setattr(table_snapshots, "_CHECK_SECONDS", 0.0)
    first, second = (Client(table, scratch, builders, keep=1, keep_seconds=60) for _ in range(2))
    before = first.load()
    expected = table.open().snapshot().to_table()
    assert second.load() == before
    assert (first.built, second.built) == (SLICES, 0)
    update(table, 3, 0)
    table.commit(at(3))
    after = second.load()
    assert first.load() == after
    assert second.built == 1
    assert differences(expected, iceberg_rows(before, endpoint)) == []
    assert differences(table.open().snapshot().to_table(), iceberg_rows(after, endpoint)) == []
    now, data = time.time(), names(endpoint, "data")
    removed = []
    for commit, later in ((4, 61), (5, 122)):
        monkeypatch.setattr(time, "time", lambda later=later: now + later)
        update(table, commit, 1)
        table.commit(at(commit))
        restarted = Client(table, scratch, builders, keep=1, keep_seconds=60)
        newest = restarted.load()
        assert restarted.built == 1
        assert len(names(endpoint, "snapshots")) == 1
        assert differences(table.open().snapshot().to_table(), iceberg_rows(newest, endpoint)) == []
        removed.append(len(data - names(endpoint, "data")))
    # The files of two slices that have changed.
    assert removed == [0, 4]
    lost = next(iter(sorted(names(endpoint, "data"))))
    store(endpoint).delete_object(Bucket="views", Key=f"t/data/{lost}")
    assert differences(table.open().snapshot().to_table(), iceberg_rows(first.load(), endpoint)) == []
