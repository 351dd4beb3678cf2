"""What an engine that is not installed is answered with: the extra that brings it."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needing_extra(extra: str, *packages: str) -> Iterator[None]:
    """Imports of some packages, all of which an extra of ours installs; the extra is named as the connector is.

    Raises:
        ModuleNotFoundError: one of them is not installed; the text says which extra to install.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in packages:
            raise
        text = f"hudi_bridge.connectors.{extra} needs {missing}: pip install 'hudi-bridge[{extra}]'"
        raise ModuleNotFoundError(text, name=error.name, path=error.path) from error
