"""Runs a server in a network of its own, of which one port can be reached: from this machine, through a relay.

The network is a namespace of Linux with a loopback interface and no other: what else the server listens on, on whatever
address, is out of reach. Run as a program, this is what goes on within the namespace.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

LOOPBACK = "127.0.0.1"
WAYS = (("unshare", "--net"), ("unshare", "--user", "--map-root-user", "--net"))
"""How to get a namespace: root may have one; others where the system allows user namespaces."""
# From linux/sockios.h and linux/if.h.
SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
FLAGS_OF_INTERFACE = struct.Struct("16sh22x")


class NoOwnNetworkError(Exception):
    """Raised where a process cannot get a network of its own; the message says what was tried."""


def way_into_own_network() -> tuple[str, ...]:
    """The beginning of a command that runs in a network of its own.

    Raises:
        NoOwnNetworkError: there is none.
    """
    tried = []
    for way in WAYS:
        try:
            done = subprocess.run([*way, "true"], capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise NoOwnNetworkError(f"no network namespace: {way[0]} of util-linux is missing (Linux only)") from error
        if done.returncode == 0:
            return way
        tried.append(f"`{' '.join(way)}` said {done.stderr.strip()!r}")
    raise NoOwnNetworkError(
        f"no network namespace: {', '.join(tried)}. Root needs the capability CAP_SYS_ADMIN, which containers lack"
        " without --privileged or --cap-add; others need user namespaces, which the settings"
        " kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns may forbid."
    )


def started_in_own_network(
    way: Sequence[str], command: Sequence[str], port: int, listener: socket.socket, folder: Path, output: BinaryIO
) -> "subprocess.Popen[bytes]":
    """A process in a network of its own; connections to ``listener`` reach its loopback port.

    It ends when this process closes its standard input, or ends in whatever way.
    """
    within = [sys.executable, "-I", __file__, str(listener.fileno()), str(port)]
    return subprocess.Popen(
        [*way, *within, *command],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=[listener.fileno()],
    )


def _become(command: Sequence[str], listener: socket.socket, port: int) -> None:
    """Turn into the server, beside a relay."""
    _bring_loopback_up()
    server = os.getpid()
    if os.fork() == 0:
        try:
            asyncio.run(_relay_until_end_of_input(listener, port))
        finally:
            # Its parent is another if the server has ended.
            if os.getppid() == server:
                os.kill(server, signal.SIGKILL)
            os._exit(0)
    listener.close()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.execvp(command[0], [*command])


def _bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, SIOCGIFFLAGS, FLAGS_OF_INTERFACE.pack(b"lo", 0))
        name, flags = FLAGS_OF_INTERFACE.unpack(answer)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, FLAGS_OF_INTERFACE.pack(name, flags | IFF_UP))


async def _relay_until_end_of_input(listener: socket.socket, port: int) -> None:
    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection(LOOPBACK, port)
        except OSError:
            # The server does not listen yet.
            writer.close()
            return
        await asyncio.gather(_copy(reader, to_server), _copy(from_server, writer))

    await asyncio.start_server(relay, sock=listener)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while some := await source.read(1 << 16):
            target.write(some)
            await target.drain()
    target.close()


def listening_sockets(process: str) -> set[str]:
    """The addresses and inodes of the sockets that listen in the network of a process."""
    actual = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                actual.add(f"{fields[1]} {fields[9]}")
    return actual


if __name__ == "__main__":
    _become(sys.argv[3:], socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
