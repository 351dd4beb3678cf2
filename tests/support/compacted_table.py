"""A table whose compactions remove the files before them."""

from pathlib import Path
from typing import Any

from hudi_bridge import HudiTable
from tests.support.table_writer import TableWriter, at
from tests.timeline.timeline_files import clean

NAMES = ("a", "b")


class Compacted:
    """A table of two file groups, of which each compaction removes the files before it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.writer = TableWriter(folder=folder, **options).create()
        self._files: list[Path] = []
        self.instants = 0
        self.compact()

    def compact(self) -> None:
        self.instants += 1
        instant, gone = at(3 * self.instants), self._files
        self._files = [
            self.writer.base_file(instant, [self._row(name)], file_id=f"{name}-0", row_group_size=1) for name in NAMES
        ]
        self.writer.commit(instant, action="commit", wrote=self._files)
        for file in gone:
            file.unlink()

    def _row(self, name: str) -> dict[str, Any]:
        return {"id": name, "ts": 1, "value": f"{self.instants}"} | dict.fromkeys(
            name for name, _ in self.writer.fields if name not in ("id", "ts", "value")
        )

    def note_clean(self) -> None:
        """What the cleaner leaves on the timeline, as of the newest commit."""
        name = f"{at(3 * self.instants + 1)}_{at(3 * self.instants + 2)}.clean"
        (self.writer.timeline_folder / name).write_bytes(clean(at(3 * self.instants)))

    def open(self) -> HudiTable:
        return self.writer.open()
