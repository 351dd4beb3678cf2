import importlib
import sys
import zipfile
from pathlib import Path

import pytest

from hudi_bridge.connectors.spark.kept_rows import forgetting_zip_importers


def archive_of(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An archive in the path, with a package that has the name and a module in it."""
    path = str(folder / f"{name}.zip")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "")
        archive.writestr(f"{name}/inner.py", "ANSWER = 42")
    monkeypatch.syspath_prepend(path)
    return path


def test_only_archives_that_the_process_was_started_with_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, added = archive_of(tmp_path, "started_with", monkeypatch), archive_of(tmp_path, "added_later", monkeypatch)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{own}")
    importlib.import_module("started_with")
    importlib.import_module("added_later")
    assert {own, added} <= set(sys.path_importer_cache)
    with pytest.raises(KeyError), forgetting_zip_importers():
        raise KeyError
    assert not [path for path in sys.path_importer_cache if path.startswith(own)]
    assert added in sys.path_importer_cache
    assert importlib.import_module("started_with.inner").ANSWER == 42
