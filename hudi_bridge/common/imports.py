"""Imports modules when they are first used, and says which extra to install for one that is missing.

Most commands, and many programs, need few modules. ``pyarrow.dataset`` imports pandas, where that is installed; the two
take as long as everything else together. Names of such modules in annotations are quoted.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["LaterModule", "acero", "ds", "orc"]


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


@contextmanager
def needing_extra(extra: str, *packages: str, by: str | None = None) -> Iterator[None]:
    """Guards imports of ``packages``, which ``extra`` installs; what needs them is ``by``, or the connector so named.

    Raises:
        ModuleNotFoundError: one of the packages is not installed; the message names the extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in packages:
            raise
        text = f"{by or f'hudi_bridge.connectors.{extra}'} needs {missing}: pip install 'hudi-bridge[{extra}]'"
        raise ModuleNotFoundError(text, name=error.name, path=error.path) from error


def lazy_names(module: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a module that offers names of other modules.

    ``homes`` has the module of each name. It is imported when the name is first used.
    """

    def get(name: str) -> Any:  # noqa: ANN401 - of any kind
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *homes})

    return get, names
