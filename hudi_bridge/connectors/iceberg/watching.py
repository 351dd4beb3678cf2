"""Views of all commits of all tables, made as they come, before a client asks."""

import logging
from threading import Event

from hudi_bridge.connectors.iceberg.catalog import Catalog

_LOG = logging.getLogger(__name__)


def watch(catalog: Catalog, seconds: float | None, ended: Event) -> None:
    """Look at all tables again and again; what cannot be listed or read keeps nobody else waiting."""
    troubles = _Troubles()
    while not ended.is_set():
        for namespace, name in catalog.roots.walk(troubles.note):
            if ended.is_set():
                return
            table = ".".join((*namespace, name))
            try:
                catalog.follow(namespace, name)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are followed
                troubles.note(table, error)
        troubles.end_look()
        ended.wait(seconds)


class _Troubles:
    """What could not be listed or read: said when it begins, when it changes, and when it is over."""

    def __init__(self) -> None:
        self._before: dict[str, str] = {}
        self._now: dict[str, str] = {}

    def note(self, name: str, error: Exception) -> None:
        """Take note of an error of a folder or table."""
        self._now[name] = f"{type(error).__name__}: {error}"
        if self._before.get(name) != self._now[name]:
            _LOG.warning("%s is not watched until it can be read again: %s", ascii(name), self._now[name])

    def end_look(self) -> None:
        """All tables have been looked at."""
        for name in self._before.keys() - self._now.keys():
            _LOG.warning("%s is watched again", ascii(name))
        self._before, self._now = self._now, {}
