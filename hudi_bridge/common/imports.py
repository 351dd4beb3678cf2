"""Imports modules when they are first used, and says which extra to install for one that is missing.

Most commands, and many programs, need few modules. ``pyarrow.dataset`` imports pandas, where that is installed; the two
take as long as everything else together. Names of such modules in annotations are quoted.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
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
        text = f"{by or f'hudi_bridge.connectors.{extra}'} needs {missing}: {how_to_install(extra)}"
        raise ModuleNotFoundError(text, name=error.name, path=error.path) from error


def how_to_install(extra: str) -> str:
    """What to do for an extra: a command line that takes it from where this package came from, if that is known."""
    # Only messages need these.
    import json  # noqa: PLC0415
    from importlib.metadata import distributions  # noqa: PLC0415
    from shlex import quote  # noqa: PLC0415

    origins = [distribution.read_text("direct_url.json") for distribution in distributions(name="hudi-bridge")]
    requirement = _requirement(json.loads(next(filter(None, origins), "{}")), extra) if origins else None
    if requirement is None:
        return f"install hudi-bridge with its extra {extra}"
    is_editable, source = requirement
    return f"pip install {'-e ' if is_editable else ''}{quote(source)}"


def _requirement(origin: Mapping[str, Any], extra: str) -> tuple[bool, str] | None:
    """Whether to install as editable, and what, by ``direct_url.json`` (PEP 610), which packages of an index lack.

    None if the folder or file that was installed is gone.
    """
    from pathlib import Path  # noqa: PLC0415
    from urllib.parse import urlsplit  # noqa: PLC0415
    from urllib.request import url2pathname  # noqa: PLC0415

    named = f"hudi-bridge[{extra}]"
    if "url" not in origin:
        return False, named
    url = urlsplit(origin["url"])
    # Installers leave passwords out, as they should.
    address = url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()
    if vcs := origin.get("vcs_info"):
        return False, f"{named} @ {vcs['vcs']}+{address}@{vcs['commit_id']}"
    if url.scheme != "file":
        return False, f"{named} @ {address}"
    path = url2pathname(url.path)
    return (origin.get("dir_info", {}).get("editable", False), f"{path}[{extra}]") if Path(path).exists() else None


def choose_allocator() -> None:
    """Sets what Arrow reads when it is loaded: its own allocator takes up to three times the memory of glibc's.

    That is left to the user who has set the variable. Once Arrow is loaded, its choice has been made.
    """
    # In other C libraries, threads wait for one another.
    with suppress(AttributeError, ValueError, OSError):
        if "pyarrow" not in sys.modules and (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"):
            os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


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
