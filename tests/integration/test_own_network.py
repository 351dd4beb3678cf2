"""Servers in a network of their own, with a small one in Python in place of Presto."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.integration import own_network
from tests.integration.own_network import (
    LOOPBACK,
    NoOwnNetworkError,
    listening_sockets,
    started_in_own_network,
    way_into_own_network,
)
from tests.integration.server_process import stop
from tests.support.waiting import wait_for

PORT = 8080
SERVER = (sys.executable, "-m", "http.server", str(PORT))
OWNER = """\
import socket, sys, time
from pathlib import Path
from tests.integration.own_network import started_in_own_network, way_into_own_network
folder = Path(sys.argv[1])
with socket.create_server(("127.0.0.1", 0)) as listener, (folder / "log").open("wb") as log:
    process = started_in_own_network(way_into_own_network(), sys.argv[2:], 8080, listener, folder, log)
    print(process.pid, listener.getsockname()[1], flush=True)
time.sleep(1000)
"""
NEEDS_NAMESPACES = pytest.mark.jvm
"""Not of ``make check``, since there are machines without; what Presto runs on has them."""


@contextmanager
def running(folder: Path, way: tuple[str, ...] | None = None) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    with socket.create_server((LOOPBACK, 0)) as listener, (folder / "log").open("wb") as log:
        port = listener.getsockname()[1]
        process = started_in_own_network(way or way_into_own_network(), SERVER, PORT, listener, folder, log)
    try:
        yield process, port
    finally:
        stop(process)


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/marker", timeout=5) as answer:
            return bool(answer.read() == b"here" * 100_000)
    except OSError:
        return False


def is_refused(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "marker").write_bytes(b"here" * 100_000)
    return tmp_path


@NEEDS_NAMESPACES
def test_one_port_is_reached_through_the_relay_and_nothing_else(folder: Path) -> None:
    with running(folder) as (process, port):
        wait_for(lambda: answers(port))
        within, outside = listening_sockets(str(process.pid)), listening_sockets("self")
        # http.server listens on every address, and is not seen.
        assert {item.split()[0] for item in within} == {f"00000000:{PORT:04X}"}
        assert not within & outside
        assert f"0100007F:{port:04X}" in {item.split()[0] for item in outside}
    wait_for(lambda: is_refused(port))


@NEEDS_NAMESPACES
def test_each_way_that_a_machine_allows_leads_into_a_network_without_routes(folder: Path) -> None:
    allowed = [way for way in own_network.WAYS if not subprocess.run([*way, "true"], check=False).returncode]
    assert allowed
    for way in allowed:
        with running(folder, way) as (process, port):
            wait_for(partial(answers, port))
            headings, *routes = Path(f"/proc/{process.pid}/net/route").read_text().splitlines()
            assert headings.startswith("Iface")
            assert routes == []


@NEEDS_NAMESPACES
def test_the_server_ends_with_its_owner_even_if_that_is_killed(folder: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(folder), *SERVER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout
    with owner.stdout:
        pid, port = (int(item) for item in owner.stdout.readline().split())
    wait_for(lambda: answers(port))
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    wait_for(lambda: is_gone(pid))
    wait_for(lambda: is_refused(port))


def is_gone(pid: int) -> bool:
    # Where nobody waits for orphans, they stay as zombies.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_machine_that_allows_no_namespace_is_told_what_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "unshare"
    program.write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(NoOwnNetworkError) as caught:
        way_into_own_network()
    for way in own_network.WAYS:
        assert f"`{' '.join(way)}` said 'unshare failed: Operation not permitted'" in str(caught.value)


def test_a_machine_without_the_program_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoOwnNetworkError, match="unshare of util-linux is missing"):
        way_into_own_network()
