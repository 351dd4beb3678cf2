"""Builds the sdist and the wheel, and tests the wheel in fresh environments: without extras, and with each extra.

    python -m tools.try_wheel [--python PYTHON] [EXTRA...]

Versions are those of constraints.txt. Every environment reads a sample table and runs a short test of its extra, as
many at a time as there are cores. One more runs the examples of README and docs. A failure ends the run.
"""

import argparse
import email
import os
import re
import shutil
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tools.environment import CONSTRAINTS, NEEDED_OLDER, ROOT, UV, create, fetch_uv, install, pinned_lines, run

DIST = ROOT / "dist"
BARE = ""
ROWS = 12
READ = f"""
from importlib.metadata import version
import hudi_bridge
from hudi_bridge import samples
assert hudi_bridge.HudiTable.open(samples.trips(".")).snapshot().count_rows() == {ROWS}
assert hudi_bridge.HudiTable.open("trips").snapshot().count_rows() == {ROWS}
assert "site-packages" in hudi_bridge.__file__, hudi_bridge.__file__
print("hudi-bridge", version("hudi-bridge"), "from", hudi_bridge.__file__)
"""
UNREACHABLE = """
import os
from hudi_bridge import HudiTable, StorageError
os.environ |= {{"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}}
os.environ["HUDI_BRIDGE_STORE_RETRY_SECONDS"] = "0"
try:
    HudiTable.open("{uri}")
except StorageError as error:
    print(error)
else:
    raise SystemExit("a server answers where there is none")
"""
TRIALS = {
    BARE: "",
    "duckdb": f"""
import duckdb
from hudi_bridge.connectors.duckdb import attach
connection = duckdb.connect()
attach(connection, "trips", "trips")
assert connection.sql("SELECT count(*) FROM trips").fetchall() == [({ROWS},)]
assert connection.sql("SELECT count(*) FROM trips_ro").fetchall() == [(14,)]
""",
    "cli": "import hudi_bridge.cli.main",
    "iceberg": """
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.service.server import IcebergService
assert IcebergService and publish_table
""",
    "daft": f"""
from daft import col
from hudi_bridge.connectors.daft import read
assert read("trips").count_rows() == {ROWS}
assert read("trips").where(col("city") == "sf").select("fare").column_names == ["fare"]
""",
    "dask": f"""
from hudi_bridge.connectors.dask import read
assert len(read("trips")) == {ROWS}
assert list(read("trips")[["fare"]].compute().columns) == ["fare"]
""",
    "ray": f"""
import os
os.environ |= {{"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}}
import ray
from hudi_bridge.connectors.ray import read
ray.init(num_cpus=1, include_dashboard=False)
assert read("trips").count() == {ROWS}
""",
    "serve": "from hudi_bridge.service import oidc, server",
    "azure": "from azure.storage.filedatalake import generate_directory_sas",
    "dbt": f"""
import duckdb
from dbt.adapters.duckdb.plugins import BasePlugin
from dbt.adapters.duckdb.utils import SourceConfig
plugin = BasePlugin.create("hudi_bridge.connectors.dbt", config={{"root": "."}})
rows = plugin.load(SourceConfig("trips", "trips", "lake", None, {{}}, []))
assert duckdb.connect().from_arrow(rows).count("*").fetchall() == [({ROWS},)]
""",
    "gcs": "import google.auth.downscoped, google.auth.transport.requests",
    "glue": UNREACHABLE.format(uri="glue://eu-west-1/sales.trips"),
    "hdfs": UNREACHABLE.format(uri="hdfs://127.0.0.1:9/trips"),
    "hive": UNREACHABLE.format(uri="hive://127.0.0.1:9/sales.trips"),
    "lance": "from lance.file import LanceFileReader",
    "polars": f"""
import polars
from hudi_bridge.connectors.polars import scan
rows = scan("trips")
assert rows.select(polars.len()).collect().item() == {ROWS}
assert rows.filter(polars.col("city") == "sf").select("fare").collect().columns == ["fare"]
""",
    "spark-connect": """
from hudi_bridge.connectors import spark
from pyspark.sql.connect.session import SparkSession
assert SparkSession and spark.read and spark.register
""",
    "spark": """
from hudi_bridge.connectors import spark
from hudi_bridge.connectors.spark.data_source import HudiBridgeDataSource
assert HudiBridgeDataSource.name() == "hudi_bridge" and spark.read and spark.register
""",
}
"""What runs in the environment of each extra after ``READ``, in a folder with the table ``trips``."""
WARNING = {"daft", "ray"}
"""Extras whose libraries warn of themselves."""
COMMANDS = {
    "cli": (
        ("demo",),
        ("--version",),
        ("read", "trips", "--where", "city = 'sf'"),
        ("sql", "trips", "SELECT count(*) FROM trips"),
        ("report", "trips", "-o", "report.html"),
    )
}
"""Command lines that must exit with 0."""


