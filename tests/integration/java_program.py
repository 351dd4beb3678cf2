"""A Java program out of one source file, which does what it is told line by line."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.maven_jar import MavenJar
from tests.connectors.spark.processes import JVM_OPTIONS
from tests.support.jdks import SPARK35, jdk_home

_LOG_BYTES = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaProgram:
    """A program that runs. ``ready`` has what it said when it was."""

    process: "subprocess.Popen[str]"
    log: Path
    ready: Sequence[str]

    def command(self, text: str) -> None:
        """Have it do something, and wait until it is done."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()
        assert _line(self.process, self.log) == f"done {text}"


@contextmanager
def running_java(
    source: Path, arguments: Sequence[str], jars: Sequence[MavenJar], log: Path, *options: str
) -> Iterator[JavaProgram]:
    """A program that is ready; ``options`` are those of the JVM."""
    java = str(jdk_home(SPARK35) / "bin" / "java")
    places = os.pathsep.join(str(jar.fetched()) for jar in jars)
    command = [java, *options, *JVM_OPTIONS.split(), "-cp", places, str(source), *arguments]
    with (
        log.open("w+") as output,
        subprocess.Popen(
            command, cwd=log.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True
        ) as process,
    ):
        try:
            word, *ready = _line(process, log).split()
            assert word == "ready"
            yield JavaProgram(process=process, log=log, ready=ready)
        finally:
            process.kill()


def _line(process: "subprocess.Popen[str]", log: Path) -> str:
    """The next line of the program, which has ended if there is none."""
    assert process.stdout is not None
    line = process.stdout.readline().rstrip("\n")
    assert line, log.read_text(errors="replace")[-_LOG_BYTES:]
    return line
