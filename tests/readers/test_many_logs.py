"""The work for the sizes of a slice's log files, which must not grow with their number for each of them."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudi_bridge.engines.log_blocks import iter_log_blocks
from hudi_bridge.indexes.footer_index import read_log_keys
from hudi_bridge.readers.fetch_ahead import FilesOfSlice
from hudi_bridge.readers.log_scan import read_live_blocks
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage
from hudi_bridge.tools.trace.key_search import scan_logs
from tests.support.slice_reads import slice_read
from tests.support.table_writer import TableWriter, at


class Sizes(tuple[int, ...]):
    """The sizes of log files, counting how often they are gone through from the first on."""

    __slots__ = ()
    walks = 0

    def __iter__(self) -> Iterator[int]:
        type(self).walks += 1
        return super().__iter__()


def fetch_ahead(storage: Storage, split: RealtimeFileSplit) -> None:
    for _, fetch in FilesOfSlice(slice_read(storage, split)).to_fetch(nullcontext):
        fetch()


def log_blocks(storage: Storage, split: RealtimeFileSplit) -> None:
    assert list(iter_log_blocks(storage, split))


@pytest.mark.parametrize("read", [read_live_blocks, fetch_ahead, read_log_keys, scan_logs, log_blocks])
def test_sizes_of_logs_are_not_gone_through_for_each_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Storage, RealtimeFileSplit], Any]
) -> None:
    walks = []
    for logs in (2, 9):
        writer = TableWriter(folder=tmp_path / str(logs)).create()
        for number in range(1, logs + 1):
            row = {"id": f"k{number}", "ts": number, "value": "v"}
            writer.log_file(at(number), [writer.data_block(at(number), [row])])
            writer.commit(at(number))
        (split,) = (item for planned in writer.open().snapshot().splits() for item in planned.slices)
        assert len(split.log_sizes) == logs
        monkeypatch.setattr(Sizes, "walks", 0)
        read(split.context.open_storage(), replace(split, log_sizes=Sizes(split.log_sizes)))
        walks.append(Sizes.walks)
    assert walks[0] == walks[1] > 0


def test_a_split_without_the_sizes_of_its_logs_has_paths_alone(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    path = writer.log_file(at(1), [writer.data_block(at(1), [])])
    writer.commit(at(1))
    (split,) = (item for planned in writer.open().snapshot().splits() for item in planned.slices)
    assert split.log_files == ((path.name, path.stat().st_size),)
    assert replace(split, log_sizes=()).log_files == ((path.name, None),)
