"""A Trino server, fetched once from Maven Central: ``python -m tests.integration.trino_download`` prints its folder.

The folder is below ``~/.cache/hudi-bridge/trino``, without the plugins that no test uses.
"""

from tests.integration.server_download import CACHE, ServerArchive

ARCHIVE = ServerArchive(
    group="io.trino",
    artifact="trino-server",
    version="476",
    sha256="cfd5accde17e8ebd251eeeb78aed1f490e77bb3a164d95a0f454bf8a7c1cbd3f",
    plugins=("functions-python", "hive", "hudi", "iceberg", "memory"),
    cache=CACHE / "trino",
)

if __name__ == "__main__":
    print(ARCHIVE.home())  # noqa: T201 - what the command is for
