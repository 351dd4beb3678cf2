"""Import errors that name the extra to install."""

from collections.abc import Iterator
from contextlib import contextmanager


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
