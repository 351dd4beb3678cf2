"""A table as it stood at one moment, as a value: what every plan of a read starts from.

Source: ``Snapshot`` of delta-kernel and of Iceberg for the idea; in Hudi it is ``HoodieTableMetaClient`` with an
active timeline and an instant to read.
"""

from dataclasses import dataclass, field, replace
from typing import Self

from hudi_bridge.config import TableConfig
from hudi_bridge.options import ReadOptions
from hudi_bridge.storage import Storage
from hudi_bridge.timeline.timeline import Timeline, load_timeline

_BEFORE_ALL_INSTANTS = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """Where a table lies, what it says of itself, its timeline, and how and as of which instant it is read.

    ``instant`` is the newest commit unless another is chosen, and lies before all others in a table without a commit.
    Pickling takes the timeline along, and nothing that was read since.
    """

    storage: Storage
    config: TableConfig
    timeline: Timeline
    options: ReadOptions = field(default_factory=ReadOptions)
    instant: str = ""

    def __post_init__(self) -> None:
        if not self.instant:
            latest = self.timeline.latest_commit()
            object.__setattr__(self, "instant", latest.requested_time if latest else _BEFORE_ALL_INSTANTS)

    @classmethod
    def load(cls, storage: Storage, config: TableConfig, options: ReadOptions | None = None) -> Self:
        """The table as of now; one folder is listed.

        Raises:
            StorageError: the folder of the timeline cannot be listed.
        """
        return cls(
            storage=storage, config=config, timeline=load_timeline(storage, config), options=options or ReadOptions()
        )

    def as_of(self, instant: str) -> Self:
        """The same table, read as of another instant."""
        return replace(self, instant=instant)

    @property
    def timeline_start(self) -> str:
        """The begin of the active timeline: what lies before it is archived, and completed."""
        return self.timeline.start or _BEFORE_ALL_INSTANTS
