"""The pages that need other libraries, in an environment that has them; see tests/support/snippets.py."""

import os
import subprocess

import pytest

from tests.support.snippets import ROOT, blocks_of

PYTHON = ROOT / ".venv-libraries" / "bin" / "python"
PAGES = blocks_of("tests/integration/test_library_snippets.py")
TIMEOUT_SECONDS = 300
RAY = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
"""Ray writes no token into the home of whoever tests, and tells nobody of the test."""


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program with the libraries."""
    done = subprocess.run(
        [str(PYTHON), "-m", f"tests.integration.{module}", *arguments],
        cwd=ROOT,
        env=os.environ | RAY | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.engine("libraries")
@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_work_with_the_libraries(page: str) -> None:
    ran = run("library_blocks", page).stdout.split()
    assert {block.place for block in PAGES[page]} <= set(ran)
