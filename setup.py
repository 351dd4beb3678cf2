"""The long description: README.md without links into the repository. Everything else is in pyproject.toml."""

import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
_RELATIVE_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+://)[^)\s]+\)")


def description() -> str:
    """README.md with the texts of relative links in place of these: the repository has no address yet."""
    return _RELATIVE_LINK.sub(r"\1", (ROOT / "README.md").read_text(encoding="utf-8"))


setup(long_description=description(), long_description_content_type="text/markdown")
