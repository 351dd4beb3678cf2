"""Entries of tables in AWS Glue."""

from pathlib import Path
from typing import Any


def glue_entry(name: str, location: Path, said: str | None) -> dict[str, Any]:
    """A table as Hudi's sync registers it, or a plain one."""
    of_hudi = said is not None
    return {
        "Name": name,
        "Parameters": {"spark.sql.sources.provider": "hudi"} if of_hudi else {},
        "StorageDescriptor": {
            "Location": f"file:{location}",
            "SerdeInfo": {"Parameters": {"hoodie.query.as.ro.table": said} if of_hudi else {}},
        },
    }
