"""The long description: README.md with absolute links. Everything else is in pyproject.toml."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]


def description() -> str:
    """README.md with relative links replaced by links to the repository."""
    return re.sub(
        r"\]\((?![a-z]+://)([^)\s]+)\)",
        lambda link: f"]({REPOSITORY}/blob/main/{link[1]})",
        (ROOT / "README.md").read_text(encoding="utf-8"),
    )


setup(long_description=description(), long_description_content_type="text/markdown")
