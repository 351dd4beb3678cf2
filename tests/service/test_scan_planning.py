"""Scans that the service plans, with PyIceberg as the client: only slices that a scan needs are built."""

import json
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import starmap
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.scan_planning import PlanCompleted

from hudi_bridge.connectors.iceberg.slice_builder import SliceBuilder
from hudi_bridge.service import planned_snapshots
from hudi_bridge.service.server import IcebergService
from hudi_bridge.splits.split import RealtimeFileSplit
from tests.connectors.iceberg.golden import KEYS, differences_of_rows, golden_service
from tests.connectors.iceberg.snapshots import lists
from tests.service.iceberg_service import built_snapshots, client, rows, running, service_options
from tests.service.many_slices import SLICES, table_of_many_slices
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.golden_queries import QUERIES, Key, parametrize_keys
from tests.support.moved_partitions import MOVED_KEYS, moved
from tests.support.strength import one_in
from tests.support.table_writer import KEY_AND_VALUE, TableWriter, at, sorted_column
from tests.support.waiting import wait_for

__all__ = ["lists"]  # a fixture
CASES_PER_GROUP = 2
SLOW = "part=007"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.function is test_planned_rows_are_those_of_hudi:
        parametrize_keys(metafunc, [key for key in KEYS if "where" not in QUERIES[key].options], CASES_PER_GROUP)


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    with golden_service(tmp_path_factory.mktemp("scratch")) as service:
        yield client(service, warehouse="planned")


@pytest.mark.engine("pyiceberg")
def test_planned_rows_are_those_of_hudi(key: Key, golden: RestCatalog) -> None:
    assert differences_of_rows(QUERIES[key], golden) == []


@pytest.fixture
def many(tmp_path: Path) -> TableWriter:
    return table_of_many_slices(tmp_path / "root" / "many")


@pytest.fixture
def service(many: TableWriter, tmp_path: Path) -> Iterator[IcebergService]:
    with running(service_options(tmp_path / "scratch", [many.folder.parent])) as service:
        yield service


def built(service: IcebergService) -> float:
    return service.counters.value("slices_built_total")


def planned(service: IcebergService) -> RestCatalog:
    return client(service, warehouse="planned")


