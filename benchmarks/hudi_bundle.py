"""The Hudi bundle for Spark 3.5: ``python -m benchmarks.hudi_bundle`` fetches it once and prints its path."""

from pathlib import Path

from benchmarks.maven_jar import MavenJar

BUNDLE = MavenJar(
    group="org.apache.hudi",
    artifact="hudi-spark3.5-bundle_2.12",
    version="1.2.0",
    sha256="cc79fba00822f3a6c3a860df99375c2e3d4a034d037dbf4213a4966a706a7676",
)
NAME = BUNDLE.name


def hudi_bundle() -> Path:
    """The path of the bundle; fetches it first if necessary."""
    return BUNDLE.fetched()


if __name__ == "__main__":
    print(hudi_bundle())
