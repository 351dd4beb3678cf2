"""The blocks of the pages that need other libraries, in an environment that has them; see tests/snippets.py."""

import os
import subprocess

import pytest

from tests.snippets import ROOT, blocks_of

PYTHON = ROOT / ".venv-libraries" / "bin" / "python"
PAGES = blocks_of("tests/integration/test_library_snippets.py")


@pytest.mark.engine("libraries")
@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_work_with_the_libraries(page: str) -> None:
    command = [str(PYTHON), "-m", "tests.integration.library_blocks", page]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    ran = done.stdout.split()
    assert {block.place for block in PAGES[page]} <= set(ran)
