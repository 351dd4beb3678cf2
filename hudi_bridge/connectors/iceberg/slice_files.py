"""The files that an Iceberg client reads for one file slice, and their JSON form for the cache.

They are valid while the files of the slice are the same and the same log blocks count.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from hudi_bridge.connectors.iceberg.data_files import DataFile
from hudi_bridge.connectors.iceberg.deletion_vectors import VectorPlace

_FORMAT = 5

Misread: TypeAlias = Mapping[str, str]
"""The clients that misread a base file, with the reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceFiles:
    """The files of one slice.

    ``name`` is unique. ``own_files`` are the names of the files that were written to the scratch folder; the others are
    the table's. ``counted`` tells for the instant of each log block whether the block counted. ``stored_paths`` are the
    dotted paths of the base file's columns, if clients read that file; ``misread`` names those that misread it.
    ``base_copy`` is the name of the slice whose data file clients read in place of the base file, because of its lists
    or maps: the slice without the logs.
    """

    name: str
    data: tuple[DataFile, ...]
    deletes: tuple[DataFile, ...]
    own_files: tuple[str, ...]
    counted: Mapping[str, bool]
    stored_paths: tuple[str, ...]
    misread: Misread
    base_copy: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the cache entries whose files these are."""
        return (self.name,) if self.base_copy in (None, self.name) else (self.name, self.base_copy)

    def holds(self, counts: Callable[[str], bool]) -> bool:
        """Whether the same log blocks still count."""
        return all(counts(instant) == counted for instant, counted in self.counted.items())


def slice_to_json(files: SliceFiles) -> bytes:
    """The JSON text that ``slice_from_json`` reads."""
    document = {
        "format": _FORMAT,
        "name": files.name,
        "data": [_file_to_json(one) for one in files.data],
        "deletes": [_file_to_json(one) for one in files.deletes],
        "own_files": files.own_files,
        "counted": dict(files.counted),
        "stored_paths": files.stored_paths,
        "misread": dict(files.misread),
        "base_copy": files.base_copy,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def slice_from_json(text: bytes) -> SliceFiles | None:
    """The files that ``slice_to_json`` wrote; None for another format version."""
    document = json.loads(text)
    if document.get("format") != _FORMAT:
        return None
    return SliceFiles(
        name=document["name"],
        data=tuple(map(_file_from_json, document["data"])),
        deletes=tuple(map(_file_from_json, document["deletes"])),
        own_files=tuple(document["own_files"]),
        counted=document["counted"],
        stored_paths=tuple(document["stored_paths"]),
        misread=document["misread"],
        base_copy=document["base_copy"],
    )


def _file_to_json(file: DataFile) -> dict[str, Any]:
    vector = file.vector
    return {
        "location": file.location,
        "rows": file.rows,
        "size_bytes": file.size_bytes,
        "partition": file.partition,
        "value_counts": dict(file.value_counts),
        "null_counts": dict(file.null_counts),
        "lower_bounds": {id_: b64encode(bound).decode() for id_, bound in file.lower_bounds.items()},
        "upper_bounds": {id_: b64encode(bound).decode() for id_, bound in file.upper_bounds.items()},
        "split_offsets": file.split_offsets,
        "written_at": file.written_at,
        "vector": None if vector is None else {"of": vector.of, "offset": vector.offset, "size": vector.size},
        "column_sizes": dict(file.column_sizes),
        "nan_counts": dict(file.nan_counts),
    }


def _file_from_json(document: dict[str, Any]) -> DataFile:
    vector = document.get("vector")
    return DataFile(
        location=document["location"],
        rows=document["rows"],
        size_bytes=document["size_bytes"],
        partition=None if document["partition"] is None else tuple(document["partition"]),
        value_counts=_by_id(document["value_counts"]),
        null_counts=_by_id(document["null_counts"]),
        lower_bounds={id_: b64decode(bound) for id_, bound in _by_id(document["lower_bounds"]).items()},
        upper_bounds={id_: b64decode(bound) for id_, bound in _by_id(document["upper_bounds"]).items()},
        split_offsets=tuple(document["split_offsets"]),
        written_at=document["written_at"],
        vector=None if vector is None else VectorPlace(**vector),
        column_sizes=_by_id(document["column_sizes"]),
        nan_counts=_by_id(document["nan_counts"]),
    )


def _by_id(document: Mapping[str, Any]) -> dict[int, Any]:
    return {int(id_): value for id_, value in document.items()}
