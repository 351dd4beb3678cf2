"""The blocks of code of README and docs: found in the Markdown, and run.

A block begins with its language and, where it needs one, its engine: ```` ```python engine=spark ````. ``RUN_BY`` says
which test runs which; a block that is none of these fails tests/project/test_snippets.py. All blocks of a page that
one test
runs share a folder, with the tables that ``TABLES`` names in it, and their Python shares its names, as a reader's
session would.

``python``   is executed.
``sql``      is asked of the engine, or of the page's DuckDB ``connection``.
``console``  is typed into a terminal, line by line: what follows ``$``. Where the page shows what comes back, that has
             to come back; ``…`` stands for anything. What follows ``hudi>`` is typed at the prompt. ``exit=N`` is how
             the commands end, ``ctrl-c`` that they are interrupted once they have said what the page shows.
"""

import fcntl
import multiprocessing
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, nullcontext
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from hudi_bridge import samples
from hudi_bridge.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
RUN_BY = {
    ("python", None): "tests/project/test_snippets.py",
    ("sql", None): "tests/project/test_snippets.py",
    ("console", None): "tests/project/test_snippets.py",
    ("python", "libraries"): "tests/integration/test_library_snippets.py",
    ("python", "spark"): "tests/connectors/spark/test_spark_snippets.py",
    ("python", "dagster"): "tests/connectors/check_orchestration.py",
    ("python", "airflow"): "tests/connectors/check_orchestration.py",
    ("jinja", "dbt"): "tests/connectors/check_dbt.py",
    ("sql", "dbt"): "tests/connectors/check_dbt.py",
    ("yaml", "dbt"): "tests/connectors/check_dbt.py",
    ("sql", "spark"): "tests/connectors/spark/test_spark_snippets.py",
    ("sql", "trino"): "tests/integration/test_trino_snippets.py",
    ("console", "trino"): "tests/integration/test_trino_snippets.py",
    ("toml", None): "tests/service/test_deployment.py",
    ("properties", "trino"): "tests/integration/test_trino_snippets.py",
    ("properties", "trino-with-credentials"): "tests/integration/test_trino_access.py",
    ("properties", "presto"): "tests/integration/test_presto_server.py",
}
"""Which test runs the blocks of a language and an engine."""
NOT_CODE = {"text"}
TIMEOUT_SECONDS = 120
_SERVICE_LOCK = Path.home() / ".cache" / "hudi-bridge" / "service.lock"
_FENCE = re.compile(r"^```(?P<info>[^`\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_TYPED = re.compile(r"^(?:hudi> |  \.\.\. )(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of code of a page; ``line`` is that of its first line."""

    page: str
    line: int
    language: str
    options: Mapping[str, str]
    text: str

    @property
    def engine(self) -> str | None:
        """What has to be there to run it, None for what the package alone does."""
        return self.options.get("engine")

    @property
    def place(self) -> str:
        """Where it stands."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command line, what the page shows of its output, and what is typed while it runs."""

    line: str
    output: str

    @property
    def typed(self) -> str:
        """The lines that answer a prompt."""
        return "".join(f"{item}\n" for item in _TYPED.findall(self.output))


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in their order."""
    content = (ROOT / page).read_text(encoding="utf-8")
    actual = []
    for fence in _FENCE.finditer(content):
        language, *words = fence["info"].split() or [""]
        options = {name: value for name, _, value in (word.partition("=") for word in words)}
        line = content.count("\n", 0, fence.start("text")) + 1
        actual.append(Block(page=page, line=line, language=language, options=options, text=fence["text"]))
    return actual


def blocks_of(runner: str) -> dict[str, list[Block]]:
    """The blocks that a test runs, by page; pages without one are left out."""
    by_page = {
        page: [block for block in blocks(page) if RUN_BY.get((block.language, block.engine)) == runner]
        for page in PAGES
    }
    return {page: actual for page, actual in by_page.items() if actual}


def commands(text: str) -> list[Command]:
    """The command lines of a console block."""
    joined = text.replace("\\\n", " ")
    parts = re.split(r"^\$ ", joined, flags=re.MULTILINE)
    assert not parts[0].strip(), f"does not begin with $: {parts[0]}"
    return [Command(line=line, output=output) for line, _, output in (part.partition("\n") for part in parts[1:])]


@dataclass(kw_only=True)
class Session:
    """Runs blocks of one page, one after another, in a folder that has the sample tables."""

    folder: Path
    names: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        folder: Path,
        *,
        path: Path | None = None,
        environment: Mapping[str, str] | None = None,
        **names: Any,
    ) -> "Session":
        """A session of a page; ``path`` is a folder of further commands, ``names`` are those that its Python has."""
        samples.unpack(folder)
        names["__name__"] = "__main__"
        return cls(folder=folder, names=names, path=path, environment=environment or {})

    def run(self, block: Block) -> None:
        """Raises what the block raises, or an AssertionError unless it does what the page shows."""
        if block.language == "python":
            # Line numbers in a traceback are those of the page.
            exec(compile("\n" * (block.line - 1) + block.text, block.page, "exec"), self.names)
        elif block.language == "sql":
            assert self.names["connection"].sql(block.text).fetchall(), block.place
        else:
            for command in commands(block.text):
                self.run_command(command, block)

    def run_command(self, command: Command, block: Block) -> None:
        """Raises an AssertionError unless the command ends as the page says, with the output that it shows."""
        first = command.line.split()[0]
        if first in INSTALLERS:
            INSTALLERS[first](command.line)
            return
        shown = expected(_TYPED.sub("…", command.output) if command.typed else command.output)
        until = shown if "ctrl-c" in block.options else None
        with nullcontext() if until is None else _alone():
            code, seen = self.in_terminal(command, until)
        assert shown.search(seen), f"{block.place}: $ {command.line}\n{seen}"
        if until is None:
            assert code == int(block.options.get("exit", 0)), (
                f"{block.place}: $ {command.line} ends with {code}\n{seen}"
            )

    def in_terminal(self, command: Command, until: re.Pattern[str] | None) -> tuple[int, str]:
        """The exit code of a command, and what a person sees who runs it and types the answers to its prompts."""
        ours, theirs = pty.openpty()
        # Without a shell to ask for, the command line starts from a process that has its modules already.
        is_simple = command.line.startswith("hudi-bridge ") and not set(command.line.partition("#")[0]) & set("|><;*$~")
        start = _in_a_fork if is_simple else _in_a_shell
        running = start(command.line, theirs, self.folder, self._environment())
        os.close(theirs)
        os.write(ours, command.typed.encode())
        seen = b""
        interrupted = False
        deadline = time.monotonic() + TIMEOUT_SECONDS
        try:
            while select.select([ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
                seen += os.read(ours, 4096)
                if until is not None and not interrupted and until.search(_shown(seen)):
                    os.killpg(running.pid, signal.SIGINT)
                    interrupted = True
            os.killpg(running.pid, signal.SIGKILL)
        except OSError:
            pass  # Linux reports the end of a terminal as an error
        # A terminal that closes hangs up on what has not ended yet.
        code = running.code()
        os.close(ours)
        return code, _shown(seen)

    def _environment(self) -> dict[str, str]:
        folders = [*([str(self.path)] if self.path else []), str(Path(sys.executable).parent), os.environ["PATH"]]
        terminal = {"COLUMNS": "120", "LINES": "40", "TERM": "dumb", "HOME": str(self.folder)}
        machine = {"PATH": os.pathsep.join(folders), "PYTHONPATH": str(ROOT), "TZ": "UTC"}
        return {**os.environ, **terminal, **machine, **self.environment}


@dataclass(frozen=True, slots=True)
class _Running:
    """A process that leads a group of its own, and what waits for its exit code."""

    pid: int
    code: Callable[[], int]


def _in_a_shell(line: str, terminal: int, folder: Path, environment: Mapping[str, str]) -> _Running:
    process = subprocess.Popen(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    return _Running(process.pid, lambda: process.wait(timeout=TIMEOUT_SECONDS))


def _in_a_fork(line: str, terminal: int, folder: Path, environment: Mapping[str, str]) -> _Running:
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["hudi_bridge.cli.main", "hudi_bridge.service.server"])
    arguments = shlex.split(line, comments=True)[1:]
    opened = forks.Event()
    process = forks.Process(
        target=_hudi_bridge, args=(arguments, os.ttyname(terminal), opened, folder, dict(environment))
    )
    process.start()
    assert process.pid is not None
    assert opened.wait(TIMEOUT_SECONDS)

    def code() -> int:
        process.join(TIMEOUT_SECONDS)
        assert process.exitcode is not None, line
        return process.exitcode

    return _Running(process.pid, code)


def _hudi_bridge(arguments: list[str], terminal: str, opened: Event, folder: Path, environment: dict[str, str]) -> None:
    """The command line, in a process of its own that has a terminal."""
    # A shell has what it runs in the background ignore Ctrl-C, and so all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    descriptor = os.open(terminal, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(descriptor, standard)
    os.close(descriptor)
    opened.set()
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - for as long as it lives
    os.environ |= environment
    os.chdir(folder)
    sys.argv = ["hudi-bridge", *arguments]
    main()


def _shown(seen: bytes) -> str:
    text = seen.decode(errors="replace").replace("\r\n", "\n")
    return "\n".join(line.rstrip() for line in text.splitlines())


def expected(output: str) -> re.Pattern[str]:
    """What output has to look like that a page shows."""
    lines = "\n".join(line.rstrip() for line in output.strip().splitlines())
    return re.compile(
        r"\s*".join(re.escape(part.strip()) for part in lines.split("…")).replace(r"\s*", ".*?"), re.DOTALL
    )


def check_pip_install(line: str) -> None:
    """Raises an AssertionError unless a line installs this checkout, with extras that there are, in quotes.

    Bounds of other packages may follow.
    ``make dist`` installs the wheel with each extra.
    """
    actual = re.fullmatch(r"pip install (?:'\.\[([a-z,-]+)\]'|\.)(?: '[a-z]+[<>=][<>=0-9.,]*')*", line)
    assert actual, line
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set((actual[1] or "").split(",")) <= {"", *project["optional-dependencies"]}, line


def check_make(line: str) -> None:
    """Raises an AssertionError unless a line names a target of the Makefile that ``make help`` lists."""
    target = line.partition("#")[0].split()[1]
    assert re.search(rf"^{target}:.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), line


INSTALLERS: Mapping[str, Callable[[str], None]] = {"pip": check_pip_install, "make": check_make}
"""Commands that set up a machine, which are checked and not run."""


@contextmanager
def _alone() -> Iterator[None]:
    """No other test runs a service meanwhile, of any checkout of this user, which would have the same port."""
    _SERVICE_LOCK.parent.mkdir(parents=True, exist_ok=True)
    with _SERVICE_LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_all() -> None:
    """Runs the blocks that need no server and no JDK, each page in a folder of its own below this one."""
    for page, of_page in blocks_of("tests/project/test_snippets.py").items():
        folder = Path(page.replace("/", "-")).resolve()
        folder.mkdir()
        with chdir(folder):
            session = Session.of(folder)
            for block in of_page:
                session.run(block)


if __name__ == "__main__":
    run_all()
