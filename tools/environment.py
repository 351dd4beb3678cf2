"""Makes an environment of the Makefile: ``python -m tools.environment FOLDER``.

Runs with nothing but Python 3.11 or newer, whose interpreter the environments get. uv makes and fills them, many times
faster than venv and pip would; pip fetches it once, into ``.venv-uv``. Versions are those of constraints.txt.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
BOOTSTRAP = ROOT / ".venv-uv"
UV = BOOTSTRAP / "bin" / "uv"
OLDEST = ("python3.11", "python3.12")
"""Interpreters to look for, before the one that runs this, where the oldest one counts."""
EXTRAS = "azure,cli,duckdb,gcs,glue,hdfs,hive,iceberg,polars,serve"

NEVER_LOWEST = {"pyspark"}
"""Tested by ``make spark``, in a separate environment."""

NEEDED_OLDER: Mapping[str, frozenset[str]] = {
    "daft": frozenset({"pyarrow"}),
    "dbt": frozenset({"importlib_metadata", "pathspec", "protobuf"}),
}
"""Packages of which an extra needs an older version than constraints.txt pins."""

SETTINGS_OF_PIP = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}
"""Settings of pip that lead to a mirror of the package index, and the variables in which uv takes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What an environment holds.

    ``requirements`` are arguments of ``uv pip install``. ``unpinned`` are packages whose versions are not those of
    constraints.txt. ``is_lowest`` pins each dependency to the lowest version that pyproject.toml allows, ``is_oldest``
    takes the oldest Python at hand. ``afterwards`` are modules of this checkout that fetch what no package holds; they
    run in ``.venv``.
    """

    requirements: tuple[str, ...]
    unpinned: frozenset[str] = frozenset()
    is_lowest: bool = False
    is_oldest: bool = False
    afterwards: tuple[str, ...] = ()

    @property
    def extras(self) -> tuple[str, ...]:
        """The extras of this package."""
        named = (re.fullmatch(r"\.\[([a-z0-9,-]+)\]", requirement) for requirement in self.requirements)
        return tuple(extra for match in named if match for extra in match[1].split(","))


ENVIRONMENTS: Mapping[str, Environment] = {
    ".venv": Environment(requirements=("-e", f".[{EXTRAS},spark,spark-connect]", "--group", "dev")),
    ".venv-core": Environment(requirements=("-e", ".", "--group", "core"), is_oldest=True),
    ".venv-dbt": Environment(
        requirements=("-e", ".[dbt]", "--group", "dbt"),
        unpinned=NEEDED_OLDER["dbt"] | {"watchdog"},
        is_oldest=True,
    ),
    ".venv-demo": Environment(requirements=("-e", ".[cli]")),
    ".venv-docs": Environment(requirements=("--group", "docs")),
    ".venv-duckdb14": Environment(
        requirements=("-e", ".[cli]", "--group", "duckdb14"), unpinned=frozenset({"duckdb"}), is_oldest=True
    ),
    ".venv-duckdb15": Environment(
        requirements=("-e", ".[cli,iceberg]", "--group", "duckdb15"), unpinned=frozenset({"duckdb"}), is_oldest=True
    ),
    ".venv-libraries": Environment(
        requirements=("-e", ".[cli,daft,dask,ray]", "--group", "libraries"),
        unpinned=NEEDED_OLDER["daft"],
    ),
    ".venv-lowest": Environment(
        requirements=("-e", f".[{EXTRAS},daft,dask,lance,ray]", "--group", "lowest"),
        unpinned=frozenset({"botocore", "polars-runtime-32", "s3transfer"}),  # they go with boto3 and Polars
        is_lowest=True,
        is_oldest=True,
    ),
    ".venv-lowest-core": Environment(
        requirements=("-e", ".", "--group", "lowest-core"),
        unpinned=frozenset({"pandas"}),
        is_lowest=True,
        is_oldest=True,
    ),
    ".venv-spark35": Environment(
        requirements=("--group", "spark35"),
        unpinned=frozenset({"py4j", "pyspark"}),
        is_oldest=True,
        afterwards=("benchmarks.hudi_bundle", "tests.connectors.spark.iceberg_runtime"),
    ),
}


def main() -> None:
    """Makes the environment that the command line names, or brings it up to date."""
    if sys.argv[1:] == [] or sys.argv[1] not in ENVIRONMENTS:
        raise SystemExit(f"usage: python -m tools.environment {{{','.join(ENVIRONMENTS)}}}")
    folder, environment = ROOT / sys.argv[1], ENVIRONMENTS[sys.argv[1]]
    if folder.name == ".venv":
        print(f"Installing Hudi Bridge, its engines and the tools into {folder.name}, once: about 1.5 GB, some minutes")
    fetch_uv()
    if not (folder / "bin" / "python").exists():
        create(folder, oldest_python() if environment.is_oldest else sys.executable)
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{line}\n" for line in pins(environment)), encoding="utf-8")
    install(folder, "pip", *environment.requirements, constraints=constraints)
    for module in environment.afterwards:
        run(ROOT / ".venv" / "bin" / "python", "-m", module)


def fetch_uv() -> None:
    """Makes the environment of uv, by what every Python has."""
    python = BOOTSTRAP / "bin" / "python"
    (requirement,) = (line for line in pinned_lines() if line.startswith("uv=="))
    if not python.exists():
        run(sys.executable, "-m", "venv", BOOTSTRAP)
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement)


def create(folder: Path, python: Path | str) -> None:
    """Makes an empty environment."""
    run(UV, "venv", "--quiet", "--python", python, folder)


def install(folder: Path, *requirements: str, constraints: Path = CONSTRAINTS) -> None:
    """Installs into an environment, in versions of these constraints; builds with those of constraints.txt."""
    command = (UV, "pip", "install", "--quiet", "--python", folder / "bin" / "python")
    run(*command, "--constraints", constraints, "--build-constraints", CONSTRAINTS, *requirements)


def oldest_python() -> str:
    """The oldest interpreter at hand that is supported."""
    return next((name for name in OLDEST if is_at_hand(name)), sys.executable)


def is_at_hand(name: str) -> bool:
    """Whether an interpreter runs, which a shim of pyenv may not."""
    try:
        return subprocess.run((name, "-c", ""), stderr=subprocess.DEVNULL, check=False).returncode == 0
    except FileNotFoundError:
        return False


def pins(environment: Environment) -> Iterator[str]:
    """The lines of the constraints of an environment."""
    lowest = lowest_versions(environment.extras) if environment.is_lowest else {}
    yield from (f"{name}=={version}" for name, version in sorted(lowest.items()))
    yield from (line for line in pinned_lines() if line.partition("==")[0] not in {*environment.unpinned, *lowest})


def pinned_lines() -> list[str]:
    """The lines of constraints.txt."""
    return CONSTRAINTS.read_text(encoding="utf-8").splitlines()


def lowest_versions(extras: Iterable[str]) -> dict[str, str]:
    """The lowest version of each dependency that the package and these extras allow.

    An extra may need a higher one than the package alone.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [*project["dependencies"]]
    requirements += [requirement for extra in extras for requirement in project["optional-dependencies"][extra]]
    versions: dict[str, str] = {}
    for name, version in map(lower_bound, requirements):
        if name not in NEVER_LOWEST:
            versions[name] = max(versions.get(name, "0"), version, key=release)
    return versions


