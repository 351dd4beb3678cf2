"""The catalog service in a process of its own, and what it holds."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "from hudi_bridge.cli.main import main; main()"
START_SECONDS = 120
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What the service holds at one time."""

    seconds: float
    process: int
    resident_mib: float
    files: int
    threads: int
    scratch_mib: float
    scratch_files: int


class ServiceProcess:
    """A service that can be killed and started again at the same address."""

    def __init__(self, root: Path, scratch: Path, log: Path) -> None:
        self._root = root
        self.scratch = scratch
        self._log = log
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        arguments = ["serve", "iceberg", str(self._root), "--scratch", str(self.scratch), "--port", str(self._port)]
        arguments += ["--keep", "5", "--keep-minutes", "0.5", "--watch", "2"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stderr=log, stdout=log)
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            assert self._process.poll() is None, f"the service has ended: see {self._log}"
            assert time.monotonic() < deadline, f"the service does not answer: see {self._log}"
            time.sleep(0.2)

    def kill(self) -> None:
        """End it without a warning."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def level(self, seconds: float) -> Level:
        """What it holds now; ``seconds`` is the time since the start of all."""
        assert self._process is not None
        process = Path(f"/proc/{self._process.pid}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        sizes = _file_sizes(self.scratch)
        return Level(
            seconds=seconds,
            process=self._process.pid,
            resident_mib=int(status["VmRSS"].split()[0]) / 1024,
            files=len(os.listdir(process / "fd")),  # noqa: PTH208 - of another process
            threads=int(status["Threads"]),
            scratch_mib=sum(sizes) / MIB,
            scratch_files=len(sizes),
        )

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def _file_sizes(folder: Path) -> list[int]:
    sizes = []
    for parent, _, names in os.walk(folder):
        for name in names:
            # Files come and go meanwhile.
            with suppress(FileNotFoundError):
                sizes.append((Path(parent) / name).stat().st_size)
    return sizes
