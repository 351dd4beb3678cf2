"""The JDK that Trino runs on: the one of ``JAVA_HOME`` or of a usual place, if it is new enough."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

OLDEST = 24
PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
"""Where packages, installers and IDEs put JDKs; a pattern that matches nothing costs nothing."""


class JdkMissingError(Exception):
    """Raised when no JDK was found that Trino can run on."""


def find_java() -> Path:
    """The program of the first JDK that is new enough: ``JAVA_HOME``, the path, then the usual places.

    Raises:
        JdkMissingError: there is none; the message says where was looked and what was found.
    """
    found = {}
    for home in _candidates():
        version = _major_version(home)
        if version is not None and version >= OLDEST:
            return home / "bin" / "java"
        found[str(home)] = version
    others = ", ".join(f"{home} is {version or 'no JDK'}" for home, version in found.items()) or "none"
    raise JdkMissingError(
        f"Trino needs JDK {OLDEST} or newer: install one (for instance from https://adoptium.net), or name it by"
        f" JAVA_HOME. Looked at JAVA_HOME, java on the path, and {', '.join(PLACES)}; found: {others}."
    )


def _candidates() -> Iterator[Path]:
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


def _major_version(home: Path) -> int | None:
    """What the file ``release`` of a JDK says; None where there is none."""
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except OSError:
        return None
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    return int(version.group(1)) if version else None
