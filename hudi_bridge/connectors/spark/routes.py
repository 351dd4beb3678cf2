"""Which file slices of a DataFrame Spark reads itself, and why it does not read the others."""

from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from hudi_bridge.errors import QueryError


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRoutes:
    """How the file slices of a DataFrame are read.

    ``native`` is the number of those whose base file Spark reads itself, or that have none. All rows of the others pass
    through this package's reader: ``others`` has their number by reason.
    """

    native: int
    others: Mapping[str, int]


_ROUTES: "WeakKeyDictionary[DataFrame, SliceRoutes]" = WeakKeyDictionary()


def note_routes(frame: DataFrame, routes: SliceRoutes) -> DataFrame:
    """The DataFrame, of which ``slice_routes`` knows from now on."""
    _ROUTES[frame] = routes
    return frame


def slice_routes(frame: DataFrame) -> SliceRoutes:
    """How the file slices of a DataFrame that ``read`` has returned are read.

    Raises:
        QueryError: ``read`` has not returned this DataFrame, or it is not a snapshot.
    """
    try:
        return _ROUTES[frame]
    except KeyError:
        raise QueryError("frame", "another DataFrame", "what read() has returned for a snapshot") from None
