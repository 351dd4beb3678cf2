"""A standalone cluster of Spark on loopback: a master and two workers, of the jars of a PySpark."""

import importlib.metadata
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.connectors.spark.processes import ROOT, TIMEOUT_SECONDS, environment
from tests.support.waiting import wait_for

PYTHON = Path(sys.executable)
DEPENDENCIES = (
    "fastavro",
    "numpy",
    "pandas",
    "pyarrow",
    "pyroaring",
    "python-dateutil",
    "pytz",
    "six",
    "tzdata",
    "xxhash",
)
"""What this package and PySpark's Arrow functions need on workers; pandas needs the time zones in some releases."""
WORKERS = 2
_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Registering worker"


def _packages_of(python: Path) -> Path:
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    return packages


def make_environment(folder: Path, python: Path = PYTHON) -> Path:
    """Makes a virtual environment with the dependencies of the package, and without the package; returns its Python.

    ``python`` is that of an environment that has them.
    """
    # Spark unpacks no symbolic link that leads out of an archive.
    subprocess.run([python, "-m", "venv", "--copies", "--without-pip", str(folder)], check=True)
    # A link to a folder would be packed as a second one.
    (folder / "lib64").unlink(missing_ok=True)
    packages = _packages_of(folder / "bin" / "python")
    distributions = importlib.metadata.distributions(path=[str(_packages_of(python))])
    installed = {distribution.name.lower(): distribution for distribution in distributions}
    for distribution in (installed[name] for name in DEPENDENCIES if name in installed):
        for file in distribution.files or ():
            # Tests and C headers are half of the bytes.
            if ".." in file.parts or {"tests", "include", "__pycache__"} & set(file.parts):
                continue
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(distribution.locate_file(file)), target)
    return folder / "bin" / "python"


def pack(python: Path, archive: Path) -> None:
    """Packs the environment of a Python, with the package, into a zip file."""
    environment, target = python.parents[1], _packages_of(python) / "hudi_bridge"
    shutil.copytree(ROOT / "hudi_bridge", target, ignore=shutil.ignore_patterns("__pycache__"))
    try:
        # Spark's own tar takes no program from an archive: their permission to run is lost.
        shutil.make_archive(str(archive.with_suffix("")), "zip", environment)
    finally:
        shutil.rmtree(target)


def write_package(folder: Path) -> Path:
    """Writes the package into a zip file, as a user does."""
    archive = folder / "hudi_bridge.zip"
    subprocess.run([sys.executable, "-m", "hudi_bridge.connectors.spark.package", archive], cwd=ROOT, check=True)
    return archive


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster; ``folder`` has the logs and the folders of the executors, and ``python`` its PySpark."""

    master: str
    folder: Path
    python: Path

    @property
    def has_format(self) -> bool:
        """Whether this PySpark has data sources in Python."""
        return (_packages_of(self.python) / "pyspark" / "sql" / "datasource.py").exists()

    def submit(self, python: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Runs ``spark-submit`` with a Python for the workers, and that of the cluster's PySpark for the driver."""
        command = [str(_home(self.python) / "bin" / "spark-submit"), "--master", self.master]
        settings = {
            "spark.pyspark.python": python,
            "spark.pyspark.driver.python": str(self.python),
            "spark.driver.memory": "1g",
            "spark.executor.memory": "1g",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
        }
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        variables = {name: value for name, value in _variables(self.python).items() if not name.startswith("PYSPARK_")}
        return subprocess.run(
            [*command, *arguments],
            env=variables | {"PYTHONPATH": str(ROOT)},
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )


def _home(python: Path) -> Path:
    return _packages_of(python) / "pyspark"


def _variables(python: Path) -> dict[str, str]:
    """The variables of the processes of Spark; they must not find the package of this checkout."""
    variables = environment(python)
    del variables["PYTHONPATH"]
    return variables | {"SPARK_HOME": str(_home(python)), "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def standalone_cluster(folder: Path, python: Path = PYTHON) -> Iterator[Cluster]:
    """A master and its workers, which end with the block; ``python`` is that of an environment with PySpark."""
    with ExitStack() as processes:
        log = folder / "master.log"
        arguments = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        processes.enter_context(_daemon(python, "master.Master", arguments, log))
        wait_for(lambda: _STARTED.search(log.read_text()))
        started = _STARTED.search(log.read_text())
        assert started is not None
        for number in range(WORKERS):
            work = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker-{number}"))
            of_worker = ("--host", "127.0.0.1", "--webui-port", "0", *work, started[1])
            processes.enter_context(_daemon(python, "worker.Worker", of_worker, folder / f"worker-{number}.log"))
        wait_for(lambda: log.read_text().count(_REGISTERED) == WORKERS)
        yield Cluster(master=started[1], folder=folder, python=python)


@contextmanager
def _daemon(python: Path, name: str, arguments: tuple[str, ...], log: Path) -> Iterator[None]:
    command = [str(_home(python) / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            env=_variables(python) | {"SPARK_DAEMON_MEMORY": "256m"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()
        process.wait()
