"""A Presto server, fetched once from Maven Central: ``python -m tests.integration.presto_download`` prints its folder.

The folder is below ``~/.cache/hudi-bridge/presto``, without the plugins that no test uses.
"""

from tests.integration.server_download import CACHE, ServerArchive

ARCHIVE = ServerArchive(
    group="com.facebook.presto",
    artifact="presto-server",
    version="0.287",
    sha256="c16ef78d56820a16fec6918a439b26121a78eb3cc50fdcd7bee93a1211347f8f",
    plugins=("hive-hadoop2", "hudi", "iceberg"),
    # Clients of a cache and of an access service: two fifths of each plugin.
    unused=("alluxio-shaded-client-", "ranger-apache-"),
    cache=CACHE / "presto",
)

if __name__ == "__main__":
    print(ARCHIVE.home())  # noqa: T201 - what the command is for
