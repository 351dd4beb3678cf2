"""How much random tests try: all of it by default, a part of it under ``--hypothesis-profile quick``."""

from hypothesis import settings

USUAL = 100
"""What Hypothesis tries of a test that does not say otherwise."""
FEWEST = 3


def examples(most: int) -> int:
    """So many examples, or the part of them that the profile asks for, but a few."""
    assert settings.default is not None
    return max(min(most, FEWEST), most * settings.default.max_examples // USUAL)
