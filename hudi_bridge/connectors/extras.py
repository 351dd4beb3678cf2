"""Import errors that name the extra to install."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needing_extra(extra: str, *packages: str) -> Iterator[None]:
    """Guards imports of ``packages``, which ``extra`` installs; the connector has the same name as the extra.

    Raises:
        ModuleNotFoundError: one of the packages is not installed; the message names the extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in packages:
            raise
        text = f"hudi_bridge.connectors.{extra} needs {missing}: pip install 'hudi-bridge[{extra}]'"
        raise ModuleNotFoundError(text, name=error.name, path=error.path) from error
