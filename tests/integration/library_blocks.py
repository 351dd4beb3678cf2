"""Runs the blocks of a page that need other libraries, after those that do not: ``library_blocks.py PAGE``.

Runs in the environment that ``make libraries`` sets up.
"""

import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from tests.support.snippets import Session, blocks


def main() -> None:
    page = sys.argv[1]
    chosen = [block for block in blocks(page) if block.language == "python" and block.engine in {None, "libraries"}]
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        session = Session.of(Path(folder))
        for block in chosen:
            session.run(block)
            print(block.place)  # noqa: T201 - what the test counts


if __name__ == "__main__":
    main()
