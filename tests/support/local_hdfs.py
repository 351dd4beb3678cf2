"""What stands for hdfs-native in tests without a cluster: its client, over a local folder; calls are counted."""

import os
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakValueDictionary

import pytest

from hudi_bridge.storage import hdfs


class PanicError(BaseException):
    """As hdfs-native raises when Rust panics: it is no Exception."""


@dataclass(slots=True)
class LocalHdfs:
    """The files of a cluster are those of ``folder``; ``clients`` has the arguments of each client that was made.

    ``calls`` counts the methods that were called. ``failures`` are raised by the next calls, one by each. Of a file in
    ``open_for_writing``, only as many bytes can be read.
    """

    folder: Path
    port: int
    calls: Counter[str] = field(default_factory=Counter)
    clients: list[tuple[str, dict[str, str], dict[str, str]]] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    open_for_writing: dict[str, int] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        """The URI of the root."""
        return f"hdfs://127.0.0.1:{self.port}"

    def called(self, name: str) -> None:
        """Count a call, which fails if one is to fail."""
        self.calls[name] += 1
        if self.failures:
            raise self.failures.pop(0)

    def local(self, path: str) -> Path:
        """The file that stands for a path."""
        assert path.startswith("/")
        return Path(f"{self.folder}{path}")

    def status(self, path: str) -> "_Status":
        local = self.local(path)
        if not local.exists():
            raise FileNotFoundError(path)
        return _Status(path, local.stat().st_size, local.is_dir(), int(local.stat().st_mtime * 1000))


class _Client:
    def __init__(self, cluster: LocalHdfs, url: str, config: dict[str, str], config_dir: str, **kerberos: str) -> None:
        assert config_dir == os.devnull
        self._cluster = cluster
        cluster.clients.append((url, config, kerberos))

    def get_file_info(self, path: str) -> "_Status":
        self._cluster.called("get_file_info")
        return self._cluster.status(path)

    def list_status(self, path: str, recursive: bool) -> Iterator["_Status"]:
        assert not recursive
        self._cluster.called("list_status")
        if not self._cluster.status(path).isdir:
            yield self._cluster.status(path)
            return
        for name in sorted(os.listdir(self._cluster.local(path))):  # noqa: PTH208
            yield self._cluster.status(f"{path.rstrip('/')}/{name}")

    def read(self, path: str) -> "_Reader":
        self._cluster.called("read")
        if self._cluster.status(path).isdir:
            raise FileNotFoundError(f"Path is not a file: {path}")
        return _Reader(self._cluster, path)

    def create(self, path: str) -> Any:
        self._cluster.local(path).parent.mkdir(parents=True, exist_ok=True)
        return self._cluster.local(path).open("xb")

    def rename(self, path: str, to: str, overwrite: bool) -> None:
        assert overwrite
        self._cluster.local(path).replace(self._cluster.local(to))

    def delete(self, path: str, recursive: bool) -> bool:
        assert not recursive
        self._cluster.local(path).unlink()
        return True


@dataclass(frozen=True, slots=True)
class _Status:
    path: str
    length: int
    isdir: bool
    modification_time: int


class _Reader:
    def __init__(self, cluster: LocalHdfs, path: str) -> None:
        self._cluster = cluster
        self._path = path
        self._length = cluster.open_for_writing.get(path, cluster.status(path).length)

    def __len__(self) -> int:
        return self._length

    def read_range(self, start: int, size: int) -> bytes:
        self._cluster.called("read_range")
        if start + size > self._length:
            raise PanicError("Cannot read past end of the file")
        return self._cluster.local(self._path).read_bytes()[start : start + size]


@contextmanager
def local_hdfs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHdfs]:
    """A cluster whose files are those of a folder. Its NameNode listens, and says nothing."""
    for variable in ("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_USER_NAME", "HADOOP_PROXY_USER"):
        monkeypatch.delenv(variable, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as name_node:
        cluster = LocalHdfs(folder, name_node.getsockname()[1])
        module = ModuleType("hdfs_native")
        module.Client = partial(_Client, cluster)  # type: ignore[attr-defined]
        # A port of an earlier test may come back.
        monkeypatch.setattr(hdfs, "_clients", WeakValueDictionary())
        monkeypatch.setitem(sys.modules, "hdfs_native", module)
        yield cluster
