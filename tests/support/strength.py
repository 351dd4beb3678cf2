"""How much is tried: all by default, a part of the examples of random tests under ``--hypothesis-profile quick``.

``make check`` takes a part of the parameters of slow tests, too.
"""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

USUAL = 100
"""The default number of examples of Hypothesis."""
FEWEST = 3
_Parameter = type(pytest.param())


def examples(most: int) -> int:
    """The number of examples under the current profile: ``most``, or a part of it, but at least a few."""
    assert settings.default is not None
    return max(min(most, FEWEST), most * settings.default.max_examples // USUAL)


def one_in(step: int, values: Iterable[Any]) -> list[Any]:
    """The parameters of a test, of which ``make check`` takes one in ``step``; the others are ``long``.

    The values of several arguments are given by ``pytest.param``, as are those with an id.
    """
    given = [value if isinstance(value, _Parameter) else pytest.param(value) for value in values]
    return [
        one if number % step == 0 else pytest.param(*one.values, marks=[*one.marks, pytest.mark.long], id=one.id)
        for number, one in enumerate(given)
    ]
