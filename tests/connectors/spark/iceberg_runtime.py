"""Iceberg for Spark 3.5: ``python -m tests.connectors.spark.iceberg_runtime`` fetches it once and prints its path.

Each build of Iceberg is for one release of Spark, and there is none for the newest.
"""

from pathlib import Path

from benchmarks.maven_jar import MavenJar

RUNTIME = MavenJar(
    group="org.apache.iceberg",
    artifact="iceberg-spark-runtime-3.5_2.12",
    version="1.12.0",
    sha256="8dd8c90e54ed1a20f2461309d047a255ee56382eb7c0a46162b27a4936fd86dc",
)


def iceberg_runtime() -> Path:
    """The path of the jar; fetches it first if necessary."""
    return RUNTIME.fetched()


if __name__ == "__main__":
    print(iceberg_runtime())  # noqa: T201 - what the command is for
