"""Prints constraints that hold each dependency at the lowest version that pyproject.toml promises.

All else stays at the versions of constraints.txt, but for what releases of that age do not run with.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
OF_THEIR_AGE = {
    "click": "8.2.0",  # Typer 0.16 imports names that Click has deprecated since
}
NOT_TRIED = {"pyspark"}
"""Tried by `make spark`, in an environment of its own."""


def floors() -> dict[str, str]:
    """The lowest version of each dependency, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    found = {}
    for requirement in wanted:
        bounds = re.fullmatch(r"([A-Za-z0-9_-]+)>=([0-9.]+)(,<[0-9.]+)?", requirement)
        if not bounds:
            raise SystemExit(f"no lowest version in {requirement}")
        found[bounds[1]] = bounds[2]
    return {name: version for name, version in found.items() if name not in NOT_TRIED}


def main() -> None:
    """Print one line for each package."""
    held = floors() | OF_THEIR_AGE
    for name, version in sorted(held.items()):
        print(f"{name}=={version}")
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.partition("==")[0] not in held:
            print(line)


if __name__ == "__main__":
    main()
