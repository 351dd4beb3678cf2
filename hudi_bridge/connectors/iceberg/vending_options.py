"""Options of a ``[[credentials]]`` table, and what a kind of credentials says of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hudi_bridge.connectors.iceberg.storage_credentials import CredentialsSource, Secret
from hudi_bridge.connectors.iceberg.stores import Store
from hudi_bridge.errors import QueryError

CREDENTIALS = "credentials"
_SHORTEST, _USUAL, _LONGEST = 900, 3600, 43_200


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of credentials: the stores that it is for, its options with their types, and how its source is made.

    ``shown`` has the options that clients get, by the properties that they know them by; ``needed`` those without which
    there is no source.
    """

    stores: tuple[Store, ...]
    options: Mapping[str, type]
    source: Callable[[Mapping[str, Any]], CredentialsSource | None]
    shown: Mapping[str, str] = field(default_factory=dict)
    needed: tuple[str, ...] = ()


def needed(table: Mapping[str, Any], name: str) -> str:
    """The text of an option.

    Raises:
        QueryError: it is not there.
    """
    if name not in table:
        raise QueryError(f"{CREDENTIALS}.{name}", "nothing", "a text")
    text: str = table[name]
    return text


def places_of_secrets(*parts: str) -> dict[str, type]:
    """The options that name the places of some secrets."""
    return {f"{part}-{place}": str for part in parts for place in ("file", "env")}


def secret(table: Mapping[str, Any], part: str) -> Secret | None:
    """The place of a secret; None if the options name none.

    Raises:
        QueryError: they name two.
    """
    file, variable = table.get(f"{part}-file"), table.get(f"{part}-env")
    if file is not None and variable is not None:
        raise QueryError(f"{CREDENTIALS}.{part}", "two places", f"{part}-file or {part}-env")
    if file is not None:
        return Secret(option=f"{CREDENTIALS}.{part}-file", file=Path(file))
    return None if variable is None else Secret(option=f"{CREDENTIALS}.{part}-env", variable=variable)


def session_seconds(table: Mapping[str, Any]) -> int:
    """How long credentials hold.

    Raises:
        QueryError: too short or too long.
    """
    seconds: int = table.get("session-seconds", _USUAL)
    if not _SHORTEST <= seconds <= _LONGEST:
        raise QueryError(f"{CREDENTIALS}.session-seconds", str(seconds), f"{_SHORTEST} to {_LONGEST}")
    return seconds
