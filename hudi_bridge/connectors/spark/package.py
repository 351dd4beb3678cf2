"""The package as a zip file for Spark's ``--py-files``, ``addPyFile`` and ``addArtifacts``.

    python -m hudi_bridge.connectors.spark.package hudi_bridge.zip

Spark takes modules from files that end with ``.zip``, not from wheels. The dependencies are not in the file: some of
them are compiled, and Python does not import those from a zip.
"""

import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from hudi_bridge.errors import QueryError
from hudi_bridge.storage.storage import PathLike

_SUFFIX = ".zip"


def write_package(path: PathLike) -> str:
    """Writes this release of the package into a zip file, in place of one that is there; returns its path.

    Raises:
        QueryError: the name of the file does not end with ``.zip``, or this package is in a zip file itself.
    """
    target = Path(path)
    if target.suffix != _SUFFIX:
        raise QueryError(
            "path", repr(str(target)), f"a name that ends with {_SUFFIX}, as Spark takes no modules from others"
        )
    folder = Path(__file__).parents[2]
    if not folder.is_dir():
        raise QueryError("path", f"the package in a zip file ({folder.parent})", "that file in place of a new one")
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(folder.parent))
    return str(target)


if __name__ == "__main__":
    if len(sys.argv[1:]) != 1:
        raise SystemExit("usage: python -m hudi_bridge.connectors.spark.package FILE.zip")
    try:
        print(write_package(sys.argv[1]))  # noqa: T201 - what the command is asked for
    except QueryError as error:
        raise SystemExit(str(error)) from None
