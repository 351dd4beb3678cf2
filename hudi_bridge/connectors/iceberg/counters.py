"""Counters of the service, and their Prometheus text format."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

_PREFIX = "hudi_bridge_iceberg_"
_HELP: Mapping[str, tuple[str, str]] = {
    "requests_total": ("counter", "Requests by operation and status."),
    "request_seconds_total": ("counter", "Time spent on requests by operation."),
    "snapshots_built_total": ("counter", "Snapshots of tables that were built."),
    "snapshots_reused_total": ("counter", "Loads of tables that had not changed."),
    "scans_planned_total": ("counter", "Scans that were planned for clients."),
    "slices_built_total": ("counter", "File slices of which data files were read."),
    "slices_reused_total": ("counter", "File slices that had not changed when a snapshot was built."),
    "build_seconds_total": ("counter", "Time spent on file slices."),
    "builds_in_progress": ("gauge", "File slices that are being worked on."),
    "files_removed_total": ("counter", "Files that nothing referred to any more."),
    "errors_total": ("counter", "Errors of tables by class."),
}


class Counters:
    """Thread-safe counters by name and label."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: Counter[tuple[str, str]] = Counter()

    def add(self, name: str, amount: float = 1, *, labels: str = "") -> None:
        """Add to a counter; ``labels`` have Prometheus's form, such as ``operation="loadTable"``."""
        with self._lock:
            self._values[name, labels] += amount  # type: ignore[assignment]  # counters hold any number

    def value(self, name: str, labels: str = "") -> float:
        """The current value of a counter."""
        with self._lock:
            return self._values[name, labels]

    @contextmanager
    def building(self) -> Iterator[None]:
        """Count and time the block as work on one file slice."""
        start = time.perf_counter()
        self.add("builds_in_progress")
        try:
            yield
        finally:
            self.add("builds_in_progress", -1)
            self.add("build_seconds_total", time.perf_counter() - start)

    def prometheus(self) -> str:
        """All counters in Prometheus's text format."""
        with self._lock:
            values = dict(self._values)
        lines = []
        for name, (kind, text) in _HELP.items():
            lines += [f"# HELP {_PREFIX}{name} {text}", f"# TYPE {_PREFIX}{name} {kind}"]
            found = {labels: value for (one, labels), value in values.items() if one == name} or {"": 0}
            lines += [
                f"{_PREFIX}{name}{{{labels}}} {value}" if labels else f"{_PREFIX}{name} {value}"
                for labels, value in sorted(found.items())
            ]
        return "\n".join(lines) + "\n"