def release(version: str) -> tuple[int, ...]:
    """A version as numbers, which compare as releases do."""
    return tuple(map(int, version.split(".")))


def lower_bound(requirement: str) -> tuple[str, str]:
    """The name and the lowest version of a requirement."""
    bounds = re.fullmatch(r"([A-Za-z0-9_-]+)(?:\[[a-z,-]+\])?>=([0-9.]+)(?:,<[0-9.]+)?", requirement)
    if not bounds:
        raise SystemExit(f"no lowest version in {requirement}")
    return bounds[1], bounds[2]


def run(*command: Path | str, cwd: Path = ROOT, variables: Mapping[str, str] | None = None) -> None:
    """Runs a command, uv with the package index of pip; exits if it fails."""
    environment = {**os.environ, **(index_of_pip() if command[0] == UV else {}), **(variables or {})}
    done = subprocess.run(tuple(map(str, command)), cwd=cwd, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"failed with {done.returncode}: {' '.join(map(str, command))}")


def index_of_pip() -> dict[str, str]:
    """What pip is told of the package index, by files and variables, as variables of uv."""
    command = (BOOTSTRAP / "bin" / "python", "-m", "pip", "config", "list")
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    settings = re.findall(r"^\S+\.([a-z-]+)='(.*)'$", listed, re.MULTILINE)
    return {SETTINGS_OF_PIP[name]: value for name, value in settings if name in SETTINGS_OF_PIP}


if __name__ == "__main__":
    main()
