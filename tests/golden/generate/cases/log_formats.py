"""C: blocks of log files, written, left behind, rolled back, and damaged by hand."""

import json
import struct
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import accumulate
from pathlib import Path

from tests.golden.generate.log_blocks import MAGIC
from tests.golden.generate.options import BLOCK_FORMAT, PAYLOAD
from tests.golden.generate.registry import case
from tests.golden.generate.writer import Writer, key_number, with_columns

Blocks = list[bytes]
"""The bytes of the log files of a slice, from the oldest; each holds one block."""


def write_base(w: Writer, rows: int = 40, version: int | None = None, *, metadata: bool = True) -> None:
    w.use_table_version(version)
    if not metadata:
        w.without_metadata_table()
    w.upsert(range(rows), 1, "base", "bulk_insert")


@case("c_parquet_blocks_120", "1.2.0", "Parquet data blocks in logs", block_format="parquet")
@case("c_parquet_blocks_0150", "0.15.0", "Parquet data blocks in logs", block_format="parquet")
@case("c_hfile_blocks_0150", "0.15.0", "HFile data blocks in logs", block_format="hfile")
@case("c_hfile_blocks_120", "1.2.0", "HFile data blocks in logs", block_format="hfile")
@case("c_avro_blocks_120", "1.2.0", "Avro data blocks asked for explicitly", block_format="avro")
def c_blocks(w: Writer, *, block_format: str) -> None:
    w.options[BLOCK_FORMAT] = block_format
    write_base(w)
    w.upsert(range(0, 40, 2), 2, "u1")
    w.upsert(range(0, 40, 5), 3, "d", "delete")
    w.upsert(range(0, 40, 3), 4, "u2")


@case("c_many_blocks_0150", "0.15.0", "several data blocks per log file (tiny max block size)")
@case("c_many_blocks_120", "1.2.0", "several data blocks per log file (tiny max block size)")
def c_many_blocks(w: Writer) -> None:
    w.options |= {BLOCK_FORMAT: "avro", "hoodie.logfile.data.block.max.size": 600}
    write_base(w, rows=300)
    w.upsert(range(0, 300, 2), 2, "u1")
    w.upsert(range(0, 300, 3), 3, "u2")
    w.upsert(range(0, 300, 7), 4, "d", "delete")


@case("c_data_and_delete_block_0122", "0.12.2", "data and old-format (version 2) delete block in one log file")
@case("c_data_and_delete_block_0150", "0.15.0", "data block and delete block in one log file (_hoodie_is_deleted)")
@case("c_data_and_delete_block_111", "1.1.1", "data block and delete block in one log file (_hoodie_is_deleted)")
def c_data_and_delete(w: Writer) -> None:
    def write(operation: str, every: int, ts: int, tag: str, deleted: str) -> None:
        w.write(with_columns(w.rows(range(0, 60, every), ts, tag), {"_hoodie_is_deleted": deleted}), operation)

    write("bulk_insert", 1, 1, "base", "false")
    write("upsert", 2, 2, "u1", f"{key_number()} % 3 = 0")
    write("upsert", 3, 3, "u2", f"{key_number()} % 5 = 0")


@case("c_rollback_block_0150", "0.15.0", "rollback command block in a log (rolled-back completed deltacommit)")
@case("c_rollback_block_v6_by120", "1.2.0", "rollback in table version 6 by 1.2.0", version=6)
@case("c_rollback_120", "1.2.0", "rollback in table version 9 (log files removed)")
def c_rollback(w: Writer, *, version: int | None = None) -> None:
    write_base(w, version=version)
    w.upsert(range(0, 40, 2), 2, "keep")
    w.upsert(range(0, 40, 3), 9, "ROLLEDBACK")
    w.roll_back(w.last())
    w.upsert(range(0, 40, 5), 3, "after")
    w.upsert(range(1, 40, 6), 10, "ROLLEDBACK2", "delete")
    w.roll_back(w.last())


@case(
    "c_inflight_leftover_0150", "0.15.0", "log blocks of a deltacommit that never completed (completed instant removed)"
)
@case("c_inflight_leftover_120", "1.2.0", "log files of a deltacommit that never completed (completed instant removed)")
@case("c_inflight_leftover_0150_nomdt", "0.15.0", "uncommitted log blocks, no metadata table", metadata=False)
@case("c_inflight_middle_120", "1.2.0", "an uncommitted deltacommit between two committed ones", middle=True)
@case("c_inflight_middle_0150", "0.15.0", "an uncommitted deltacommit between two committed ones", middle=True)
@case("c_requested_only_120", "1.2.0", "only .requested left of the last deltacommit", requested_only=True)
def c_inflight(w: Writer, *, middle: bool = False, requested_only: bool = False, metadata: bool = True) -> None:
    w.options[PAYLOAD] = None
    write_base(w, metadata=metadata)
    w.upsert(range(0, 40, 2), 2, "keep")
    w.upsert([*range(0, 40, 3), *range(40, 46)], 9, "UNCOMMITTED")
    lost = w.last()
    if middle:
        w.upsert(range(0, 40, 4), 3, "later")
    completed = w.completed_file(lost)
    completed.unlink()
    if requested_only:
        (inflight,) = completed.parent.glob(f"{lost}*.inflight")
        inflight.unlink()
    w.notes.append(f"completed file of instant {lost} was removed after writing; its log/base files are still there")


