"""A file of TOML with the options of a command, by their long names; the command line comes before it."""

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import typer

from hudi_bridge.errors import QueryError


def read_config(path: Path | None) -> Mapping[str, Any]:
    """The content of a file; nothing without a file.

    Raises:
        QueryError: the file cannot be read, or is not TOML.
    """
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise QueryError("--config", f"{path}: {error}", "a file of TOML") from error


def use_config(context: typer.Context, path: Path | None, sections: Collection[str]) -> None:
    """Make the options of a file the defaults of the command; tables of the names ``sections`` are not options.

    Raises:
        QueryError: the file cannot be read, or has an option that the command does not.
    """
    known = {name.replace("_", "-"): parameter for name, parameter in _parameters(context).items()}
    defaults: dict[str, Any] = {}
    for name, value in read_config(path).items():
        if name in sections:
            continue
        parameter = known.get(name)
        if parameter is None:
            raise QueryError("--config", f"{path} with {name!r}", f"one of {', '.join(sorted((*known, *sections)))}")
        is_list = parameter.multiple if parameter.param_type_name == "option" else parameter.nargs < 0
        if isinstance(value, dict) or isinstance(value, list) != is_list:
            expected = "a list" if is_list else "one value"
            raise QueryError("--config", f"{path} with {name} = {value!r}", expected)
        defaults[parameter.name] = value
    context.default_map = {**(context.default_map or {}), **defaults}


def _parameters(context: typer.Context) -> dict[str, Any]:
    """The parameters of the command by their name in the command line, but for ``--config`` and ``--help``."""
    found: dict[str, Any] = {}
    for parameter in context.command.params:
        if parameter.is_eager or parameter.name is None:
            continue
        option = next((one for one in parameter.opts if one.startswith("--")), parameter.name)
        found[option.removeprefix("--")] = parameter
    return found
