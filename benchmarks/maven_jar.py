"""A jar of Maven Central, fetched once.

It lies in ``~/.cache/hudi-bridge/jars``. A copy is used only if its checksum is the one that the jar is known by.
"""

import hashlib
import os
import shutil
import urllib.request
from dataclasses import dataclass
from pathlib import Path

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
PATIENCE_SECONDS = 120


class JarError(Exception):
    """Raised when what was fetched is not the jar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MavenJar:
    """A jar by its coordinates, and the checksum of its bytes; ``classifier`` is such as ``tests``."""

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
        """Where the jar lies once it has been fetched."""
        return Path.home() / ".cache" / "hudi-bridge" / "jars" / self.name

    @property
    def url(self) -> str:
        """Where the jar is fetched from; the environment may name a mirror."""
        root = os.environ.get("MAVEN_CENTRAL", MAVEN_CENTRAL)
        return f"{root}/{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"

    def fetched(self) -> Path:
        """The jar, fetched now unless it is there."""
        path = self.path
        if path.exists() and _sha256(path) == self.sha256:
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{self.name}.{os.getpid()}.part")
        try:
            with urllib.request.urlopen(self.url, timeout=PATIENCE_SECONDS) as source, part.open("wb") as target:
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
