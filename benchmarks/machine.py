"""The facts about machine, versions and commit that figures depend on."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from benchmarks import rust_programs
from benchmarks.hudi_bundle import BUNDLE
from benchmarks.readings import NEWEST_PEER

ROOT = Path(__file__).parent.parent
PACKAGES = ("pyarrow", "numpy", "duckdb", "hudi")


def facts() -> dict[str, str]:
    """The facts by name; the load is that of now."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": f"{os.cpu_count()} cores ({_processor()}), {memory / 1e9:.0f} GB, {platform.machine()}",
        "Python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        NEWEST_PEER: rust_programs.release(),
        "Hudi on Spark": BUNDLE.name,
        "commit": commit(),
        "load average before": f"{os.getloadavg()[0]:.2f}",
    }


def commit() -> str:
    """The commit, marked if the package has uncommitted changes."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    found = git("rev-parse", "--verify", "--quiet", "HEAD") or "none yet"
    return f"{found} with changes" if git("status", "--porcelain", "hudi_bridge") else found


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
