"""Which file slices a query sees, from names and a timeline alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.splits.file_slice import FileGroup, FileSlice
from hudi_bridge.splits.file_system_view import (
    TimelineView,
    build_file_groups,
    latest_read_optimized_slice,
    latest_snapshot_slice,
)
from hudi_bridge.storage.storage import FileInfo

GROUP = ("p", "f")


def facts(
    query: str,
    completed: Mapping[str, str] | Sequence[str],
    *,
    layout: int = 2,
    compaction: str | None = None,
    replaced: str | None = None,
    start: str = "000",
) -> TimelineView:
    """A timeline whose instants have completed, in layout 2 at the times given."""
    times = dict(completed) if isinstance(completed, Mapping) else {instant: instant + "5" for instant in completed}
    return TimelineView(
        logs_name_their_own_instant=layout == 2,
        query_instant=query,
        is_committed=lambda instant: instant in times or instant < start,
        completion_time_of=times.get if layout == 2 else lambda _: None,
        pending_compactions={GROUP: compaction} if compaction else {},
        replaced={GROUP: replaced} if replaced else {},
    )


def group_of(timeline: TimelineView, *names: str) -> FileGroup:
    files = [FileInfo(path=f"p/{name}", size_bytes=10, is_dir=False) for name in names]
    (group,) = build_file_groups("p", files, timeline)
    assert (group.partition_path, group.file_id) == GROUP
    return group


def base(instant: str) -> str:
    return f"f_0-1-1_{instant}.parquet"


def log(instant: str, version: int = 1) -> str:
    return f".f_{instant}.log.{version}_0-1-1"


def shape(piece: FileSlice | None) -> tuple[str | None, tuple[str, ...]] | None:
    """(instant of the base file, instant and version of each log file), None without a slice."""
    if piece is None:
        return None
    logs = tuple(f"{log_file.name.instant_time}.{log_file.name.version}" for log_file in piece.log_files)
    return (piece.base_file.instant_time if piece.base_file else None), logs


def test_other_files_are_passed_over() -> None:
    names = [".hoodie_partition_metadata", "notes.txt", ".f_001.log.1_0-1-1.crc", ".f_001.log.1_0-1-1.cdc"]
    files = [FileInfo(path=f"p/{name}", size_bytes=1, is_dir=False) for name in names]
    files.append(FileInfo(path="p/f_0-1-1_001.parquet", size_bytes=1, is_dir=True))
    assert build_file_groups("p", files, facts("001", ["001"])) == ()


def test_base_files_of_other_formats_are_refused() -> None:
    with pytest.raises(UnsupportedTableError, match=r"p/f_0-1-1_001\.orc"):
        group_of(facts("001", ["001"]), "f_0-1-1_001.orc")


def test_native_log_files_are_refused() -> None:
    with pytest.raises(UnsupportedTableError, match="native log file"):
        group_of(facts("001", ["001"]), "f-0_0-1-1_001_1.log.parquet")


def test_groups_and_slices_are_in_order() -> None:
    timeline = facts("009", ["001", "002"])
    files = [
        FileInfo(path=f"p/{name}_0-1-1_{at}.parquet", size_bytes=1, is_dir=False)
        for name in "ba"
        for at in ("002", "001")
    ]
    groups = build_file_groups("p", files, timeline)
    assert [group.file_id for group in groups] == ["a", "b"]
    assert [part.base_instant_time for part in groups[0].slices] == ["001", "002"]


class TestLayout1:
    """Log files carry the base instant of their slice."""

    def test_logs_join_the_base_file_they_name_by_version(self) -> None:
        timeline = facts("009", ["001", "004"], layout=1)
        group = group_of(timeline, base("001"), log("001", 10), log("001", 9), base("004"), log("004"))
        assert [shape(part) for part in group.slices] == [("001", ("001.9", "001.10")), ("004", ("004.1",))]
        assert shape(latest_snapshot_slice(group, timeline)) == ("004", ("004.1",))

    def test_a_pending_compaction_is_merged_with_the_slice_before(self) -> None:
        timeline = facts("009", ["001", "005"], layout=1, compaction="004")
        names = [base("001"), log("001"), log("001", 2)]
        assert shape(latest_snapshot_slice(group_of(timeline, *names), timeline)) == ("001", ("001.1", "001.2"))
        group = group_of(timeline, *names, log("004"))
        assert shape(latest_snapshot_slice(group, timeline)) == ("001", ("001.1", "001.2", "004.1"))
        assert shape(latest_read_optimized_slice(group, timeline)) == ("001", ("001.1", "001.2", "004.1"))

    def test_the_base_file_of_a_pending_compaction_does_not_count(self) -> None:
        timeline = facts("009", ["001", "005"], layout=1, compaction="004")
        group = group_of(timeline, base("001"), log("001"), base("004"), log("004"))
        assert shape(latest_snapshot_slice(group, timeline)) == ("001", ("001.1", "004.1"))
        assert shape(latest_read_optimized_slice(group, timeline)) == ("001", ("001.1", "004.1"))

    def test_logs_that_a_downgrade_left_with_their_own_instants_join_the_newest_slice_before_them(self) -> None:
        timeline = facts("009", ["001", "002", "004", "006"], layout=1)
        group = group_of(timeline, base("001"), log("002"), log("004"), base("006"), log("006"))
        assert [shape(part) for part in group.slices] == [("001", ("002.1", "004.1")), ("006", ("006.1",))]

    def test_so_they_do_beside_a_pending_compaction(self) -> None:
        timeline = facts("009", ["001", "002", "005"], layout=1, compaction="003")
        group = group_of(timeline, base("001"), log("002"), log("005"))
        assert [shape(part) for part in group.slices] == [("001", ("002.1",)), (None, ("005.1",))]
        assert shape(latest_snapshot_slice(group, timeline)) == ("001", ("002.1", "005.1"))

    def test_so_they_do_in_a_group_of_logs_alone(self) -> None:
        timeline = facts("009", ["001", "002", "005"], layout=1, compaction="003")
        group = group_of(timeline, log("001"), log("002"), log("005"))
        assert [shape(part) for part in group.slices] == [(None, ("001.1", "002.1")), (None, ("005.1",))]
        assert shape(latest_snapshot_slice(group, timeline)) == (None, ("001.1", "002.1", "005.1"))

    def test_they_join_no_slice_of_a_write_that_has_not_completed(self) -> None:
        timeline = facts("009", ["001", "004"], layout=1)
        group = group_of(timeline, base("001"), base("002"), log("004"))
        assert shape(latest_snapshot_slice(group, timeline)) == ("001", ("004.1",))
        group = group_of(timeline, log("002"), log("004"))
        assert shape(latest_snapshot_slice(group, timeline)) == (None, ("004.1",))

    def test_a_group_of_logs_alone(self) -> None:
        timeline = facts("009", ["001"], layout=1)
        group = group_of(timeline, log("001"), log("001", 2))
        assert shape(latest_snapshot_slice(group, timeline)) == (None, ("001.1", "001.2"))
        assert latest_read_optimized_slice(group, timeline) is None


class TestLayout2:
    """Log files carry the instant of the delta commit that wrote them."""

    def test_logs_join_the_newest_slice_at_their_completion(self) -> None:
        timeline = facts("009", {"001": "0015", "002": "0025", "004": "0055", "006": "0065"})
        group = group_of(timeline, base("001"), base("004"), log("002"), log("006"))
        assert [shape(part) for part in group.slices] == [("001", ("002.1",)), ("004", ("006.1",))]

    def test_a_delta_that_completed_after_a_compaction_was_requested_is_not_part_of_it(self) -> None:
        timeline = facts("009", {"001": "0015", "003": "0045", "004": "0075"})
        group = group_of(timeline, base("001"), log("003"), base("004"))
        assert shape(latest_snapshot_slice(group, timeline)) == ("004", ("003.1",))

    def test_so_it_is_while_the_compaction_is_pending(self) -> None:
        timeline = facts("003", {"001": "0015", "002": "0025", "003": "0045"}, compaction="004")
        group = group_of(timeline, base("001"), log("002"), log("003"))
        assert shape(latest_snapshot_slice(group, timeline)) == ("001", ("002.1", "003.1"))

    def test_beside_a_pending_compaction_logs_are_in_the_order_of_their_requests(self) -> None:
        # The write 002 was requested first, and completed last.
        timeline = facts("009", {"001": "0015", "002": "0085", "003": "0035"}, compaction="004")
        group = group_of(timeline, base("001"), log("002"), log("003"))
        assert [shape(part) for part in group.slices] == [("001", ("003.1",)), (None, ("002.1",))]
        assert shape(latest_snapshot_slice(group, timeline)) == ("001", ("002.1", "003.1"))

    def test_logs_that_an_upgrade_left_to_a_pending_compaction_do_not_count_and_this_is_said_once(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        timeline = facts("009", ["001", "002", "005"], compaction="004")
        for _ in range(2):
            group = group_of(timeline, base("001"), log("002"), log("003"), log("004"), log("005"))
        assert shape(latest_snapshot_slice(group, timeline)) == ("001", ("002.1", "005.1"))
        (warning,) = caplog.messages
        assert warning.startswith("p/.f_004.log.1_0-1-1 is not read: it is named after the pending compaction 004")

    def test_logs_of_writes_that_have_not_completed_do_not_count(self) -> None:
        timeline = facts("009", ["001", "003"])
        group = group_of(timeline, base("001"), log("002"), log("003"))
        assert shape(latest_snapshot_slice(group, timeline)) == ("001", ("003.1",))

    def test_base_files_of_writes_that_have_not_completed_do_not_count(self) -> None:
        timeline = facts("009", ["001", "003"])
        group = group_of(timeline, base("001"), base("002"), log("003"))
        assert shape(latest_snapshot_slice(group, timeline)) == ("001", ("003.1",))
        assert shape(latest_read_optimized_slice(group, timeline)) == ("001", ("003.1",))
        assert latest_snapshot_slice(group_of(timeline, base("002")), timeline) is None

    def test_a_group_of_logs_alone_keeps_them_in_one_slice(self) -> None:
        timeline = facts("009", ["001", "002", "003"])
        group = group_of(timeline, log("002"), log("001"), log("003"))
        assert shape(latest_snapshot_slice(group, timeline)) == (None, ("001.1", "002.1", "003.1"))
        assert latest_read_optimized_slice(group, timeline) is None

    def test_a_group_of_logs_alone_under_a_pending_compaction(self) -> None:
        timeline = facts("009", ["001", "002", "005"], compaction="004")
        group = group_of(timeline, log("001"), log("002"), log("005"))
        assert shape(latest_snapshot_slice(group, timeline)) == (None, ("001.1", "002.1", "005.1"))

    def test_logs_from_before_the_first_base_file_that_is_left(self) -> None:
        timeline = facts("009", ["001", "002", "004"])
        group = group_of(timeline, log("001"), log("002"), base("004"))
        assert shape(latest_snapshot_slice(group, timeline)) == ("004", ())
        as_of = replace(timeline, query_instant="003")
        assert shape(latest_snapshot_slice(group, as_of)) == (None, ("001.1", "002.1"))

    def test_as_of_an_instant_later_slices_and_logs_are_left_out(self) -> None:
        timeline = facts("009", ["001", "002", "003", "005", "006"])
        group = group_of(timeline, base("001"), log("002"), log("003"), base("005"), log("006"))
        actual = {
            query: shape(latest_snapshot_slice(group, replace(timeline, query_instant=query)))
            for query in ("000", "001", "002", "004", "005", "006")
        }
        assert actual == {
            "000": None,
            "001": ("001", ()),
            "002": ("001", ("002.1",)),
            "004": ("001", ("002.1", "003.1")),
            "005": ("005", ()),
            "006": ("005", ("006.1",)),
        }

    def test_archived_instants_count(self) -> None:
        timeline = facts("009", ["007"], start="007")
        group = group_of(timeline, base("001"), log("002"))
        assert shape(latest_snapshot_slice(group, timeline)) == ("001", ("002.1",))

    def test_the_completion_time_is_asked_for_only_where_it_decides(self) -> None:
        asked = []

        def completion_time_of(instant: str) -> str:
            asked.append(instant)
            return instant + "5"

        timeline = replace(facts("009", ["001", "002", "004", "006"]), completion_time_of=completion_time_of)
        group_of(timeline, base("001"), log("002"), base("004"), log("006"))
        assert asked == ["002"]

    def test_read_optimized_reports_the_logs_that_it_leaves_out(self) -> None:
        timeline = facts("005", ["001", "002", "004", "005"], compaction="003")
        group = group_of(timeline, base("001"), log("002"), log("004"), log("005"))
        assert shape(latest_read_optimized_slice(group, timeline)) == ("001", ("002.1", "004.1", "005.1"))


@pytest.mark.parametrize("layout", [1, 2])
def test_a_replaced_group_is_gone_from_that_instant_on(layout: int) -> None:
    timeline = facts("004", ["001", "004"], layout=layout, replaced="004")
    group = group_of(timeline, base("001"))
    assert latest_snapshot_slice(group, timeline) is None
    assert latest_read_optimized_slice(group, timeline) is None
    before = replace(timeline, query_instant="003")
    assert shape(latest_snapshot_slice(group, before)) == ("001", ())


def test_sizes_are_summed() -> None:
    timeline = facts("009", ["001", "002", "003"])
    part = latest_snapshot_slice(group_of(timeline, base("001"), log("002"), log("003")), timeline)
    assert part is not None
    assert (part.base_size_bytes, part.log_size_bytes) == (10, 20)
    logs_only = latest_snapshot_slice(group_of(timeline, log("002")), timeline)
    assert logs_only is not None
    assert (logs_only.base_size_bytes, logs_only.log_size_bytes) == (0, 10)
