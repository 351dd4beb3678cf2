"""The settings of Trino's catalogs, as the guide has them, for files anywhere on this machine."""

from pathlib import Path

LOCAL_FILES = {"fs.native-local.enabled": "true", "local.location": "/"}


def iceberg_properties(url: str, **properties: str) -> dict[str, str]:
    """Of the Iceberg connector, for the catalog service at ``url``."""
    return LOCAL_FILES | {"iceberg.catalog.type": "rest", "iceberg.rest-catalog.uri": url} | properties


def hive_properties(metastore: Path) -> dict[str, str]:
    """Of the Hive connector, with its metastore in a folder: for base files, and for the views of ``trino sql``."""
    return LOCAL_FILES | {
        "hive.metastore": "file",
        "hive.metastore.catalog.dir": f"local://{metastore}",
        "hive.security": "allow-all",
        "hive.recursive-directories": "true",
        "hive.dynamic-filtering.wait-timeout": "1m",
        "hive.timestamp-precision": "MICROSECONDS",
    }
