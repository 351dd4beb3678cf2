"""Imports modules when something of them is first used: most commands, and many programs, need few of them.

``pyarrow.dataset`` imports pandas, where that is installed; the two take as long as everything else together. Names of
such modules in annotations are quoted.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any


class LaterModule:
    """A module that is imported when the first of its names is asked for."""

    def __init__(self, name: str) -> None:
        """The module of that full name."""
        self._name = name

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as in modules
        return getattr(import_module(self._name), name)


if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from pyarrow import acero, orc
else:
    acero = LaterModule("pyarrow.acero")
    ds = LaterModule("pyarrow.dataset")
    orc = LaterModule("pyarrow.orc")

__all__ = ["LaterModule", "acero", "ds", "orc"]
