"""The registry of cases: the modules of ``cases`` register functions that write tables. Needs no Spark."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

Write = TypeVar("Write", bound=Callable[..., None])

TOGETHER = "jklmnopqr"
"""The letters of the cases in ``k.tar.xz``. Each other letter has an archive of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One table: the release of Hudi that writes it, what it covers, and the function that writes it.

    ``begins_as`` names another case, usually of an older release, whose table this one continues. A case that only
    serves as such a beginning is not golden: it has no queries and is in no archive.
    """

    name: str
    release: str
    covers: str
    write: Callable[..., None]
    parameters: Mapping[str, Any]
    begins_as: str | None = None
    is_golden: bool = True

    @property
    def group(self) -> str:
        """The letter of the archive that holds the case."""
        letter = self.name[0]
        return "k" if letter in TOGETHER else letter


CASES: dict[str, Case] = {}
"""Every case by its name; ``tests.golden.generate.cases`` fills it."""


def case(
    name: str, release: str, covers: str, *, begins_as: str | None = None, is_golden: bool = True, **parameters: Any
) -> Callable[[Write], Write]:
    """Registers a function as the writer of a table; use it several times for other releases or parameters."""

    def register(write: Write) -> Write:
        assert name not in CASES, f"two cases named {name}"
        CASES[name] = Case(
            name=name,
            release=release,
            covers=covers,
            write=write,
            parameters=parameters,
            begins_as=begins_as,
            is_golden=is_golden,
        )
        return write

    return register
