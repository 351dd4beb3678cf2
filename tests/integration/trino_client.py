"""``trino`` as the pages call it, for their blocks: runs ``--execute`` or the statements of standard input.

    python -m tests.integration.trino_client [--execute STATEMENT]

``TRINO_PORT`` says where the server is.
"""

import argparse
import os
import sys

from tests.integration.trino_server import Trino


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--execute")
    text = parser.parse_args().execute or sys.stdin.read()
    trino = Trino(int(os.environ["TRINO_PORT"]))
    # Functions hold semicolons; statements end with one at the end of a line, followed by an empty line.
    for statement in filter(None, (item.strip().removesuffix(";") for item in text.split(";\n\n"))):
        for row in trino.query(statement):
            print(*row, sep=",")  # noqa: T201 - what it is for


if __name__ == "__main__":
    main()
