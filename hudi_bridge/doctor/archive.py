"""Checks of the archived timeline: it can be read, and what names its files agrees with them."""

import re
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.doctor.examined import Examined
from hudi_bridge.doctor.findings import Finding, Severity, listed, quoted
from hudi_bridge.errors import HudiReadError
from hudi_bridge.logformat.parquet import PARQUET_ERRORS
from hudi_bridge.storage import FileInfo
from hudi_bridge.timeline.records import number_field, parse_record, records_field, text_field

_CHECK = "archived-timeline"
_MANIFEST = re.compile(r"manifest_([0-9]{1,9})")
_DATA_FILE = re.compile(r"([0-9]+)_([0-9]+)_[0-9]\.parquet")
_REMEDY = "restore the file from a backup; without it, time travel and incremental reads lack completion times"


def archived_timeline(examined: Examined) -> Iterator[Finding]:
    """All of the archived timeline can be read, and agrees with the active one."""
    folder = examined.config.archived_path
    listing = {info.name: info for info in examined.storage.list_directory(folder) if not info.is_dir}
    if examined.config.timeline_layout > 1 and listing:
        yield from _manifest(examined, folder, listing)
    archived = {(one.requested_time, one.action): one for one in examined.archived}
    for instant in examined.timeline.completed():
        other = archived.get((instant.requested_time, instant.action))
        if (
            other is not None
            and None not in (times := {instant.completion_time, other.completion_time})
            and len(times) > 1
        ):
            yield Finding(
                severity=Severity.WARNING,
                check=_CHECK,
                path=examined.timeline_path(instant),
                found=f"the completion at {instant.completion_time}, but at {other.completion_time} in the archive",
                expected="the same time in both",
                remedy="find out which write is meant; the active timeline counts",
            )


def _manifest(examined: Examined, folder: str, listing: Mapping[str, FileInfo]) -> Iterator[Finding]:
    manifests = [name for name in listing if _MANIFEST.fullmatch(name)]
    if not manifests:
        if parts := [name for name in listing if _DATA_FILE.fullmatch(name)]:
            yield Finding(
                severity=Severity.ERROR,
                check=_CHECK,
                path=folder,
                found=f"files of archived instants ({listed(parts)}) without a manifest",
                expected="manifest_<number> and _version_",
                remedy=_REMEDY,
            )
        return
    if "_version_" not in listing:
        yield Finding(
            severity=Severity.WARNING,
            check=_CHECK,
            path=f"{folder}/_version_",
            found="no such file, although there is a manifest",
            expected="the number of the newest manifest",
            remedy="CALL archive_commits(table => …), which writes it again",
        )
        version = max(manifests, key=lambda name: int(name.partition("_")[2]))
    else:
        version = "manifest_" + examined.storage.read_bytes(f"{folder}/_version_").decode("ascii", "replace").strip()
    if version not in listing:
        yield Finding(
            severity=Severity.ERROR,
            check=_CHECK,
            path=f"{folder}/_version_",
            found=f"the manifest {quoted(version)}, which is not there",
            expected=f"one of {listed(manifests)}",
            remedy=_REMEDY,
        )
        return
    path = f"{folder}/{version}"
    record = parse_record(examined.storage.read_bytes(path), path)
    for entry in records_field(record, "files", path):
        name, length = text_field(entry, "fileName", path), number_field(entry, "fileLen", path)
        info = listing.get(name)
        if info is None or (length and info.size_bytes != length):
            yield Finding(
                severity=Severity.ERROR,
                check=_CHECK,
                path=f"{folder}/{name}" if info else path,
                found="no such file" if info is None else f"{info.size_bytes} bytes",
                expected=f"{quoted(name)}, of {length} bytes, as the manifest says",
                remedy=_REMEDY,
            )
        elif match := _DATA_FILE.fullmatch(name):
            yield from _range(examined, info, match[1], match[2])


def _range(examined: Examined, info: FileInfo, first: str, last: str) -> Iterator[Finding]:
    """The instants in a file lie in the range of its name, by which it is found."""
    try:
        content = pa.BufferReader(examined.storage.read_buffer(info.path))
        times = pq.read_table(content, columns=["instantTime"]).column(0).to_pylist()
    except (HudiReadError, *PARQUET_ERRORS):
        # Reading all of the archive says what is wrong.
        return
    outside = [time for time in times if time is not None and not first <= time <= last]
    if outside:
        yield Finding(
            severity=Severity.ERROR,
            check=_CHECK,
            path=info.path,
            found=f"the instants {listed(outside)}",
            expected=f"instants from {first} to {last}, as its name says",
            remedy="readers look for these instants in vain; restore the file from a backup",
        )
