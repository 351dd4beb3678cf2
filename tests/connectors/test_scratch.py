"""The folder of a view's own files, on a local disk and on a file system that is somewhere else."""

import errno
import stat
import time
from pathlib import Path

import fsspec
import pytest

from hudi_bridge.connectors.scratch import Scratch, remove_orphan_files
from hudi_bridge.storage.storage import Storage


@pytest.fixture(params=["local", "elsewhere"])
def scratch(request: pytest.FixtureRequest, tmp_path: Path) -> Scratch:
    if request.param == "local":
        return Scratch.open(str(tmp_path / "scratch"))
    memory = fsspec.filesystem("memory", skip_instance_cache=True)
    memory.makedirs(f"/{tmp_path.name}", exist_ok=True)
    return Scratch(storage=Storage.open(f"/{tmp_path.name}", memory))


def test_what_is_written_can_be_read(scratch: Scratch) -> None:
    assert scratch.read("a/b.json") is None
    assert scratch.names("a") == ()
    scratch.write("a/b.json", b"one")
    scratch.child("a").write("b.json", b"two")
    assert scratch.read("a/b.json") == b"two"
    assert scratch.names("a") == ("b.json",)
    scratch.remove("a/b.json")
    scratch.remove("a/b.json")
    assert scratch.names("a") == ()


def test_a_file_appears_when_it_is_whole(scratch: Scratch) -> None:
    with pytest.raises(ZeroDivisionError):
        write_half(scratch, "a/b.json")
    assert scratch.all_names("a") == ()
    with scratch.appearing("a/b.json") as file:
        file.write(b"whole")
    assert scratch.read("a/b.json") == b"whole"


def write_half(scratch: Scratch, name: str) -> None:
    with scratch.appearing(name) as file:
        file.write(b"half")
        assert scratch.names("a") == ()
        raise ZeroDivisionError


def test_a_private_folder_is_made_for_this_user_alone_and_keeps_its_mode(tmp_path: Path) -> None:
    Scratch.open(tmp_path / "new" / "scratch", is_private=True).child("a").write("b/c", b"")
    assert stat.S_IMODE((tmp_path / "new" / "scratch").stat().st_mode) == 0o700
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o755)
    Scratch.open(tmp_path / "shared", is_private=True).write("b/c", b"")
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o755


def test_a_full_disk_is_said_with_the_file(tmp_path: Path) -> None:
    scratch = Scratch.open(str(tmp_path))
    with pytest.raises(OSError, match=r"No space.*/a/b\.json"), scratch.appearing("a/b.json"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_orphan_files_wait(scratch: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("needed.json", "left.json", "of-others.txt", "left.json.part"):
        scratch.write(f"a/{name}", b"")
    needed = {"a": ({"needed.json"}, (".json", ".part"))}
    removed = []
    for now in (0, 59, 60):
        monkeypatch.setattr(time, "time", lambda now=now: float(now))
        removed.append(remove_orphan_files(scratch, needed, 60))
    assert removed == [0, 0, 2]
    assert set(scratch.all_names("a")) == {"needed.json", "of-others.txt"}
    assert remove_orphan_files(scratch, {"a": (set(), (".json",))}, 0) == 1
