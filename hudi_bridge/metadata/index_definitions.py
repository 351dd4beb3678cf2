"""What the indexes of a table are made of: the columns, and the function over them.

Source: ``HoodieIndexMetadata`` and ``HoodieIndexDefinition`` of Hudi.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hudi_bridge.config import HOODIE_FOLDER
from hudi_bridge.errors import CorruptTableError
from hudi_bridge.storage import Storage

INDEX_DEFINITIONS = f"{HOODIE_FOLDER}/.index_defs/index.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDefinition:
    """An index, ``name`` being its partition of the metadata table.

    ``kind`` is Hudi's type of the index, ``function`` that of an expression index, with its ``options``. ``version`` is
    None in releases before 1.1.
    """

    name: str
    kind: str
    function: str
    source_fields: tuple[str, ...]
    options: Mapping[str, str]
    version: str | None


def read_index_definitions(storage: Storage, path: str = INDEX_DEFINITIONS) -> Mapping[str, IndexDefinition]:
    """The indexes of a table, by name; none if the table has no file at the path, as before 1.0.

    Raises:
        CorruptTableError: the file is not that of Hudi.
        StorageError: it cannot be read.
    """
    if not storage.is_file(path):
        return {}
    try:
        entries = json.loads(storage.read_bytes(path))["indexDefinitions"].items()
        return {name: _definition(name, entry) for name, entry in entries}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        found = f"what cannot be understood: {error!r}"
        raise CorruptTableError(path, None, found, "index definitions") from error


def _definition(name: str, entry: Mapping[str, Any]) -> IndexDefinition:
    return IndexDefinition(
        name=name,
        kind=str(entry["indexType"]),
        function=str(entry.get("indexFunction") or ""),
        source_fields=tuple(map(str, entry["sourceFields"])),
        options={str(key): str(value) for key, value in (entry.get("indexOptions") or {}).items()},
        version=entry.get("version"),
    )
