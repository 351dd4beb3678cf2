"""Numbers that users set in environment variables."""

import math
import os
from typing import TypeVar

Number = TypeVar("Number", int, float)


def number_in(variable: str, default: Number, *, least: Number) -> Number:
    """The number in a variable, but at least ``least``; the default if it holds no number of that kind."""
    kind = type(default)
    try:
        number = kind(os.environ[variable])
    except (KeyError, ValueError):
        return default
    return default if math.isnan(number) else max(least, number)
