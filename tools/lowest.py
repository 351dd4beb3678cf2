"""Prints constraints that pin each dependency to the lowest version that pyproject.toml allows.

Other packages stay at the versions of constraints.txt, except those that such old releases do not work with.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
OLD_COMPANIONS = {
    "click": "8.2.0",  # Typer 0.16 imports names that later releases of Click deprecate
}
EXCLUDED = {"pyspark"}
"""Tested by `make spark`, in a separate environment."""


def floors() -> dict[str, str]:
    """The lowest allowed version of each dependency, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    found = {}
    for requirement in wanted:
        bounds = re.fullmatch(r"([A-Za-z0-9_-]+)>=([0-9.]+)(,<[0-9.]+)?", requirement)
        if not bounds:
            raise SystemExit(f"no lowest version in {requirement}")
        found[bounds[1]] = bounds[2]
    return {name: version for name, version in found.items() if name not in EXCLUDED}


def main() -> None:
    """Prints one constraint for each package."""
    pinned = floors() | OLD_COMPANIONS
    for name, version in sorted(pinned.items()):
        print(f"{name}=={version}")
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.partition("==")[0] not in pinned:
            print(line)


if __name__ == "__main__":
    main()
