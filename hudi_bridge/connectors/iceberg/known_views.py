"""The views of a table that are on disk, which of them are listed, and which nobody needs any more."""

import time
from collections.abc import Sequence

from hudi_bridge.connectors.iceberg.name_mapping import Ids
from hudi_bridge.connectors.iceberg.view import VIEWS, View, view_from_json, view_to_json
from hudi_bridge.connectors.scratch import Scratch


class KnownViews:
    """The records of views in a folder; those that another process has written are found by ``refresh``."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._views: dict[str, View] = {}
        self._used: dict[str, float] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read the records that are not known yet."""
        names = self._scratch.names(VIEWS)
        known = {view.record_name: view for view in self._views.values()}
        for name in names:
            text = None if name in known else self._scratch.read(f"{VIEWS}/{name}")
            view = None if text is None else _view(text)
            if view is not None:
                self._views[view.instant] = view

    def get(self, instant: str) -> View | None:
        """The view of an instant, None if there is none."""
        return self._views.get(instant)

    def ids(self) -> Ids:
        """The ids that views have given to columns."""
        ids: dict[str, int] = {}
        for view in self.all():
            ids |= view.columns.ids
        return ids

    def all(self) -> Sequence[View]:
        """All views, by their instants."""
        return [self._views[instant] for instant in sorted(self._views)]

    def up_to(self, instant: str, most: int) -> Sequence[View]:
        """The views to list with that of an instant, which is the last."""
        return [view for view in self.all() if view.instant <= instant][-most:]

    def publish(self, view: View) -> None:
        """Make a view visible, all files of which are complete."""
        self._scratch.write(f"{VIEWS}/{view.record_name}", view_to_json(view))
        self._views[view.instant] = view

    def use(self, views: Sequence[View]) -> None:
        """Take note that clients have been told of some views."""
        self._used |= dict.fromkeys((view.instant for view in views), time.time())

    def drop(self, keep: int, keep_seconds: float) -> None:
        """Remove the records of all views but the newest ones, and those that clients have been told of of late."""
        used_since = time.time() - keep_seconds
        for view in self.all()[:-keep]:
            if self._used.get(view.instant, 0) <= used_since:
                self.remove([view])

    def remove(self, views: Sequence[View]) -> None:
        """Remove the records of some views."""
        for view in views:
            self._scratch.remove(f"{VIEWS}/{view.record_name}")
            del self._views[view.instant]


def _view(text: bytes) -> View | None:
    """The view of a record; None for one that is damaged, which is made again."""
    try:
        return view_from_json(text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
