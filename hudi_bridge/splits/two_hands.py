"""Tables of which the properties tell one release of Hudi, and the newest commit another.

The rules by which a table is read follow from its properties. Hudi 1.x that takes over a table of version 6, and keeps
the version, leaves them as they are; and after a downgrade, 0.x writes to a table whose properties are those of 1.x.
"""

import logging

from hudi_bridge.config import FIRST_VERSION_OF_1X, TableConfig
from hudi_bridge.options import READ_AS_RELEASE_KEY
from hudi_bridge.splits.warn_once import warn_once

_LOG = logging.getLogger(__name__)
_RELEASES = {False: "0.x", True: "1.x"}


def warn_of_two_hands(config: TableConfig, *, newest_by_1x: bool | None) -> None:
    """Say once for each table that another release has written to it; None is a commit that does not tell."""
    if config.table_version >= FIRST_VERSION_OF_1X or newest_by_1x in (None, config.written_by_1x):
        return
    warn_once(
        _LOG,
        "%s: its properties are those of Hudi %s, whose rules hold, but Hudi %s wrote the newest commit; the option %s "
        "says whose rules are to hold",
        config.table_path,
        _RELEASES[config.written_by_1x],
        _RELEASES[newest_by_1x],
        READ_AS_RELEASE_KEY,
    )
