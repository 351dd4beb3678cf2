"""The Hudi bundle for Spark 3.5, fetched once from Maven Central: ``python -m benchmarks.hudi_bundle`` prints its path.

It lies in ``~/.cache/hudi-bridge/jars``. A copy is used only if its checksum is the one given here.
"""

import hashlib
import os
import shutil
import urllib.request
from pathlib import Path

VERSION = "1.2.0"
NAME = f"hudi-spark3.5-bundle_2.12-{VERSION}.jar"
SHA256 = "cc79fba00822f3a6c3a860df99375c2e3d4a034d037dbf4213a4966a706a7676"
MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
PATIENCE_SECONDS = 120


class BundleError(Exception):
    """Raised when what was fetched is not the bundle."""


def bundle_path() -> Path:
    """Where the bundle lies once it has been fetched."""
    return Path.home() / ".cache" / "hudi-bridge" / "jars" / NAME


def hudi_bundle() -> Path:
    """The bundle, fetched now unless it is there."""
    path = bundle_path()
    if path.exists() and _sha256(path) == SHA256:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{NAME}.{os.getpid()}.part")
    url = f"{os.environ.get('MAVEN_CENTRAL', MAVEN_CENTRAL)}/org/apache/hudi/hudi-spark3.5-bundle_2.12/{VERSION}/{NAME}"
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as source, part.open("wb") as target:
            shutil.copyfileobj(source, target)
        found = _sha256(part)
        if found != SHA256:
            raise BundleError(f"{url}: SHA-256 {found}, expected {SHA256}")
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    print(hudi_bundle())
