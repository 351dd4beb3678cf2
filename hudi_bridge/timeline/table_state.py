"""The state of a table at one moment, from which every read is planned.

Source: ``HoodieTableMetaClient`` with an active timeline and an instant to read.
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
    """A table's storage, properties and timeline, with the options and the instant of a read.

    ``instant`` defaults to the newest commit, and to a time before every instant if the table has no commit;
    ``is_time_travel`` is whether the query names it.
    """

    storage: Storage
    config: TableConfig
    timeline: Timeline
    options: ReadOptions = field(default_factory=ReadOptions)
    instant: str = ""
    is_time_travel: bool = False

    def __post_init__(self) -> None:
        if not self.instant:
            latest = self.timeline.latest_commit()
            object.__setattr__(self, "instant", latest.requested_time if latest else _BEFORE_ALL_INSTANTS)

    @classmethod
    def load(cls, storage: Storage, config: TableConfig, options: ReadOptions | None = None) -> Self:
        """The current state of a table; lists one folder.

        Raises:
            StorageError: the folder of the timeline cannot be listed.
        """
        return cls(
            storage=storage, config=config, timeline=load_timeline(storage, config), options=options or ReadOptions()
        )

    def as_of(self, instant: str) -> Self:
        """The same table, read as of an instant that the query names."""
        return replace(self, instant=instant, is_time_travel=True)

    @property
    def timeline_start(self) -> str:
        """The start of the active timeline; instants before it are archived and completed."""
        return self.timeline.start or _BEFORE_ALL_INSTANTS
