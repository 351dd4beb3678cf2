"""A standalone cluster of Spark on loopback: a master and two workers, of the jars of PySpark."""

import importlib.metadata
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.connectors.spark.processes import ROOT, TIMEOUT_SECONDS, environment
from tests.support.waiting import wait_for

SPARK_HOME = Path(pyspark.__file__).parent
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


def make_environment(folder: Path) -> Path:
    """Makes a virtual environment with the dependencies of the package, and without the package; returns its Python."""
    # Spark unpacks no symbolic link that leads out of an archive.
    subprocess.run([sys.executable, "-m", "venv", "--copies", "--without-pip", str(folder)], check=True)
    # A link to a folder would be packed as a second one.
    (folder / "lib64").unlink(missing_ok=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    installed = {distribution.name.lower(): distribution for distribution in importlib.metadata.distributions()}
    for distribution in (installed[name] for name in DEPENDENCIES if name in installed):
        for file in distribution.files or ():
            # Tests and C headers are half of the bytes.
            if ".." in file.parts or {"tests", "include", "__pycache__"} & set(file.parts):
                continue
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(distribution.locate_file(file)), target)
    return folder / "bin" / "python"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster; ``folder`` has the logs and the folders of the executors."""

    master: str
    folder: Path

    def submit(self, python: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Runs ``spark-submit`` with a Python for the workers, and this Python for the driver."""
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.master]
        settings = {
            "spark.pyspark.python": python,
            "spark.pyspark.driver.python": sys.executable,
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
        variables = {name: value for name, value in _variables().items() if not name.startswith("PYSPARK_")}
        return subprocess.run(
            [*command, *arguments],
            env=variables | {"PYTHONPATH": str(ROOT)},
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )


def _variables() -> dict[str, str]:
    """The variables of the processes of Spark; they must not find the package of this checkout."""
    variables = environment(Path(sys.executable))
    del variables["PYTHONPATH"]
    return variables | {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[Cluster]:
    """A master and its workers, which end with the block."""
    with ExitStack() as processes:
        log = folder / "master.log"
        arguments = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        processes.enter_context(_daemon("master.Master", arguments, log))
        wait_for(lambda: _STARTED.search(log.read_text()))
        started = _STARTED.search(log.read_text())
        assert started is not None
        for number in range(WORKERS):
            work = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker-{number}"))
            of_worker = ("--host", "127.0.0.1", "--webui-port", "0", *work, started[1])
            processes.enter_context(_daemon("worker.Worker", of_worker, folder / f"worker-{number}.log"))
        wait_for(lambda: log.read_text().count(_REGISTERED) == WORKERS)
        yield Cluster(master=started[1], folder=folder)


@contextmanager
def _daemon(name: str, arguments: tuple[str, ...], log: Path) -> Iterator[None]:
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            env=_variables() | {"SPARK_DAEMON_MEMORY": "256m"},
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
