"""Commands that are imported when they are called: the list of all of them needs no more than their names.

Typer has a group import all of its commands at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

SETTINGS = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPlace:
    """Where a command is: ``name`` in a module is its function, or a ``Typer`` with commands below it.

    ``help`` is the first paragraph of its help.
    """

    module: str
    name: str
    help: str

    def load(self, name: str) -> Any:  # noqa: ANN401 - of Typer, or of Click before
        """The command, imported."""
        found = getattr(import_module(self.module), self.name)
        if isinstance(found, typer.Typer):
            group = get_group(found)
            group.name = name
            return group
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        single.command(name, context_settings=SETTINGS)(found)
        return get_command(single)


def group_of(places: Mapping[str, CommandPlace]) -> type[TyperGroup]:
    """A class of groups with the commands at these places, in their order."""
    return type("CommandsLater", (_CommandsLater,), {"places": places})


class _CommandsLater(TyperGroup):
    places: Mapping[str, CommandPlace]

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - those of TyperGroup
        super().__init__(**attributes)
        for name, place in self.places.items():
            self.commands[name] = TyperCommand(name, help=place.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - of Typer, or of Click before
        """As in Typer; called for the command that is run or completed."""
        if args and args[0] in self.places:
            self.commands[args[0]] = self.places[args[0]].load(args[0])
        return super().resolve_command(ctx, args)
