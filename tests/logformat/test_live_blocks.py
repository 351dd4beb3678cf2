import pytest

from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.layout import BlockType, HeaderKey
from hudi_bridge.logformat.scan import LiveBlocks, SkippedBlocks, live_blocks, scan_blocks
from tests.logformat.log_writer import data_block, delete_block, log_block, rollback_block


def live(
    *files: bytes, latest: str | None = None, pending: tuple[str, ...] = (), replaces_compacted: bool = True
) -> LiveBlocks:
    scans = [scan_blocks(data, f".f1-0_001.log.{number}_0-1-2") for number, data in enumerate(files, 1)]
    return live_blocks(
        scans,
        latest_instant=latest,
        is_valid=lambda instant: instant not in pending,
        replaces_compacted=replaces_compacted,
    )


def contents(result: LiveBlocks) -> list[str]:
    return [block.content.to_pybytes().decode() for block in result.blocks]


def named(instant: str, name: str | None = None, compacted: tuple[str, ...] = ()) -> bytes:
    return data_block(instant, (name or instant).encode(), compacted=compacted)


def skipped(
    *, corrupt: int = 0, later: int = 0, uncommitted: int = 0, rolled_back: int = 0, compacted: int = 0
) -> SkippedBlocks:
    return SkippedBlocks(
        corrupt=corrupt, later=later, uncommitted=uncommitted, rolled_back=rolled_back, compacted=compacted
    )


def test_blocks_of_all_files_oldest_first() -> None:
    result = live(named("002") + delete_block("002", b"deletes"), named("003"))
    assert contents(result) == ["002", "deletes", "003"]
    assert result.skipped == skipped()


def test_arrival_decides_and_not_the_instant() -> None:
    assert contents(live(named("005"), named("003"), named("004"))) == ["005", "003", "004"]


def test_blocks_of_one_instant_stay_together() -> None:
    assert contents(live(named("002", "a"), named("003"), named("002", "b"))) == ["a", "b", "003"]


def test_later_blocks_do_not_count() -> None:
    result = live(named("002") + named("003"), delete_block("004", b"deletes"), latest="002")
    assert contents(result) == ["002"]
    assert result.skipped == skipped(later=2)


def test_uncommitted_blocks_do_not_count() -> None:
    result = live(named("002") + named("003") + named("004"), pending=("003",))
    assert contents(result) == ["002", "004"]
    assert result.skipped == skipped(uncommitted=1)


def test_corrupt_blocks_are_counted() -> None:
    result = live(named("002") + named("003")[:-1], named("004"))
    assert contents(result) == ["002", "004"]
    assert result.skipped == skipped(corrupt=1)


def test_rollback_takes_back_all_earlier_blocks_of_its_target() -> None:
    result = live(named("002") + named("003", "a"), named("003", "b"), rollback_block("004", "003"), named("005"))
    assert contents(result) == ["002", "005"]
    assert result.skipped == skipped(rolled_back=2)


def test_rollback_spares_blocks_that_come_after_it() -> None:
    result = live(named("003", "before"), rollback_block("004", "003"), named("002"), named("003", "after"))
    assert contents(result) == ["002", "after"]


def test_rollback_of_something_else_than_the_block_before_it() -> None:
    result = live(named("001") + named("002") + named("003") + rollback_block("004", "002") + named("005"))
    assert contents(result) == ["001", "003", "005"]


def test_repeated_rollback_and_rollback_of_nothing() -> None:
    rollback = rollback_block("004", "003")
    result = live(named("002") + named("003"), rollback, rollback, rollback_block("006", "005"))
    assert contents(result) == ["002"]
    assert result.skipped == skipped(rolled_back=1)


def test_rollback_is_obeyed_whatever_its_own_instant() -> None:
    result = live(named("002"), rollback_block("009", "002"), latest="005", pending=("009",))
    assert contents(result) == []


def test_change_data_never_counts() -> None:
    changes = log_block(BlockType.CDC_DATA, b"changes", {HeaderKey.INSTANT_TIME: "002"})
    assert contents(live(changes + named("002"))) == ["002"]


def test_log_compaction_stands_at_the_place_of_its_newest_original() -> None:
    result = live(named("001") + named("002"), named("003"), named("004", "1+2", ("001", "002")), named("005"))
    assert contents(result) == ["1+2", "003", "005"]
    assert result.skipped == skipped(compacted=2)


def test_all_blocks_of_a_log_compaction_take_the_place() -> None:
    compaction = named("003", "rows", ("001", "002")) + delete_block("003", b"deletes")
    assert contents(live(named("001"), named("002"), compaction, named("004"))) == ["rows", "deletes", "004"]


def test_compaction_of_a_compaction() -> None:
    result = live(
        named("001"),
        named("002"),
        named("003", "1+2", ("001", "002")),
        named("004"),
        named("005", "1+2+4", ("003", "004")),
        named("006"),
    )
    assert contents(result) == ["1+2+4", "006"]
    assert result.skipped == skipped(compacted=4)


def test_log_compaction_without_its_originals_does_not_count() -> None:
    files = (named("003", "1+2", ("001", "002")), named("004"), named("006", "4+5", ("004", "005")))
    assert contents(live(*files)) == ["4+5"]


def test_the_default_scan_before_12_has_the_originals_and_the_log_compaction_in_their_order() -> None:
    result = live(
        named("001") + named("002"), named("003"), named("004", "1+2", ("001", "002")), replaces_compacted=False
    )
    assert contents(result) == ["001", "002", "003", "1+2"]
    assert result.skipped == skipped()


def test_log_compaction_after_the_query_leaves_the_originals() -> None:
    result = live(named("001"), named("002"), named("003", "1+2", ("001", "002")), latest="002")
    assert contents(result) == ["001", "002"]


def test_rolled_back_log_compaction_leaves_the_originals() -> None:
    result = live(named("001"), named("002", "1", ("001",)), rollback_block("003", "002"))
    assert contents(result) == ["001"]


def test_block_without_an_instant() -> None:
    with pytest.raises(CorruptLogFileError, match="INSTANT_TIME"):
        live(log_block(BlockType.AVRO_DATA, b"rows"))


def test_rollback_without_a_target() -> None:
    with pytest.raises(CorruptLogFileError, match="TARGET_INSTANT_TIME"):
        live(log_block(BlockType.COMMAND, b"", {HeaderKey.COMMAND_BLOCK_TYPE: "0"}))


@pytest.mark.parametrize("command", [rollback_block("002", "001", command="1"), log_block(BlockType.COMMAND)])
def test_other_commands_are_refused(command: bytes) -> None:
    with pytest.raises(UnsupportedTableError, match="command block"):
        live(command)
