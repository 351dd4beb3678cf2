"""The programs of ``hudi_rs_0_6``: hudi-rs 0.6 is a crate of Rust and no package of Python, so cargo builds them.

The first build takes about ten minutes of a core. What it makes is kept in
``~/.cache/hudi-bridge/hudi_rs_0_6``, or in the folder that ``HUDI_RS_0_6`` names. Another build takes a moment.
"""

import os
import shutil
import subprocess
import tomllib
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent / "hudi_rs_0_6"
READER, WRITER = "hudi_rs_0_6", "write_table"
_LAST_LINES = 3


class NotBuiltError(Exception):
    """Raised when there is no program; the message says why."""


def release() -> str:
    """The release of the crate that is built."""
    manifest = tomllib.loads((SOURCE / "Cargo.toml").read_text())
    return str(manifest["dependencies"]["hudi-core"]["version"]).removeprefix("=")


def program_path(program: str) -> Path:
    """Where a program is once it is built."""
    target = Path(os.environ.get("HUDI_RS_0_6") or Path.home() / ".cache" / "hudi-bridge" / "hudi_rs_0_6")
    return target / "release" / program


@cache
def built(program: str) -> Path:
    """The path of a program, which is built if it is not there, or not of this source.

    Raises:
        NotBuiltError: there is no cargo, or it has failed.
    """
    path = program_path(program)
    cargo = shutil.which("cargo")
    if cargo is None:
        raise NotBuiltError("there is no cargo to build it")
    command = [cargo, "build", "--release", "--locked", "--bin", program, "--target-dir", str(path.parents[1])]
    done = subprocess.run(command, cwd=SOURCE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise NotBuiltError(f"cargo has failed: {' '.join(done.stderr.splitlines()[-_LAST_LINES:])}")
    return path
