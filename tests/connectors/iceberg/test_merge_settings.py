"""What tables do not say of their merging: told to the service for all tables or for one."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.exceptions import BadRequestError
from pyiceberg.table import StaticTable

from hudi_bridge import RecordPayload
from hudi_bridge.config import QueryType
from hudi_bridge.connectors.iceberg.served_table import SnapshotSettings
from hudi_bridge.connectors.iceberg.slice_cache import Counters
from hudi_bridge.connectors.iceberg.table_snapshots import TableSnapshots
from hudi_bridge.connectors.lakes.roots import Roots
from hudi_bridge.connectors.lakes.tables import MergeSettings, MergingByTable
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.custom_payload import Row
from hudi_bridge.storage.storage import Storage
from tests.service.iceberg_service import client, rows, running, service_options
from tests.support.compare import differences
from tests.support.golden_cases import golden_case
from tests.support.golden_queries import QUERIES, answer_of
from tests.support.table_writer import TableWriter, at

MERGER = "hoodie.datasource.write.record.merger.impls=org.apache.hudi.HoodieSparkRecordMerger"
CLASS = "com.acme.Adding"
OPTIONS = {"hoodie.record.merge.mode": "CUSTOM", "hoodie.compaction.payload.class": CLASS}


class Adding(RecordPayload):
    """Adds up a column, times a number."""

    def __init__(self, times: int = 1) -> None:
        self.times = times

    def combine_and_get_update_value(self, current: Row, incoming: Row) -> Row:
        return {**incoming, "ts": current["ts"] + self.times * incoming["ts"]}


def counters(folder: Path) -> TableWriter:
    """A table of two file slices, of which one has a log."""
    table = TableWriter(folder=folder, options=OPTIONS).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])
    table.base_file(at(1), [{"id": "b", "ts": 5, "value": "y"}], file_id="other-0")
    table.log_file(at(2), [table.data_block(at(2), [{"id": "a", "ts": 2, "value": "z"}])])
    table.commit(at(1))
    table.commit(at(2))
    return table


@pytest.mark.parametrize("text", [MERGER, f"b_spark_merger_0150.table:{MERGER}"], ids=["all", "one"])
def test_options_make_a_view_what_hudi_returns_with_them(tmp_path: Path, text: str) -> None:
    roots = [golden_case("b_spark_merger_0150").parent]
    merging = MergingByTable.parse([text], {}, Roots.of(list(map(str, roots)), []).find_by_name)
    with running(service_options(tmp_path / "scratch", roots, merging=merging)) as service:
        actual = rows(client(service).load_table(("b_spark_merger_0150", "table")))
    assert differences(answer_of(QUERIES["b_spark_merger_0150", 0]), actual) == []


def test_a_payload_is_found_by_the_class_that_a_table_names(tmp_path: Path) -> None:
    counters(tmp_path / "root" / "counters")
    without = service_options(tmp_path / "without", [tmp_path / "root"])
    with running(without) as service, pytest.raises(BadRequestError, match=CLASS):
        client(service).load_table(("default", "counters"))
    merging = MergingByTable(payloads={CLASS: Adding()})
    with running(service_options(tmp_path / "scratch", [tmp_path / "root"], merging=merging)) as service:
        assert sums(rows(client(service).load_table(("default", "counters")))) == {"a": 3, "b": 5}


def sums(found: pa.Table) -> Mapping[str, int]:
    return {row["id"]: row["ts"] for row in found.to_pylist()}


def test_nothing_is_used_again_that_another_payload_has_merged(tmp_path: Path) -> None:
    table = counters(tmp_path / "counters")
    for payload, expected, built in ((Adding(), 3, 2), (Adding(), 3, 0), (Adding(times=10), 21, 2)):
        tally = Counters()
        with ThreadPoolExecutor(1) as builders:
            settings = SnapshotSettings(locations=Locations(), builders=builders, at_once=1, counters=tally)
            snapshots = TableSnapshots(
                Storage.open(str(table.folder)),
                QueryType.SNAPSHOT,
                Scratch.open(str(tmp_path / "scratch")),
                settings,
                MergeSettings(payloads={CLASS: payload}),
            )
            actual = StaticTable.from_metadata(snapshots.load().location).scan().to_arrow()
        assert sums(actual) == {"a": expected, "b": 5}
        assert tally.value("slices_built_total") == built


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hoodie.payload.delete.field", "NAMESPACE.TABLE:NAME=VALUE"),
        ("=op", "NAMESPACE.TABLE:NAME=VALUE"),
        (":hoodie.payload.delete.field=op", "NAMESPACE.TABLE:NAME=VALUE"),
        ("trips:=op", "NAMESPACE.TABLE:NAME=VALUE"),
        ("hoodie.nonsense=1", "hoodie.nonsense"),
        ("sales.nothing:hoodie.payload.delete.field=op", "not sales.nothing"),
    ],
)
def test_what_is_no_option_of_a_table_is_refused(tmp_path: Path, text: str, message: str) -> None:
    counters(tmp_path / "counters")
    with pytest.raises(QueryError, match=message):
        MergingByTable.parse([text], {}, Roots.of([str(tmp_path)], []).find_by_name)


def test_an_option_of_one_table_comes_before_that_of_all(tmp_path: Path) -> None:
    roots = Roots.of([str(counters(tmp_path / "counters").folder.parent)], [])
    texts = ["hoodie.payload.delete.marker=D", "counters:hoodie.payload.delete.marker=X:Y=Z"]
    merging = MergingByTable.parse(texts, {}, roots.find_by_name)
    own = roots.find_by_name("default.counters")
    assert own is not None
    assert merging.of(own).options == {"hoodie.payload.delete.marker": "X:Y=Z"}
    assert merging.of(Storage.open(str(tmp_path))).options == {"hoodie.payload.delete.marker": "D"}
