"""hudi-rs 0.6, with its default reader: a crate of Rust, which cargo builds first (see benchmarks/rust_programs.py)."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.rust_programs import READER as PROGRAM
from benchmarks.rust_programs import built, release
from tests.golden.conformance.processes import NOT_OFFERED, RUST_PANIC
from tests.support.golden_cases import GoldenQuery

READER = f"hudi-rs {release()}"
_PATH = built(PROGRAM)


class DiedError(BaseException):
    """Raised when the program has panicked or was ended by a signal, which is no answer of a reader."""


def read(table: str, kind: str, options: Mapping[str, Any]) -> pa.Table:
    query = GoldenQuery.of(Path(table), kind, options)
    done = subprocess.run([str(_PATH), table, kind, json.dumps(dict(options))], capture_output=True, check=False)
    if done.returncode == 0:
        return query.passing(pa.ipc.open_stream(done.stdout).read_all())
    said = done.stderr.decode(errors="replace").strip()
    if done.returncode == RUST_PANIC or done.returncode < 0:
        raise DiedError(f"status {done.returncode}: {' '.join(said.split())}")
    raise NotImplementedError(said) if done.returncode == NOT_OFFERED else ValueError(said)
