"""The releases of Hudi that write golden tables: their bundles, and the Pythons whose Spark runs them."""

import os
from dataclasses import dataclass
from pathlib import Path

from benchmarks.hudi_bundle import BUNDLE
from benchmarks.maven_jar import MavenJar

ROOT = Path(__file__).parents[3]
PYTHON35 = ROOT / ".venv-spark35" / "bin" / "python"
"""PySpark 3.5; ``make spark`` installs it."""
PYTHON33 = Path(os.environ.get("PYTHON_SPARK33", ROOT / ".venv-spark33" / "bin" / "python"))
"""PySpark 3.3 and PyArrow, for Hudi 0.12 only. It needs Python 3.10 or older, so it is not installed by make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release of Hudi: its bundle, and a Python with the PySpark that the bundle is built for."""

    bundle: MavenJar
    python: Path

    @property
    def version(self) -> str:
        """The version, such as ``1.2.0``."""
        return self.bundle.version


def number(version: str) -> tuple[int, ...]:
    """A version as a tuple of numbers, which compares as releases do."""
    return tuple(int(part) for part in version.split("."))


def _bundle(version: str, sha256: str, spark: str = "3.5") -> MavenJar:
    return MavenJar(group="org.apache.hudi", artifact=f"hudi-spark{spark}-bundle_2.12", version=version, sha256=sha256)


RELEASES = {
    release.version: release
    for release in (
        Release(
            bundle=_bundle("0.12.2", "af28699af548ce577dac7b493b80cab3ec45eb7ca17893c267275202adbc62d0", spark="3.3"),
            python=PYTHON33,
        ),
        Release(
            bundle=_bundle("0.15.0", "aab6ecdb5c65fcd20406b980b31ccec294fae95693de947d5778f0b3fb4e302a"),
            python=PYTHON35,
        ),
        Release(
            bundle=_bundle("1.0.2", "2c2ab65a11e91265e4b7346f954448c46df52d66fb72f52dad83767b621deae8"), python=PYTHON35
        ),
        Release(
            bundle=_bundle("1.1.1", "5470908f0d26897fb6e0768790e6c75e3d05d2fa013f7d81c8f90c74056d1604"), python=PYTHON35
        ),
        Release(bundle=BUNDLE, python=PYTHON35),
    )
}
"""From the oldest to the newest."""
NEWEST = BUNDLE.version