def post(service: IcebergService, path: str, body: bytes, method: str = "POST") -> tuple[int, Any]:
    """Status and content of the answer to a request below the table."""
    url = f"{service.url}/v1/planned/namespaces/default/tables/{path}"
    request = urllib.request.Request(url, data=body or None, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.loads(response.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            return error.status or 0, json.loads(error.read())


def test_a_load_builds_nothing_and_a_scan_what_its_filter_needs(service: IcebergService) -> None:
    table = planned(service).load_table("default.many")
    assert table.schema().find_field("value")
    assert built(service) == 0
    assert set(rows(table, row_filter="part = 7").column("value").to_pylist()) == {"new", None}
    assert built(service) == 1
    assert rows(table, row_filter="part in (7, 8) and value is null").num_rows == 2
    assert built(service) == 2
    assert table.scan(row_filter="part = 8").count() == 2
    assert rows(table, row_filter=f"part = {SLICES}").num_rows == 0
    assert built(service) == 2
    assert sorted_column(rows(table), "part") == sorted(2 * list(range(SLICES)))
    assert built(service) == SLICES
    assert rows(table, row_filter="part != 7").num_rows == 2 * SLICES - 2
    assert built(service) == SLICES


def test_a_scan_by_record_key_builds_the_slices_that_may_hold_it(service: IcebergService) -> None:
    table = planned(service).load_table("default.many")
    assert rows(table, row_filter="id = 'k42'").column("value").to_pylist() == ["new"]
    assert built(service) < SLICES / 10


def test_tasks_come_in_steps(service: IcebergService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_snapshots, "_SLICES_AT_ONCE", 30)
    status, plan = post(service, "many/plan", b"{}")
    assert (status, plan["status"], len(plan["file-scan-tasks"]), len(plan["plan-tasks"])) == (200, "completed", 60, 3)
    assert built(service) == 30
    status, more = post(service, "many/tasks", json.dumps({"plan-task": plan["plan-tasks"][2]}).encode())
    assert (status, len(more["file-scan-tasks"]), "plan-tasks" in more) == (200, 20, False)
    assert built(service) == 40
    assert rows(planned(service).load_table("default.many")).num_rows == 2 * SLICES
    again = post(service, f"many/plan/{plan['plan-id']}", b"", "GET")
    assert again == (200, {name: value for name, value in plan.items() if name != "plan-id"})
    assert post(service, f"many/plan/{plan['plan-id']}", b"", "DELETE") == (204, None)
    for path, body, method, kind in (
        (f"many/plan/{plan['plan-id']}", b"", "DELETE", "NoSuchPlanIdException"),
        (f"many/plan/{plan['plan-id']}", b"", "GET", "NoSuchPlanIdException"),
        ("many/tasks", json.dumps({"plan-task": plan["plan-tasks"][1]}).encode(), "POST", "NoSuchPlanTaskException"),
        ("nothing/plan", b"{}", "POST", "NoSuchTableException"),
        ("nothing/tasks", b'{"plan-task": "x"}', "POST", "NoSuchTableException"),
    ):
        status, refused = post(service, path, body, method)
        assert (status, refused["error"]["type"], refused["error"]["code"]) == (404, kind, 404)


def test_plans_that_nobody_asks_for_are_forgotten(service: IcebergService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_snapshots, "_MOST_SLICES", 303)
    bodies = [json.dumps({"filter": {"type": "eq", "term": "part", "value": item}}).encode() for item in (1, 1, 2, 3)]
    plans = [post(service, "many/plan", body)[1]["plan-id"] for body in bodies]
    assert [post(service, f"many/plan/{plan}", b"", "GET")[0] for plan in plans] == [404, 404, 200, 200]
    monkeypatch.setattr(planned_snapshots, "_UNUSED_SECONDS", 0)
    assert post(service, f"many/plan/{plans[-1]}", b"", "GET")[0] == 404


def test_plans_of_the_same_state_and_filter_share_their_slices(
    service: IcebergService, many: TableWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[Any] = []
    splits_of = planned_snapshots._splits_for

    def counted(*given: Any) -> Any:
        listed.append(given)
        return splits_of(*given)

    monkeypatch.setattr(planned_snapshots, "_splits_for", counted)
    monkeypatch.setattr(planned_snapshots, "_SLICES_AT_ONCE", 30)
    body = {"filter": {"type": "lt", "term": "part", "value": 40}}
    first, second = (post(service, "many/plan", json.dumps(body).encode())[1] for _ in range(2))
    assert len(listed) == 1
    assert first["plan-id"] != second["plan-id"]
    assert first["file-scan-tasks"] == second["file-scan-tasks"]
    assert post(service, f"many/plan/{first['plan-id']}", b"", "DELETE") == (204, None)
    (task,) = second["plan-tasks"]
    status, more = post(service, "many/tasks", json.dumps({"plan-task": task}).encode())
    assert (status, len(more["file-scan-tasks"])) == (200, 20)
    with_statistics = post(service, "many/plan", json.dumps(body | {"stats-fields": ["ts"]}).encode())[1]
    assert "lower-bounds" in with_statistics["file-scan-tasks"][1]["data-file"]
    assert len(listed) == 1
    post(service, "many/plan", json.dumps(body | {"case-sensitive": False}).encode())
    assert len(listed) == 2
    block = many.data_block(at(3), [{"id": "k7", "ts": 3, "value": "newest", "part": 7}])
    many.log_file(at(3), [block], base_instant=at(1), partition="part=007", file_id="f7")
    many.commit(at(3))
    third = post(service, "many/plan", json.dumps(body).encode())[1]
    assert len(listed) == 3
    assert third["file-scan-tasks"] != first["file-scan-tasks"]


class Gate:
    """What threads of a test wait for, and the partitions of the slices that are built."""

    def __init__(self) -> None:
        self.is_reached, self.is_open = Event(), Event()
        self.builds: list[str] = []


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Slices of one partition are built when the gate opens."""
    gate = Gate()
    build = SliceBuilder.build

    def waiting(builder: SliceBuilder, split: RealtimeFileSplit, *copies: Any) -> Any:
        gate.builds.append(split.partition_path)
        if split.partition_path == SLOW:
            gate.is_reached.set()
            assert gate.is_open.wait(60)
        return build(builder, split, *copies)

    monkeypatch.setattr(SliceBuilder, "build", waiting)
    yield gate
    gate.is_open.set()


def plan_of_part(service: IcebergService, number: int) -> tuple[int, Any]:
    body = {"filter": {"type": "eq", "term": "part", "value": number}}
    return post(service, "many/plan", json.dumps(body).encode())


def test_clients_do_not_wait_for_the_slices_of_others(service: IcebergService, gate: Gate) -> None:
    with ThreadPoolExecutor(2) as clients:
        slow = clients.submit(plan_of_part, service, 7)
        assert gate.is_reached.wait(60)
        for number in range(8, 12):
            status, plan = plan_of_part(service, number)
            assert (status, len(plan["file-scan-tasks"])) == (200, 2)
        assert planned(service).load_table("default.many").schema().find_field("value")
        assert not slow.done()
        gate.is_open.set()
        status, plan = slow.result()
        assert (status, len(plan["file-scan-tasks"])) == (200, 2)


def test_a_slice_that_several_clients_need_is_built_once(service: IcebergService, gate: Gate) -> None:
    with ThreadPoolExecutor(3) as clients:
        plans = [clients.submit(plan_of_part, service, 7)]
        assert gate.is_reached.wait(60)
        other = {"filter": {"type": "lt", "term": "part", "value": 9}}
        plans += [clients.submit(plan_of_part, service, 7)]
        plans += [clients.submit(post, service, "many/plan", json.dumps(other).encode())]
        wait_for(lambda: len(gate.builds) >= 9)
        assert plan_of_part(service, 10)[0] == 200
        gate.is_open.set()
        assert [plan.result()[0] for plan in plans] == [200, 200, 200]
        (first, second, _) = (plan.result()[1]["file-scan-tasks"] for plan in plans)
    assert first == second
    assert sorted(gate.builds) == [f"part={number:03d}" for number in (*range(9), 10)]
    assert built(service) == 10


def test_a_plan_is_known_by_the_name_of_its_table_alone(service: IcebergService, many: TableWriter) -> None:
    TableWriter(folder=many.folder.parent / "other").create().commit(at(1))
    plan = post(service, "many/plan", b"{}")[1]
    tasks = json.dumps({"plan-task": plan["plan-tasks"][0]}).encode()
    for name in ("other", "many__ro"):
        assert post(service, f"{name}/tasks", tasks)[0] == 404
        assert post(service, f"{name}/plan/{plan['plan-id']}", b"", "GET")[0] == 404
        assert post(service, f"{name}/plan/{plan['plan-id']}", b"", "DELETE")[0] == 404
    assert post(service, "many/tasks", tasks)[0] == 200
    for wrong in ("", "x", plan["plan-id"], f"{plan['plan-id']}.0", f"{plan['plan-id']}.2", f"{plan['plan-id']}.1.1"):
        assert post(service, "many/tasks", json.dumps({"plan-task": wrong}).encode())[0] == 404


def test_tasks_have_the_residual_and_the_statistics_that_were_asked_for(service: IcebergService) -> None:
    given = {"type": "eq", "term": "part", "value": 7}
    _, plan = post(service, "many/plan", json.dumps({"filter": given, "stats-fields": ["ts", "nowhere"]}).encode())
    unchanged, written = plan["file-scan-tasks"]
    assert [item["residual-filter"] for item in (unchanged, written)] == [given, given]
    assert unchanged["delete-file-references"] == [0]
    assert plan["delete-files"][0]["content"] == "position-deletes"
    assert "delete-file-references" not in written
    data = written["data-file"]
    assert data["record-count"] == 1
    assert (data["spec-id"], data["partition"]) == (1, [7])
    assert data["lower-bounds"]["values"] == data["upper-bounds"]["values"] == [2]
    assert data["value-counts"] == data["null-value-counts"] | {"values": [1]}
    _, plan = post(service, "many/plan", json.dumps({"filter": given}).encode())
    assert "residual-filter" in plan["file-scan-tasks"][0]
    assert "lower-bounds" not in plan["file-scan-tasks"][0]["data-file"]


def test_statistics_of_all_types_can_be_asked_for(golden: RestCatalog) -> None:
    names = [field.name for field in golden.load_table(("f_types_120", "table")).schema().fields]
    url = f"{golden.uri}/v1/planned/namespaces/f_types_120/tables/table/plan"
    request = urllib.request.Request(url, data=json.dumps({"stats-fields": names}).encode(), method="POST")
    with urllib.request.urlopen(request) as response:
        plan = PlanCompleted.model_validate_json(response.read())
    assert plan.file_scan_tasks
    for task in plan.file_scan_tasks:
        assert task.data_file.lower_bounds is not None
        assert len(task.data_file.lower_bounds.keys) > 5
        assert task.data_file.column_sizes is not None


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    one_in(
        3,
        starmap(
            pytest.param,
            [
                (b"{", 400, "BadRequestException"),
                (
                    b'{"filter": ' + b'{"type":"not","child":' * 5_000 + b"true" + b"}" * 5_001,
                    400,
                    "BadRequestException",
                ),
                (b" " * (1 << 20) + b"{}", 400, "BadRequestException"),
                (b'{"filter": {"type":"eq","term":"ts","value":NaN}}', 400, "BadRequestException"),
                (b'{"filter": {"type":"lt","term":"ts","value":-Infinity}}', 400, "BadRequestException"),
                (b'{"filter": {"type":"lt","term":"ts","value":1e400}}', 400, "BadRequestException"),
                (b'{"filter": {"type":"eq","term":"id","value":"\\ud800"}}', 400, "BadRequestException"),
                (b'{"filter": {"type":"eq","term":"\\udfff","value":1}}', 400, "BadRequestException"),
                (b'{"snapshot-id": 5}', 400, "BadRequestException"),
                (b'{"start-snapshot-id": 1, "end-snapshot-id": 2}', 406, "UnsupportedOperationException"),
            ],
        ),
    ),
)
def test_requests_that_cannot_be_answered_are_refused(
    service: IcebergService, body: bytes, status: int, kind: str
) -> None:
    answered, refused = post(service, "many/plan", body)
    assert (answered, refused["error"]["type"], refused["error"]["code"]) == (status, kind, status)
    assert built(service) == 0


def test_other_clients_are_not_told_of_plans(service: IcebergService) -> None:
    with urllib.request.urlopen(f"{service.url}/v1/config") as response:
        config = json.loads(response.read())
    assert not any("/plan" in item for item in config["endpoints"])
    assert "prefix" not in config["overrides"]
    with urllib.request.urlopen(f"{service.url}/v1/config?warehouse=planned") as response:
        config = json.loads(response.read())
    assert config["overrides"]["prefix"] == "planned"
    assert config["overrides"]["scan-planning-mode"] == "server"
    loaded = post(service, "many", b"", "GET")[1]
    assert loaded["config"] == {"scan-planning-mode": "server"}
    assert "total-records" not in loaded["metadata"]["snapshots"][0]["summary"]


@pytest.mark.parametrize(
    ("release", "is_told"),
    one_in(
        3,
        starmap(
            pytest.param,
            [
                ("Apache Iceberg 1.9.1 (commit f40208a)", False),
                ("Apache Iceberg 1.10.0", False),
                ("Apache Iceberg 1.12.0 (commit 0)", True),
                ("Apache Iceberg 2.0.0", True),
                ("PyIceberg 0.10.0", False),
                ("PyIceberg 0.12.0", True),
                ("another client 1.0", True),
            ],
        ),
    ),
)
def test_releases_that_know_no_plans_get_merged_tables(service: IcebergService, release: str, is_told: bool) -> None:
    request = urllib.request.Request(
        f"{service.url}/v1/config?warehouse=planned", headers={"X-Client-Version": release}
    )
    with urllib.request.urlopen(request) as response:
        config = json.loads(response.read())
    assert (config["overrides"].get("prefix") == "planned") is is_told
    assert any("/plan" in item for item in config["endpoints"]) is is_told


def test_a_client_that_plans_itself_gets_an_error_and_never_an_empty_table(service: IcebergService) -> None:
    table = planned(service).load_table("default.many")
    table.catalog = client(service)
    with pytest.raises(FileNotFoundError, match="planned-by-the-service"):
        rows(table)


def test_each_plan_is_of_the_newest_commit_or_of_the_snapshot_that_was_asked_for(
    service: IcebergService, many: TableWriter
) -> None:
    catalog = planned(service)
    table = catalog.load_table("default.many")
    block = many.data_block(at(3), [{"id": "k7", "ts": 3, "value": "newest", "part": 7}])
    many.log_file(at(3), [block], base_instant=at(1), partition="part=007", file_id="f7")
    many.commit(at(3))
    of_seven = "part = 7"
    assert "newest" in rows(table, row_filter=of_seven).column("value").to_pylist()
    again = catalog.load_table("default.many")
    assert built_snapshots(again) == [int(at(2)), int(at(3))]
    actual = rows(again, row_filter=of_seven, snapshot_id=int(at(2)))
    assert sorted(item or "" for item in actual.column("value").to_pylist()) == ["", "new"]
    earlier = catalog.load_table(f"default.many__at_{at(1)}")
    assert sorted(item or "" for item in rows(earlier, row_filter=of_seven).column("value").to_pylist()) == ["", "old"]
    optimized = catalog.load_table("default.many__ro")
    assert rows(optimized, row_filter="value like 'o%'").num_rows == SLICES
    assert rows(again, row_filter="ts > 2").num_rows == 1


def test_slices_are_built_again_when_their_files_are_gone_and_kept_over_a_restart(
    many: TableWriter, tmp_path: Path
) -> None:
    of_two = "part in (1, 2)"
    for _ in range(2):
        with running(service_options(tmp_path / "scratch", [many.folder.parent])) as service:
            assert rows(planned(service).load_table("default.many"), row_filter=of_two).num_rows == 4
            last_built = built(service)
    assert last_built == 0
    with running(service_options(tmp_path / "scratch", [many.folder.parent])) as service:
        for file in (tmp_path / "scratch").rglob("data/*.parquet"):
            file.unlink()
        assert rows(planned(service).load_table("default.many"), row_filter=of_two).num_rows == 4
        assert built(service) == 2


@pytest.mark.long
def test_files_that_no_client_was_given_lately_are_removed(
    many: TableWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while another service gives some of them to clients."""
    now, data = time.time(), []
    options = service_options(tmp_path / "scratch", [many.folder.parent], keep=1)
    with running(options) as service, running(options) as other:
        for hours, filters in ((0, ("part = 7", "part = 8")), (1, ("part = 7",)), (2, ()), (3, ()), (4, ()), (5, ())):
            monkeypatch.setattr(time, "time", lambda hours=hours: now + 3600 * hours)
            table = planned(other).load_table("default.many")
            assert all(rows(table, row_filter=item).num_rows == 2 for item in filters)
            many.commit(at(3 + hours))
            planned(service).load_table("default.many")
            data.append(len(list((tmp_path / "scratch").rglob("data/*.parquet"))))
        assert built(other) == 2
        assert data == [4, 4, 4, 2, 0, 0]
        assert rows(planned(service).load_table("default.many"), row_filter="part = 7").num_rows == 2
    assert len(list((tmp_path / "scratch").rglob("tables/*.json"))) <= 6


def test_copies_of_base_files_stay_as_long_as_slices_with_logs_need_them(
    lists: TableWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, expected = time.time(), lists.open().snapshot().to_table()
    with running(service_options(tmp_path / "scratch", [lists.folder.parent], keep=1)) as service:
        for hours, is_asked, files in ((0, True, 4), (1, True, 4), (2, False, 4), (3, False, 4), (4, False, 0)):
            monkeypatch.setattr(time, "time", lambda hours=hours: now + 3600 * hours)
            table = planned(service).load_table("default.lists")
            if is_asked:
                assert differences(expected, rows(table)) == []
            lists.commit(at(3 + hours))
            planned(service).load_table("default.lists")
            assert len(list((tmp_path / "scratch").rglob("data/*.parquet"))) == files


def test_columns_that_the_client_does_not_know_yet_cannot_be_mistaken(tmp_path: Path) -> None:
    """A table without a schema history: a column is added after the client has loaded the table."""
    folder = tmp_path / "root" / "t"
    table = TableWriter(folder=folder).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "one"}])
    table.commit(at(1))
    with running(service_options(tmp_path / "scratch", [tmp_path / "root"])) as service:
        loaded = planned(service).load_table("default.t")
        wider = TableWriter(folder=folder, fields=(*KEY_AND_VALUE, ("more", "string")))
        wider.base_file(at(2), [{"id": "b", "ts": 1, "value": "two", "more": "x"}], file_id="f2-0")
        wider.commit(at(2))
        assert sorted_column(rows(planned(service).load_table("default.t"), selected_fields=("value",)), "value") == [
            "one",
            "two",
        ]
        with pytest.raises(ValueError, match="more"):
            rows(loaded, selected_fields=("value",))
        assert sorted_column(rows(loaded.refresh(), selected_fields=("value",)), "value") == ["one", "two"]


def test_base_files_with_columns_that_no_schema_has_are_rewritten(tmp_path: Path) -> None:
    folder = tmp_path / "root" / "t"
    table = TableWriter(folder=folder, fields=(*KEY_AND_VALUE, ("gone", "string"))).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "one", "gone": "x"}])
    TableWriter(folder=folder).commit(at(1))
    with running(service_options(tmp_path / "scratch", [tmp_path / "root"])) as service:
        actual = rows(planned(service).load_table("default.t"))
        assert actual.select(["id", "value"]) == pa.table({"id": ["a"], "value": ["one"]}).cast(
            actual.select(["id", "value"]).schema
        )
        (path,) = [
            plan_file.file.file_path for plan_file in planned(service).load_table("default.t").scan().plan_files()
        ]
        assert "/scratch/" in path


@pytest.mark.long
def test_everything_is_scanned_if_the_filter_is_always_true(service: IcebergService) -> None:
    table = planned(service).load_table("default.many")
    assert rows(table, limit=3).num_rows == 3
    assert built(service) == SLICES


def test_read_optimized_scans_find_records_that_logs_delete(tmp_path: Path) -> None:
    shutil.copytree(golden_table("h_record_index_120"), tmp_path / "root" / "t")
    with running(service_options(tmp_path / "scratch", [tmp_path / "root"])) as service:
        for name, expected in (("t__ro", 1), ("t", 0)):
            assert rows(planned(service).load_table(f"default.{name}"), row_filter="id = 'k00000'").num_rows == expected


def test_scans_find_rows_whose_path_spells_another_partition_value(tmp_path: Path) -> None:
    moved(tmp_path / "root" / "t")
    with running(service_options(tmp_path / "scratch", [tmp_path / "root"])) as service:
        table = planned(service).load_table("default.t")
        for value, keys in MOVED_KEYS.items():
            assert sorted_column(rows(table, row_filter=f"part = '{value}'"), "id") == keys
