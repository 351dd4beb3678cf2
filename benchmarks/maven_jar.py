"""Fetches jars from Maven Central into ``~/.cache/hudi-bridge/jars``, once, and checks their SHA-256."""

import hashlib
import os
import shutil
import urllib.request
from dataclasses import dataclass
from pathlib import Path

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
"""The default of ``$MAVEN_CENTRAL``, which may name a mirror."""
TIMEOUT_SECONDS = 120


def maven_central() -> str:
    """The repository that jars and servers are fetched from."""
    return os.environ.get("MAVEN_CENTRAL", MAVEN_CENTRAL)


class JarError(Exception):
    """Raised when a fetched jar has another checksum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MavenJar:
    """The Maven coordinates of a jar, and its checksum."""

    group: str
    artifact: str
    version: str
    sha256: str
    classifier: str | None = None

    @property
    def name(self) -> str:
        """The file's name."""
        return "-".join(filter(None, (self.artifact, self.version, self.classifier))) + ".jar"

    @property
    def path(self) -> Path:
        """Where the jar is once it has been fetched."""
        return Path.home() / ".cache" / "hudi-bridge" / "jars" / self.name

    @property
    def url(self) -> str:
        """Where the jar is fetched from."""
        return f"{maven_central()}/{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"

    def fetched(self) -> Path:
        """The path of the jar; fetches it first if necessary."""
        path = self.path
        if path.exists() and _sha256(path) == self.sha256:
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{self.name}.{os.getpid()}.part")
        try:
            with urllib.request.urlopen(self.url, timeout=TIMEOUT_SECONDS) as source, part.open("wb") as target:
                shutil.copyfileobj(source, target)
            found = _sha256(part)
            if found != self.sha256:
                raise JarError(f"{self.url}: SHA-256 {found}, expected {self.sha256}")
            part.rename(path)
        finally:
            part.unlink(missing_ok=True)
        return path


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
