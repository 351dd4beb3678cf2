"""Tables that Hudi 0.x and 1.x have both written."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from hudi_bridge import HudiTable
from tests.support.table_writer import Row, TableWriter, at

RELEASE = "hudi_bridge.read.as.release"
LATEST = {"hoodie.compaction.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"}
"""Of several log records of a key, 0.x keeps the one with the highest ordering value, 1.x the last one."""


def two_handed_table(folder: Path, *hands_of_1x: bool, options: Mapping[str, str] = LATEST) -> str:
    """A record that log records update, each in a commit of its own hand, with ever lower ordering values."""
    table = TableWriter(folder=folder, version=6, options=options).create()
    base = table.base_file(at(1), [row(0, 0)])
    table.commit(at(1), wrote=[base])
    for number, by_1x in enumerate(hands_of_1x, start=2):
        log = table.log_file(
            at(number), [table.data_block(at(number), [row(9 - number, number)])], base_instant=at(1), number=number
        )
        table.commit(at(number), wrote=[log], by_1x=by_1x)
    return str(folder)


def row(ts: int, number: int) -> Row:
    return {"id": "a", "ts": ts, "value": f"write {number}"}


def value(path: str, release: str | None = None) -> str:
    options = {} if release is None else {RELEASE: release}
    actual: str = HudiTable.open(path, options=options).snapshot().to_table().column("value")[0].as_py()
    return actual


def test_the_properties_decide_and_a_warning_is_given_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = two_handed_table(tmp_path, False, True)
    assert [value(path), value(path)] == ["write 2", "write 2"]
    (warning,) = caplog.messages
    assert path in warning
    assert "properties are those of Hudi 0.x, whose rules hold, but Hudi 1.x wrote the newest commit" in warning
    assert RELEASE in warning


def test_a_user_decides_without_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = two_handed_table(tmp_path, False, True)
    assert [value(path, "0.15"), value(path, "1.2")] == ["write 2", "write 3"]
    assert caplog.messages == []


def test_after_a_downgrade_0x_may_write_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = two_handed_table(tmp_path, True, False, options={**LATEST, "hoodie.table.initial.version": "9"})
    assert value(path) == "write 3"
    assert any("those of Hudi 1.x, whose rules hold, but Hudi 0.x wrote" in message for message in caplog.messages)


def test_other_versions_are_of_one_hand(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = TableWriter(folder=tmp_path).create()
    table.commit(at(1), wrote=[table.base_file(at(1), [row(0, 0)])])
    assert value(str(tmp_path)) == "write 0"
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("hands_of_1x", "options"), [((False, False), LATEST), ((True, True), {**LATEST, "hoodie.table.format": "native"})]
)
def test_tables_of_one_hand_give_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, hands_of_1x: tuple[bool, ...], options: Mapping[str, str]
) -> None:
    value(two_handed_table(tmp_path, *hands_of_1x, options=options))
    assert caplog.messages == []
