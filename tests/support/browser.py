"""Finds Chromium for the tests of pages: ``python -m tests.support.browser`` names it, or says what is missing.

Where there is none, it is installed from the packages of the system, if this user may do that.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

VARIABLE = "CHROMIUM"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PLACES = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
INSTALL = (
    ("apt-get", "update", "-qq"),
    ("apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core"),
)


class BrowserMissingError(Exception):
    """Raised when there is no Chromium."""


def chromium() -> Path:
    """The first program of the variable ``CHROMIUM``, the path and the usual places.

    Raises:
        BrowserMissingError: there is none; the message says where it was looked for, and how to install one.
    """
    for program in _programs():
        if program.exists():
            return program
    raise BrowserMissingError(
        f"The tests of pages need Chromium: install it (on Debian, as root: {' '.join(INSTALL[-1])}), or name its "
        f"program by {VARIABLE}. Looked at {VARIABLE}, {', '.join(PROGRAMS)} on the path, and {', '.join(PLACES)}."
    )


@contextmanager
def running_chromium() -> Iterator["Browser"]:
    """Chromium without a window."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only where pages are opened

    # Chromium's own sandbox refuses to run as root.
    arguments = [] if os.geteuid() else ["--no-sandbox"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        yield browser
        browser.close()


def _programs() -> Iterator[Path]:
    if VARIABLE in os.environ:
        yield Path(os.environ[VARIABLE])
    yield from (Path(actual) for name in PROGRAMS if (actual := shutil.which(name)))
    yield from map(Path, PLACES)


def _install() -> None:
    """Installs Chromium with apt.

    Raises:
        BrowserMissingError: this is not root, there is no apt, or it fails; the message has its last lines.
    """
    if os.geteuid() or shutil.which(INSTALL[0][0]) is None:
        return
    sys.stdout.write("Installing Chromium from the system's packages, once: 113 MB\n")
    sys.stdout.flush()
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in INSTALL:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if ended.returncode:
            last = "\n".join(ended.stderr.strip().splitlines()[-5:])
            raise BrowserMissingError(f"{' '.join(command)} ends with {ended.returncode}:\n{last}")


def main() -> int:
    """Names Chromium, installing it if need be; returns 1 if that cannot be done."""
    try:
        try:
            actual = chromium()
        except BrowserMissingError:
            _install()
            actual = chromium()
    except BrowserMissingError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"Pages are opened by {actual}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
