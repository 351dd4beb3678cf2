"""Clients of the catalog service that do not keep to HTTP, to its paths, or to their connections."""

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from hudi_bridge.service.server import IcebergService
from tests.service.iceberg_service import running, service_options
from tests.support.table_writer import TableWriter, at

_LOADED = b"GET /v1/namespaces/default/tables/trips HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_HOST = b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_METRICS = b"POST /v1/namespaces/default/tables/trips/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"

_REFUSED = {
    "no HTTP": b"\x16\x03\x01" + bytes(range(256)) + b"\r\n\r\n",
    "no host": b"GET /v1/config HTTP/1.1\r\n\r\n",
    "zero in the path": b"GET /v1/namespaces/\0" + _HOST,
    "path that is not ASCII": "GET /v1/namespaces/é".encode() + _HOST,
    "path of a megabyte": b"GET /" + b"a" * (1 << 20) + _HOST,
    "header of a megabyte": b"GET /v1/config HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n",
    "two lengths": _METRICS + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "length below zero": _METRICS + b"Content-Length: -5\r\n\r\n",
    "unknown method": b"FOO /v1/config" + _HOST,
    "path that climbs": b"GET /v1/namespaces/..%1f..%1fetc/tables/passwd" + _HOST,
    "path of links": b"GET /v1/namespaces/" + b"%1f".join([b"a"] * 500) + b"/tables" + _HOST,
    "name of other bytes": b"GET /v1/namespaces/%ff%fe/tables/%00" + _HOST,
    "long name": b"GET /v1/namespaces/default/tables/" + b"a" * 300 + _HOST,
    "line end in a name": b"GET /v1/namespaces/default/tables/a%0d%0aSet-Cookie:%20x" + _HOST,
    "another host": b"GET /v1/config HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
    "another host as a URI": b"GET http://evil.example/v1/config HTTP/1.1\r\nHost: evil.example\r\n\r\n",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergService]:
    folder = tmp_path_factory.mktemp("served")
    table = TableWriter(folder=folder / "root" / "trips").create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])
    table.commit(at(1))
    with running(service_options(folder / "scratch", [folder / "root"])) as service:
        yield service


def connected(service: IcebergService) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(service.url.rpartition(":")[2])), timeout=20)


def status(service: IcebergService, request: bytes) -> int:
    """The status of the answer; 0 if the connection was closed without one."""
    with connected(service) as connection:
        try:
            connection.sendall(request)
            answer = connection.recv(1 << 16)
        except (ConnectionResetError, BrokenPipeError):
            return 0
    return int(answer[9:12] or 0)


@pytest.mark.parametrize("request_sent", _REFUSED.values(), ids=_REFUSED.keys())
def test_what_is_no_good_request_is_refused(service: IcebergService, request_sent: bytes) -> None:
    assert status(service, request_sent) in (0, 400, 403, 404, 405)
    assert status(service, _LOADED) == 200


def test_connections_that_are_left_keep_nobody_waiting(service: IcebergService) -> None:
    held = [connected(service) for _ in range(50)]
    try:
        for number, connection in enumerate(held):
            connection.sendall(_LOADED[: number % len(_LOADED)])
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(lambda _: status(service, _LOADED), range(16))) == {200}
    finally:
        for connection in held:
            connection.close()


def test_random_bytes_end_nothing(service: IcebergService) -> None:
    for _ in range(20):
        with connected(service) as connection:
            connection.sendall(os.urandom(500))
    assert status(service, _LOADED) == 200
