import json
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hudi_bridge.storage.storage import Storage
from hudi_bridge.tools.checks.examination import tables_below
from tests.cli.conftest import Outcome
from tests.support.golden_cases import golden_table, golden_trips
from tests.support.table_writer import TableWriter, at

Call = Callable[..., Outcome]


def small_table(folder: Path) -> TableWriter:
    writer = TableWriter(folder=folder).create()
    base = writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])
    writer.commit(at(1), wrote=[base])
    return writer


def test_a_healthy_table(hudi_bridge: Call) -> None:
    outcome = hudi_bridge("doctor", str(golden_trips() / "trips"))
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.text.splitlines()
    assert lines[1].startswith("MERGE_ON_READ, version 9, as of 20261122081117834, 5 file slices: ")
    assert "    found a timeline that begins at 20261122081106231; " in outcome.text
    assert "logs to merge in 2 of 5 file slices:" in lines
    assert lines[-1] == "0 errors, 0 warnings, 0 advice, 1 info"


def test_errors_and_warnings_have_exit_codes(hudi_bridge: Call, tmp_path: Path) -> None:
    writer = small_table(tmp_path / "t")
    writer.pending(at(2))
    late = ("--now", "2026-02-01")
    outcome = hudi_bridge("doctor", str(writer.folder), *late)
    assert outcome.code == 3
    assert f"warning  pending-actions  .hoodie/timeline/{at(2)}.deltacommit.requested" in outcome.text
    assert hudi_bridge("doctor", str(writer.folder), *late, "--pending-hours", "9999").code == 0
    next(writer.folder.glob("*.parquet")).write_bytes(b"nothing")
    outcome = hudi_bridge("doctor", str(writer.folder), *late)
    assert outcome.code == 1
    assert outcome.text.splitlines()[2].startswith("error    base-f")
    assert hudi_bridge("doctor", str(writer.folder), "--now", "tomorrow").code == 2


def test_only_what_is_severe(hudi_bridge: Call) -> None:
    table = str(golden_table("c_corrupt_block_120"))
    outcome = hudi_bridge("doctor", table, "--severity", "error")
    assert "horizon" not in outcome.text
    assert "logs to merge" not in outcome.text
    assert outcome.text.count("error    log-blocks") == 5
    assert hudi_bridge("doctor", str(golden_trips() / "trips"), "--severity", "error").code == 0


def test_all_tables_of_a_folder(hudi_bridge: Call, tmp_path: Path) -> None:
    small_table(tmp_path / "a" / "good")
    damaged = small_table(tmp_path / "b" / "damaged").folder
    (damaged / ".hoodie" / "hoodie.properties").unlink()
    outcome = hudi_bridge("doctor", str(tmp_path))
    assert outcome.code == 1
    assert f"{tmp_path}/a/good" in outcome.text
    assert "the table could not be opened" in outcome.text
    assert outcome.text.splitlines()[-1] == "2 tables: 1 error, 0 warnings, 0 advice, 1 info"
    documents = [json.loads(line) for line in hudi_bridge("doctor", str(tmp_path), "-f", "json").text.splitlines()]
    assert [(document["name"], document["worst"]) for document in documents] == [("trips", "info"), ("", "error")]


def test_a_folder_without_tables(hudi_bridge: Call, tmp_path: Path) -> None:
    outcome = hudi_bridge("doctor", str(tmp_path))
    assert (outcome.code, outcome.text) == (1, "")
    assert "neither it nor a folder in it holds .hoodie" in outcome.err
    assert hudi_bridge("doctor", str(tmp_path / "nowhere")).code == 1


def test_links_and_hidden_folders_are_not_searched(tmp_path: Path) -> None:
    root = tmp_path / "root"
    small_table(root / "x" / "t")
    small_table(tmp_path / "outside")
    small_table(root / ".trash" / "t")
    (root / "back").symlink_to(root)
    (root / "out").symlink_to(tmp_path / "outside")
    failures: list[object] = []
    actual = [item.root for item in tables_below(Storage.open(root), lambda *failure: failures.append(failure))]
    assert (actual, failures) == ([str(root / "x" / "t")], [])


class Page(HTMLParser):
    """The tags and texts of a page, and what it refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str | None] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_page(hudi_bridge: Call, tmp_path: Path) -> None:
    shutil.copytree(golden_trips() / "trips", tmp_path / "<b>lake" / "trips")
    writer = small_table(tmp_path / "<b>lake" / "t")
    (writer.timeline_folder / "1<script>alert(1)<\x1b.commit").write_bytes(b"")
    target = tmp_path / "page.html"
    outcome = hudi_bridge("doctor", str(tmp_path / "<b>lake"), "--format", "html", "-o", str(target))
    assert (outcome.code, outcome.text) == (3, "")
    text = target.read_text()
    page = Page(text)
    assert (page.open, page.links) == ([], [])
    assert "<script" not in text
    assert any(r"1<script>alert(1)<\x1b.commit" in item for item in page.texts)
    assert any("File slices with logs" in item for item in page.texts)
    assert "prefers-color-scheme: dark" in text
    assert hudi_bridge("doctor", str(writer.folder), "-f", "html", "-o", str(target), "--no-clobber").code == 1


def test_text_in_a_file(hudi_bridge: Call, tmp_path: Path) -> None:
    table = str(golden_trips() / "trips")
    assert hudi_bridge("doctor", table, "-o", str(tmp_path / "out")).code == 0
    assert (tmp_path / "out").read_text() == hudi_bridge("doctor", table).text


@pytest.mark.long
def test_lines_fit_a_terminal(in_terminal: Callable[..., str]) -> None:
    shown = in_terminal("doctor", str(golden_table("c_corrupt_block_120")), columns=200)
    assert (
        "error    log-blocks  a/.a5599abe-3d8f-403a-88fc-d35f3f4483e0-0_20261121134317643.log.1_0-1587-3074 at" in shown
    )


def test_a_table_that_fails_in_a_folder_does_not_stop_the_others(
    hudi_bridge: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_table(tmp_path / "a")
    small_table(tmp_path / "b")
    whole = Storage.list_directory

    def list_directory(self: Storage, path: str, *, must_exist: bool = False) -> object:
        if self.root.endswith("/a") and path.endswith("timeline"):
            raise self.failure("list", path, PermissionError(13, "denied"))
        return whole(self, path, must_exist=must_exist)

    monkeypatch.setattr(Storage, "list_directory", list_directory)
    outcome = hudi_bridge("doctor", str(tmp_path))
    assert outcome.code == 1
    assert "denied" in outcome.text
    assert outcome.text.splitlines()[-1] == "2 tables: 1 error, 0 warnings, 0 advice, 1 info"
