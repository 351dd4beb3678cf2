"""The service as clients see it: names, errors, who is let in, and what is not shown."""

import json
import logging
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import polars as pl
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError, NoSuchTableError, UnauthorizedError

from hudi_bridge.connectors.lakes.roots import Roots
from hudi_bridge.errors import CorruptTimelineError, QueryError
from hudi_bridge.service import gate, server
from hudi_bridge.service.server import IcebergService, read_token
from hudi_bridge.storage.storage import Storage
from tests.service.iceberg_service import client, rows, running, service_options
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at, sorted_column
from tests.support.waiting import wait_for

PROGRAM = "from hudi_bridge.cli.main import main; main()"
HOSTILE = (
    "a b",
    "a+b",
    "a%20b",
    "a'b",
    'a"b',
    "a;b",
    "täble",
    "日本",
    "a&b=c",
    "a?b",
    "a#b",
    "{x}",
    "%2e%2e",
    "~",
    "a,b",
)


def small_table(folder: Path, value: str = "old") -> TableWriter:
    table = TableWriter(folder=folder).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": value}])
    table.commit(at(1))
    return table


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Tables directly in the root, in a namespace, and in one below it; and what must not be seen."""
    root = tmp_path / "root"
    for location in ("trips", "sales/orders", "sales/eu/orders", ".hidden/table"):
        small_table(root / location, location)
    small_table(tmp_path / "elsewhere" / "secret", "secret")
    (root / "link").symlink_to(tmp_path / "elsewhere" / "secret")
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    (root / "inside").symlink_to(root / "trips")
    (root / "sales" / "inside").symlink_to(root / "sales" / "eu" / "orders")
    # Links out of a namespace, and back up.
    (root / "of_sales").symlink_to(root / "sales" / "orders")
    (root / "sales" / "of_default").symlink_to(root / "trips")
    (root / "sales" / "eu" / "of_sales").symlink_to(root / "sales" / "orders")
    (root / "sales2").symlink_to(root / "sales")
    (root / "up").symlink_to(root)
    (root / "sales" / "up").symlink_to("..")
    return root


@pytest.fixture
def service(root: Path, tmp_path: Path) -> Iterator[IcebergService]:
    with running(service_options(tmp_path / "scratch", [root])) as service:
        yield service


def answer(service: IcebergService, path: str, method: str = "GET", **headers: str) -> tuple[int, Any]:
    """Status and content of an answer."""
    request = urllib.request.Request(service.url + path, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.status or 0, error.read()


def test_folders_are_namespaces_and_tables(service: IcebergService) -> None:
    catalog = client(service)
    assert catalog.list_namespaces() == [("default",), ("sales",)]
    assert catalog.list_namespaces(("sales",)) == [("sales", "eu")]
    assert catalog.list_tables("default") == [("default", "inside"), ("default", "trips")]
    assert catalog.list_tables("sales") == [("sales", "inside"), ("sales", "orders")]
    assert catalog.list_tables(("sales", "eu")) == [("sales", "eu", "orders")]
    for name in (("default", "trips"), ("sales", "orders"), ("sales", "eu", "orders")):
        assert catalog.table_exists(name)
        expected = "/".join(name).removeprefix("default/")
        assert sorted_column(rows(catalog.load_table(name)), "value") == [expected]


@pytest.mark.parametrize(
    "path",
    one_in(
        2,
        [
            "default/tables/link",
            "linked/tables/secret",
            "default/tables/of_sales",
            "sales/tables/of_default",
            "sales%1feu/tables/of_sales",
            "sales2/tables/orders",
            "sales2/tables",
            "up/tables/trips",
            "sales%1fup/tables/trips",
            ".hidden/tables/table",
            "default/tables/nothing",
            "default/tables/..",
            "default/tables/%2e%2e",
            "%2e%2e/tables/elsewhere",
            "..%1felsewhere/tables/secret",
            "sales%1f..%1f..%1felsewhere/tables/secret",
            "sales/tables/..%2f..%2felsewhere%2fsecret",
            "sales%2forders/tables/x",
            "sales/tables/%00",
            "default/tables/.hidden",
            "sales/tables/orders%1f",
        ],
    ),
)
def test_nothing_outside_the_roots_is_found(service: IcebergService, path: str) -> None:
    status, content = answer(service, f"/v1/namespaces/{path}")
    assert status == 404
    assert "secret" not in json.loads(content).get("metadata", "")


@pytest.mark.parametrize("length", one_in(2, [127, 128, 252, 255, 256, 1000]))
@pytest.mark.parametrize("letter", ["a", "é"])
def test_names_longer_than_those_of_files_are_not_there(service: IcebergService, letter: str, length: int) -> None:
    name = quote(letter * length)
    for path in (
        f"/v1/namespaces/default/tables/{name}",
        f"/v1/namespaces/{name}/tables",
        f"/v1/namespaces/{'%1f'.join([name] * 5)}/tables/x",
        f"/v1/namespaces?parent={name}",
    ):
        status, content = answer(service, path)
        assert status == 404
        assert json.loads(content)["error"]["code"] == 404


def test_a_path_longer_than_those_of_files_is_not_there(service: IcebergService) -> None:
    status, content = answer(service, f"/v1/namespaces/{'%1f'.join(['a' * 255] * 16)}/tables/x")
    assert (status, b"File name" in content) == (404, False)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8181", "192.0.2.1", "localhost.evil.example", "[::2]:80"]
)
def test_without_a_token_only_this_machine_is_answered(service: IcebergService, host: str) -> None:
    """The names that a browser sends for pages from elsewhere."""
    status, content = answer(service, "/v1/config", Host=host)
    assert (status, json.loads(content)["error"]["type"]) == (403, "ForbiddenException")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8181", "127.0.0.1", "127.1.2.3:80", "[::1]:8181"])
def test_this_machine_has_several_names(service: IcebergService, host: str) -> None:
    assert answer(service, "/v1/config", Host=host)[0] == 200


def test_with_a_token_the_service_may_have_any_name(root: Path, tmp_path: Path) -> None:
    with running(service_options(tmp_path / "scratch", [root], token="open sesame")) as service:
        headers = {"Host": "lake.example", "Authorization": "Bearer open sesame"}
        assert answer(service, "/v1/config", **headers)[0] == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /v1/config HTTP/1.1\r\nHost: localhost\r\nX: ",
        b"POST /v1/planned/namespaces/a/tables/b/plan HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
    ],
)
def test_clients_that_send_no_whole_request_are_hung_up_on(
    service: IcebergService, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "REQUEST_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(gate, "_POLL_SECONDS", 0.05)
    with socket.create_connection(("127.0.0.1", int(service.url.rpartition(":")[2])), timeout=20) as connection:
        connection.sendall(sent)
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""


def test_clients_that_do_not_read_are_hung_up_on(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "REQUEST_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(gate, "_POLL_SECONDS", 0.05)
    with running(service_options(tmp_path / "scratch", [root])) as service, unread(service) as connection:
        ended = select.poll()
        # Nothing is asked for but the end, which is always told.
        ended.register(connection, 0)
        assert ended.poll(20_000)
        assert answer(service, "/v1/config")[0] == 200


@contextmanager
def unread(service: IcebergService) -> Iterator[socket.socket]:
    """A connection on which the service cannot write any more."""
    address = ("127.0.0.1", int(service.url.rpartition(":")[2]))
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(address)
        connection.settimeout(0.2)
        # The service stops to read when it cannot write.
        with suppress(TimeoutError, ConnectionError):
            while True:
                connection.sendall(b"GET /v1/config HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
        connection.settimeout(20)
        yield connection


def test_a_client_that_does_not_read_does_not_keep_the_service_from_ending(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "_POLL_SECONDS", 0.05)
    monkeypatch.setattr(server, "_SHUTDOWN_SECONDS", 1000)
    with running(service_options(tmp_path / "scratch", [root])) as service, unread(service):
        # Waits for the service, which would wait for the client.
        service.stop()


def test_idle_connections_do_not_keep_others_out(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "most_connections", lambda: 5)
    with running(service_options(tmp_path / "scratch", [root])) as service, ExitStack() as opened:
        address = ("127.0.0.1", int(service.url.rpartition(":")[2]))
        idle = [opened.enter_context(socket.create_connection(address, timeout=20)) for _ in range(30)]
        assert answer(service, "/v1/config")[0] == 200
        # Those that had waited longest were closed.
        with suppress(ConnectionResetError):
            assert idle[0].recv(1) == b""


def test_connections_leave_descriptors_for_tables() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 0 < gate.most_connections() + gate.backlog() < soft


def test_connections_stay_open_while_requests_come(service: IcebergService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "REQUEST_TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(gate, "_POLL_SECONDS", 0.2)
    connection = HTTPConnection("127.0.0.1", int(service.url.rpartition(":")[2]), timeout=20)
    with closing(connection):
        connection.connect()
        used = connection.sock
        for _ in range(30):
            connection.request("GET", "/v1/config")
            assert connection.getresponse().read()
            assert connection.sock is used
            time.sleep(0.1)


@pytest.mark.long
def test_connections_stay_open_for_longer_than_clients_are_told(service: IcebergService) -> None:
    connection = HTTPConnection("127.0.0.1", int(service.url.rpartition(":")[2]), timeout=20)
    with closing(connection):
        connection.request("GET", "/v1/config")
        first = connection.getresponse()
        assert first.read()
        timeout = re.fullmatch(r"timeout=(\d+)", first.headers["Keep-Alive"])
        assert timeout is not None
        used = connection.sock
        time.sleep(int(timeout[1]) + 0.5)
        connection.request("GET", "/v1/config")
        assert connection.getresponse().status == 200
        assert connection.sock is used


def test_errors_are_logged_with_the_table_and_answered_without_places(
    root: Path, service: IcebergService, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hudi_bridge")
    (root / "sales" / "orders" / ".hoodie" / "hoodie.properties").write_bytes(b"x")
    for path, status in {
        "sales/tables/orders": 500,
        "sales/tables/nothing": 404,
        "sales/tables/a%0ab": 404,
        "default/tables/trips@yesterday": 400,
    }.items():
        caplog.clear()
        actual, content = answer(service, f"/v1/namespaces/{path}")
        assert actual == status
        assert str(root).encode() not in content
        # The line is written once the answer is sent.
        wait_for(lambda: "for GET" in caplog.text)
        [record] = [item for item in caplog.records if item.name.startswith("hudi_bridge")]
        table = path.replace("/tables/", ".").replace("%0a", "\\n")
        assert record.getMessage().startswith(f"'{table}': {status} for GET: ")
        assert record.levelname == ("ERROR" if status == 500 else "INFO")


def test_a_scratch_folder_that_cannot_be_written_to_is_said_at_once(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(QueryError, match="nothing can be written"):
        IcebergService(service_options(tmp_path / "file", [root]))


def test_watching_goes_on_past_what_cannot_be_listed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    list_directory, failing = Storage.list_directory, [str(root), str(root / "sales")]

    def fails_at_first(self: Storage, path: str, **options: Any) -> Any:
        if self.root in failing and not path:
            raise PermissionError(f"{self.root} is not for you")
        return list_directory(self, path, **options)

    monkeypatch.setattr(Storage, "list_directory", fails_at_first)
    with running(service_options(tmp_path / "scratch", [root], watch_seconds=0.05)) as service:
        wait_for(lambda: "not watched until" in caplog.text)
        failing.remove(str(root))
        wait_for(lambda: "'sales' is not watched until" in caplog.text)
        wait_for(lambda: service.counters.value("snapshots_built_total") == 2)
        failing.clear()
        wait_for(lambda: service.counters.value("snapshots_built_total") == 5)
        wait_for(lambda: "'sales' is watched again" in caplog.text)
    assert caplog.text.count("not watched until") == 2


def test_tables_are_found_whatever_their_case_if_one_is_meant(service: IcebergService, root: Path) -> None:
    catalog = client(service)
    small_table(root / "Mixed", "Mixed")
    assert sorted_column(rows(catalog.load_table(("default", "mixed"))), "value") == ["Mixed"]
    small_table(root / "MIXED", "MIXED")
    assert sorted_column(rows(catalog.load_table(("default", "Mixed"))), "value") == ["Mixed"]
    with pytest.raises(NoSuchTableError):
        catalog.load_table(("default", "mixed"))


@pytest.mark.parametrize("name", one_in(4, HOSTILE))
@pytest.mark.parametrize("encode", [quote, quote_plus], ids=["as a path", "as a form"])
def test_names_are_names(service: IcebergService, root: Path, name: str, encode: Any) -> None:
    small_table(root / name / name, name)
    encoded = encode(name, safe="")
    status, content = answer(service, f"/v1/namespaces/{encoded}/tables/{encoded}")
    assert status == 200
    assert json.loads(content)["metadata"]["properties"]["hudi.table"].endswith(f"/{name}/{name}")
    if encode is quote and not set(name) & set("?#"):
        assert sorted_column(rows(client(service).load_table((name, name))), "value") == [name]


def test_names_tell_what_of_a_table_is_read(tmp_path: Path) -> None:
    table = small_table(tmp_path / "root" / "trips")
    table.log_file(at(2), [table.data_block(at(2), [{"id": "a", "ts": 2, "value": "new"}])])
    table.commit(at(2))
    small_table(tmp_path / "root" / "trips__ro", "a table of that name")
    with running(service_options(tmp_path / "scratch", [tmp_path / "root"])) as service:
        catalog = client(service)
        actual = {
            name: sorted_column(rows(catalog.load_table(("default", name))), "value")
            for name in ("trips", "trips$ro", "trips__ro", f"trips@{at(1)}", f"trips__at_{at(1)}", f"trips$ro@{at(2)}")
        }
        assert actual == {
            "trips": ["new"],
            "trips$ro": ["old"],
            "trips__ro": ["a table of that name"],
            f"trips@{at(1)}": ["old"],
            f"trips__at_{at(1)}": ["old"],
            f"trips$ro@{at(2)}": ["old"],
        }
        assert catalog.list_tables("default") == [("default", "trips"), ("default", "trips__ro")]
        with pytest.raises(BadRequestError, match="as_of"):
            catalog.load_table(("default", "trips@yesterday"))


def test_a_new_commit_is_seen_by_the_next_load(root: Path, service: IcebergService) -> None:
    catalog = client(service)
    before = catalog.load_table(("default", "trips"))
    table = TableWriter(folder=root / "trips")
    table.log_file(at(2), [table.data_block(at(2), [{"id": "b", "ts": 2, "value": "new"}])])
    table.commit(at(2))
    assert sorted_column(rows(catalog.load_table(("default", "trips"))), "value") == ["new", "trips"]
    assert sorted_column(rows(before), "value") == ["trips"]


def test_the_catalog_cannot_be_changed(service: IcebergService) -> None:
    for method, path in [
        ("POST", "/v1/namespaces"),
        ("DELETE", "/v1/namespaces/sales"),
        ("POST", "/v1/namespaces/sales/tables"),
        ("POST", "/v1/namespaces/sales/tables/orders"),
        ("DELETE", "/v1/namespaces/sales/tables/orders"),
    ]:
        status, content = answer(service, path, method)
        assert status == 405
        assert json.loads(content)["error"]["type"] == "UnsupportedOperationException"


def test_a_damaged_table_is_an_error_with_its_reason(root: Path, service: IcebergService) -> None:
    next(iter((root / "trips").glob("*.parquet"))).write_bytes(b"no parquet")
    status, content = answer(service, "/v1/namespaces/default/tables/trips")
    assert status == 500
    error = json.loads(content)["error"]
    assert error["type"] == "CorruptBaseFileError"
    assert "readable Parquet file" in error["message"]
    assert 'errors_total{error="CorruptBaseFileError"} 1' in answer(service, "/metrics")[1].decode()


def test_clients_are_told_not_to_report_metrics_and_not_to_look_for_views(service: IcebergService) -> None:
    status, content = answer(service, "/v1/config")
    document = json.loads(content)
    assert status == 200
    assert document["overrides"] == {"rest-metrics-reporting-enabled": "false"}
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}" in document["endpoints"]
    assert not [item for item in document["endpoints"] if item.startswith("POST ") or item.endswith("/views/{view}")]


def test_clients_may_report_metrics_and_look_for_views(service: IcebergService) -> None:
    assert answer(service, "/v1/namespaces/sales/tables/orders/metrics", "POST") == (204, b"")
    assert answer(service, "/v1/namespaces/sales/views") == (200, b'{"identifiers":[]}')
    assert answer(service, "/v1/namespaces/sales/views/orders")[0] == 404
    assert answer(service, "/v1/namespaces/nothing/tables")[0] == 404
    assert answer(service, "/v1/namespaces/nothing", "HEAD") == (404, b"")


def test_numbers_for_prometheus(service: IcebergService) -> None:
    for _ in range(2):
        client(service).load_table(("default", "trips"))
    answer(service, "/v1/namespaces/default", "HEAD")
    answer(service, "/v1/namespaces", "POST")
    text = answer(service, "/metrics")[1].decode()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert lines['hudi_bridge_iceberg_requests_total{operation="loadTable",status="200"}'] == "2"
    assert lines['hudi_bridge_iceberg_requests_total{operation="namespaceExists",status="200"}'] == "1"
    assert lines['hudi_bridge_iceberg_requests_total{operation="other",status="405"}'] == "1"
    assert lines["hudi_bridge_iceberg_snapshots_built_total"] == "1"
    assert lines["hudi_bridge_iceberg_snapshots_reused_total"] == "1"
    assert lines["hudi_bridge_iceberg_slices_built_total"] == "1"
    assert lines["hudi_bridge_iceberg_builds_in_progress"] == "0"


def test_a_token_is_asked_for(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("open sesame\n")
    options = service_options(tmp_path / "scratch", [root], token=read_token(path))
    with running(options) as service:
        assert client(service, token="open sesame").table_exists(("default", "trips"))
        with pytest.raises(UnauthorizedError):
            client(service, token="open sesam")
        for path_without in ("/v1/config", "/metrics", "/v1/namespaces/default/tables/trips", "/nothing"):
            assert answer(service, path_without)[0] == 401
        assert answer(service, "/health") == (200, b'{"status":"ok"}')
        for scheme in ("Bearer", "bearer", "BEARER"):
            assert answer(service, "/metrics", Authorization=f"{scheme} open sesame")[0] == 200
        assert answer(service, "/metrics", Authorization="Basic open sesame")[0] == 401
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{service.url}/v1/config")
        with refused.value as error:
            assert error.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_other_machines_need_a_token(root: Path, tmp_path: Path, host: str) -> None:
    with pytest.raises(QueryError, match="--token-file"):
        IcebergService(service_options(tmp_path / "scratch", [root], host=host))


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe"])
def test_a_file_without_a_token_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(QueryError, match="--token-file"):
        read_token(tmp_path / "token")
    with pytest.raises(QueryError, match="cannot be read"):
        read_token(tmp_path / "nothing")


@pytest.mark.long
def test_tables_of_unusual_names_are_found(tmp_path: Path) -> None:
    listed = ["a$$b", "back\\slash", "x$ro", "y@1"]
    for name in (".dot", *listed):
        small_table(tmp_path / "root" / name, name)
    (tmp_path / "root" / ".dots" / "inside").mkdir(parents=True)
    with running(service_options(tmp_path / "scratch", [tmp_path / "root"])) as service:
        for warehouse in ("", "planned"):
            catalog = client(service, warehouse=warehouse)
            assert catalog.list_tables("default") == [("default", name) for name in listed]
            for name in (".dot", *listed):
                assert sorted_column(rows(catalog.load_table(("default", name))), "value") == [name]
            for name in (".hoodie", ".dots", "..", "."):
                assert not catalog.table_exists(("default", name))
            with pytest.raises(NoSuchTableError):
                catalog.load_table((".dots", "inside"))


def test_tables_by_name_and_a_root_that_is_a_table(root: Path, tmp_path: Path) -> None:
    options = service_options(tmp_path / "scratch", [root / "trips"], [f"lake.eu.orders={root / 'sales' / 'orders'}"])
    with running(options) as service:
        catalog = client(service)
        assert catalog.list_namespaces() == [("default",), ("lake",)]
        assert catalog.list_namespaces("lake") == [("lake", "eu")]
        assert sorted_column(rows(catalog.load_table(("lake", "eu", "orders"))), "value") == ["sales/orders"]
        assert sorted_column(rows(catalog.load_table(("default", "trips"))), "value") == ["trips"]
        assert not catalog.table_exists(("default", "secret"))


@pytest.mark.parametrize("text", ["orders", "=x", "a..b=x", "../a=x", "a/b=x", ".a=x"])
def test_what_is_no_table_by_name_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="--table"):
        Roots.of([], [text])
    with pytest.raises(QueryError, match="roots"):
        Roots.of([], [])


def test_polars_reads_the_snapshot_of_a_time_or_fails(
    root: Path, service: IcebergService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    catalog = client(service)
    first = catalog.load_table(("default", "trips")).current_snapshot()
    assert first is not None
    table = TableWriter(folder=root / "trips")
    for number in (2, 3):
        row = {"id": "b", "ts": number, "value": f"by {number}"}
        table.commit(
            at(number), wrote=[table.log_file(at(number), [table.data_block(at(number), [row])], number=number)]
        )
    loaded = catalog.load_table(("default", "trips"))

    def values(millis_later: int) -> list[str]:
        snapshot = loaded.snapshot_as_of_timestamp(first.timestamp_ms + millis_later)
        assert snapshot is not None
        frame = pl.scan_iceberg(loaded, snapshot_id=snapshot.snapshot_id).select("value").collect()
        return sorted(frame["value"].to_list())

    assert "by 3" not in values(50)
    assert "by 3" in values(250)
    with pytest.raises(Exception, match=f"snapshot-{at(2)}-is-not-built-yet"):  # of PyIceberg or of Polars
        values(150)


def test_views_are_built_ahead(root: Path, tmp_path: Path) -> None:
    with running(service_options(tmp_path / "scratch", [root], watch_seconds=0.1)) as service:
        wait_for(lambda: service.counters.value("snapshots_built_total") == 5)
        # A link shows it as well.
        table = TableWriter(folder=root / "trips")
        for number in (2, 3):
            row = {"id": "b", "ts": number, "value": f"by {number}"}
            table.log_file(at(number), [table.data_block(at(number), [row])], number=number)
            table.commit(at(number))
        wait_for(lambda: service.counters.value("snapshots_built_total") == 9)
        snapshots = client(service).load_table(("default", "trips")).snapshots()
        assert [snapshot.snapshot_id for snapshot in snapshots] == [int(at(number)) for number in (1, 2, 3)]
        assert service.counters.value("snapshots_built_total") == 9


def test_the_command_serves_until_it_is_told_to_stop(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", PROGRAM, "serve", "iceberg", str(root), "--port", "0"]
    with subprocess.Popen(
        [*command, "--scratch", str(tmp_path / "scratch")], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        url = process.stderr.readline().split()[4].rstrip(";")
        catalog = RestCatalog("test", uri=url)
        assert sorted_column(rows(catalog.load_table(("default", "trips"))), "value") == ["trips"]
        with pytest.raises(NoSuchTableError):
            catalog.load_table(("default", "nothing"))
        process.send_signal(signal.SIGTERM)
        built, failed = process.stderr.read().splitlines()
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+"
    assert re.fullmatch(rf"{time} INFO build: table {root}/trips, instant \d+; \d+\.\d+ s", built)
    assert re.fullmatch(rf"{time} INFO 'default.nothing': 404 for GET: .*", failed)
    assert process.returncode in (0, -signal.SIGTERM)


def test_an_empty_clean_leaves_the_newest_snapshot(tmp_path: Path) -> None:
    table = small_table(tmp_path / "root" / "trips")
    table.base_file(at(2), [{"id": "a", "ts": 2, "value": "new"}])
    table.commit(at(2), action="commit")
    (table.timeline_folder / f"{at(3)}_{at(4)}.clean").write_bytes(b"")
    with running(service_options(tmp_path / "scratch", [tmp_path / "root"])) as service:
        assert sorted_column(rows(client(service).load_table("default.trips")), "value") == ["new"]
    with pytest.raises(CorruptTimelineError, match="found 0 bytes, expected JSON"):
        table.open().snapshot(at(1))
