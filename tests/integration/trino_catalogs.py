"""The properties of Trino's catalogs, as in the guide, for files anywhere on this machine."""

from pathlib import Path

LOCAL_FILES = {"fs.native-local.enabled": "true", "local.location": "/"}


def iceberg_properties(url: str, **properties: str) -> dict[str, str]:
    """The properties of the Iceberg connector, for the catalog service at ``url``."""
    return LOCAL_FILES | {"iceberg.catalog.type": "rest", "iceberg.rest-catalog.uri": url} | properties


def hive_properties(metastore: Path) -> dict[str, str]:
    """The properties of the Hive connector, for base files and views of ``trino sql``; its metastore is a folder."""
    return LOCAL_FILES | {
        "hive.metastore": "file",
        "hive.metastore.catalog.dir": f"local://{metastore}",
        "hive.security": "allow-all",
        "hive.recursive-directories": "true",
        "hive.dynamic-filtering.wait-timeout": "1m",
        "hive.timestamp-precision": "MICROSECONDS",
    }
