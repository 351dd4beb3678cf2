"""Which files of a table's views are there: scratch folders are wiped, or lose files, while a service knows of them."""

from dataclasses import dataclass
from typing import Self

from hudi_bridge.connectors.iceberg.manifests import METADATA
from hudi_bridge.connectors.iceberg.slice_builder import DATA
from hudi_bridge.connectors.iceberg.view import View
from hudi_bridge.connectors.scratch import Scratch

TABLES = "tables"


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentFiles:
    """The names of the files of each folder; a listing each tells them, however many there are."""

    data: frozenset[str]
    metadata: frozenset[str]
    tables: frozenset[str]

    @classmethod
    def of(cls, scratch: Scratch) -> Self:
        """Those in a folder."""
        data, metadata, tables = (frozenset(scratch.names(folder)) for folder in (DATA, METADATA, TABLES))
        return cls(data=data, metadata=metadata, tables=tables)

    def has_all_of(self, view: View) -> bool:
        """Whether clients find all files of a view."""
        return self.data.issuperset(view.own_files) and self.metadata.issuperset((view.manifest_list, *view.manifests))