PAGES_EXTRAS = "cli,duckdb,iceberg,polars,serve"
PAGES_PACKAGES = ("hudi", "pandas")
"""What examples need that no test of its own runs."""
RUN_PAGES = """
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from tests.support.snippets import run_all
with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
    run_all()
"""
PAGES_FILES = ("README.md", "Makefile", "pyproject.toml", "tests/support/snippets.py")


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="the Python of the environments")
    parser.add_argument("extras", nargs="*", help="try these alone")
    arguments = parser.parse_args()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    if set(TRIALS) != {BARE, *extras}:
        raise SystemExit(f"the extras are {', '.join(extras)}; those that are tried are {', '.join(TRIALS)}")
    if unknown := set(arguments.extras) - set(extras):
        raise SystemExit(f"no such extra: {', '.join(sorted(unknown))}")
    fetch_uv()
    wheel = built()
    check_description(wheel)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        trials = [threads.submit(try_out, wheel, extra, arguments.python) for extra in arguments.extras or TRIALS]
        if not arguments.extras:
            trials.append(threads.submit(try_pages, wheel, arguments.python))
        try:
            for trial in as_completed(trials):
                trial.result()
        finally:
            threads.shutdown(cancel_futures=True)
    print(f"{wheel.name} works bare and with {', '.join(arguments.extras or extras)}")


def built() -> Path:
    """Builds the sdist and, from it, the wheel; returns the wheel."""
    for old in DIST.glob("*"):
        old.unlink()
    run(UV, "build", "--quiet", "--python", sys.executable, "--build-constraints", CONSTRAINTS, "--out-dir", DIST, ROOT)
    (sdist,) = DIST.glob("*.tar.gz")
    (wheel,) = DIST.glob("*.whl")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = {"README.md", "LICENSE", "pyproject.toml", "setup.py", "hudi_bridge/py.typed"} - names
    if missing:
        raise SystemExit(f"{sdist.name} lacks {', '.join(sorted(missing))}")
    return wheel


def check_description(wheel: Path) -> None:
    """Exits unless the description has absolute links only, and the wheel holds only the package."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        message = email.message_from_bytes(archive.read(metadata))
    text = str(message.get_payload())
    if relative := [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]:
        raise SystemExit(f"the description has links that lead nowhere: {', '.join(relative)}")
    if "# Hudi Bridge" not in text:
        raise SystemExit("the wheel lacks its description")
    if strays := {name.partition("/")[0] for name in names} - {"hudi_bridge", metadata.partition("/")[0]}:
        raise SystemExit(f"the wheel holds {', '.join(sorted(strays))}")


def try_pages(wheel: Path, python: Path) -> None:
    """Runs the examples of README and docs with the wheel, where no checkout is."""
    with tempfile.TemporaryDirectory(prefix="hudi-bridge-dist-") as name:
        folder = Path(name)
        create(folder / "venv", python)
        install(folder / "venv", f"{wheel}[{PAGES_EXTRAS}]", *PAGES_PACKAGES)
        for file in (*PAGES_FILES, *(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))):
            copy = folder / "pages" / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, copy)
        (folder / "run").mkdir()
        variables = {"PYTHONPATH": str(folder / "pages")}
        run(folder / "venv" / "bin" / "python", "-c", RUN_PAGES, cwd=folder / "run", variables=variables)
    print("== the examples of README and docs: work", flush=True)


def try_out(wheel: Path, extra: str, python: Path) -> None:
    """Installs the wheel with an extra into a fresh environment and runs its trial."""
    with tempfile.TemporaryDirectory(prefix="hudi-bridge-dist-") as name:
        folder = Path(name)
        create(folder / "venv", python)
        constraints = folder / "constraints.txt"
        unpinned = NEEDED_OLDER.get(extra, ())
        lines = (line for line in pinned_lines() if line.partition("==")[0] not in unpinned)
        constraints.write_text("\n".join(lines), encoding="utf-8")
        install(folder / "venv", f"{wheel}[{extra}]" if extra else str(wheel), constraints=constraints)
        binaries = folder / "venv" / "bin"
        warnings = "default" if extra in WARNING else "error"
        run(binaries / "python", "-W", warnings, "-c", READ + TRIALS[extra], cwd=folder)
        for arguments in COMMANDS.get(extra, ()):
            run(binaries / "hudi-bridge", *arguments, cwd=folder)
    print(f"== {extra or 'bare'}: works", flush=True)


if __name__ == "__main__":
    main()