def _truncated_middle(blocks: Blocks) -> Blocks:
    first, second, *rest = blocks
    return [first, second[: len(second) * 2 // 3], *rest]


def _truncated_tail(blocks: Blocks) -> Blocks:
    return [*blocks[:-1], blocks[-1][:-25]]


def _garbage_tail(blocks: Blocks) -> Blocks:
    return [*blocks, b"\x00\x01garbage without magic" * 3]


def _size_beyond_the_end(blocks: Blocks) -> Blocks:
    first, second, *rest = blocks
    return [first, MAGIC + struct.pack(">q", 1 << 40) + second[14:60], second, *rest]


DAMAGES: dict[str, Callable[[Blocks], Blocks]] = {
    "none": lambda blocks: blocks,
    "truncated middle": _truncated_middle,
    "truncated tail": _truncated_tail,
    "garbage tail": _garbage_tail,
    "size beyond the end": _size_beyond_the_end,
}


@case("c_appended_log_0150", "0.15.0", "several commits' blocks appended in one log file (as on HDFS)", damage="none")
@case(
    "c_corrupt_middle_0150",
    "0.15.0",
    "corrupt (truncated) block between two valid blocks in one log file",
    damage="truncated middle",
)
@case("c_corrupt_tail_0150", "0.15.0", "last block of a log file truncated", damage="truncated tail")
@case("c_corrupt_garbage_0150", "0.15.0", "garbage bytes appended after the last valid block", damage="garbage tail")
@case(
    "c_corrupt_size_0150",
    "0.15.0",
    "block whose length field points beyond EOF, then valid block",
    damage="size beyond the end",
)
@case(
    "c_corrupt_tail_120", "1.2.0", "table version 6 by 1.2.0: last block truncated", damage="truncated tail", version=6
)
def c_corrupt(w: Writer, *, damage: str, version: int | None = None) -> None:
    """The logs of each slice become one file, as on a file system that can append, and are damaged then."""
    write_base(w, version=version, metadata=False)
    for step, tag in enumerate(["u1", "u2", "u3"]):
        w.upsert(range(step, 40, 2 + step), 2 + step, tag)
    logs_of: dict[tuple[Path, str], list[Path]] = defaultdict(list)
    for path in w.logs():
        logs_of[path.parent, path.name.partition("_")[0]].append(path)
    appended: dict[str, tuple[str, int]] = {}
    for logs in logs_of.values():
        logs.sort(key=lambda path: int(path.name.split(".log.")[1].partition("_")[0]))
        sizes = [0, *accumulate(path.stat().st_size for path in logs)]
        appended |= {path.name: (logs[0].name, offset) for path, offset in zip(logs, sizes, strict=False)}
        blocks = DAMAGES[damage]([path.read_bytes() for path in logs])
        logs[0].write_bytes(b"".join(blocks))
        _checksum(logs[0]).unlink(missing_ok=True)
        for path in logs[1:]:
            path.unlink()
            _checksum(path).unlink(missing_ok=True)
    _name_appended(w, appended)
    # A range begins in the middle of a file then, which 1.2 is not asked about.
    w.questions.incremental = w.release < (1, 0)
    w.notes.append(f"the logs of each slice were concatenated into the first one after writing; damage: {damage}")


def _name_appended(w: Writer, appended: Mapping[str, tuple[str, int]]) -> None:
    """Commits name the file that each of their log files was appended to, and its offset there."""
    for instant in w.instants():
        path = w.completed_file(instant.requested)
        commit = json.loads(path.read_text())
        for stat in (stat for stats in commit["partitionToWriteStats"].values() for stat in stats):
            folder, _, name = stat["path"].rpartition("/")
            if name in appended:
                log, offset = appended[name]
                size = offset + stat["fileSizeInBytes"]
                stat |= {"path": f"{folder}/{log}" if folder else log, "logVersion": 1, "logOffset": offset}
                stat |= {"fileSizeInBytes": size, "logFiles": [log]}
        path.write_text(json.dumps(commit, indent=2))
        _checksum(path).unlink(missing_ok=True)


@case("c_corrupt_block_120", "1.2.0", "version 9: junk block in front of the valid block of a log file")
def c_corrupt_block(w: Writer) -> None:
    write_base(w, metadata=False)
    w.upsert(range(0, 40, 2), 2, "u1")
    w.upsert(range(0, 40, 3), 3, "u2")
    for path in w.logs():
        block = path.read_bytes()
        path.write_bytes(block[: len(block) // 2] + block)
        _checksum(path).unlink(missing_ok=True)
    w.notes.append("first half of each log file is repeated in front of it (a torn write followed by a successful one)")


def _checksum(path: Path) -> Path:
    """The file by which Hadoop would notice that another one was changed."""
    return path.with_name(f".{path.name}.crc")
