"""The number of examples of random tests: all by default, a part of them under ``--hypothesis-profile quick``."""

from hypothesis import settings

USUAL = 100
"""The default number of examples of Hypothesis."""
FEWEST = 3


def examples(most: int) -> int:
    """The number of examples under the current profile: ``most``, or a part of it, but at least a few."""
    assert settings.default is not None
    return max(min(most, FEWEST), most * settings.default.max_examples // USUAL)
