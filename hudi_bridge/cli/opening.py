"""Opens tables for commands, with the values of ``--option``, ``--payload`` and ``--storage-option``."""

import sys
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

from hudi_bridge.cli.grid import Look
from hudi_bridge.cli.options import path_of
from hudi_bridge.cli.terminal import print_note
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.options import COMPLETION_TIMES_KEY, OnFilesGone
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import parse_query_instant

if TYPE_CHECKING:
    from hudi_bridge.dataset import HudiDataset


def open_table(
    path: str,
    option: list[str] | None = None,
    payload: list[str] | None = None,
    storage_option: list[str] | None = None,
    *,
    completion_times: bool = False,
) -> HudiTable:
    """The table in a folder, opened with the values of ``--option``, ``--payload`` and ``--storage-option``.

    Rows have the ``completion_times`` of their commits if asked.

    Raises:
        QueryError: a value is invalid.
        HudiReadError: the table cannot be opened.
    """
    return HudiTable.open(
        path_of(path),
        options=parse_options(option) | ({COMPLETION_TIMES_KEY: "true"} if completion_times else {}),
        payloads=load_payloads(payload),
        storage_options=parse_storage_options(storage_option),
    )


def open_query(
    table: HudiTable,
    *,
    read_optimized: bool,
    as_of: str | None,
    after: str | None,
    up_to: str | None,
    on_files_gone: OnFilesGone = OnFilesGone.ERROR,
) -> "HudiDataset":
    """The rows that ``--read-optimized``, ``--as-of``, ``--after`` and ``--up-to`` ask for, by default the newest.

    Raises:
        QueryError: the options contradict each other, or one is no instant.
        HudiReadError: the rows cannot be planned.
    """
    if up_to is not None and after is None:
        raise QueryError("--up-to", repr(up_to), "--after as well, where the range begins")
    if after is not None and (read_optimized or as_of is not None):
        raise QueryError("--after", repr(after), "a range without --read-optimized and --as-of")
    require_newest(on_files_gone, {"--as-of": as_of, "--after": after})
    if after is not None:
        return table.incremental(after, up_to)
    read = table.read_optimized if read_optimized else table.query
    return read(as_of, on_files_gone=on_files_gone)


def require_newest(on_files_gone: OnFilesGone, instants: Mapping[str, str | None]) -> None:
    """Raises if the newest state is to be read in place of another, although one of the options names an instant.

    Raises:
        QueryError: both are given.
    """
    named = next((option for option, instant in instants.items() if instant is not None), None)
    if on_files_gone is OnFilesGone.REPLAN and named is not None:
        raise QueryError("--on-files-gone", on_files_gone, f"it without {named}, which says what to read")


def note_if_planned_again(dataset: "HudiDataset", instant: str) -> None:
    """Prints a note if the query had to be planned again, so that the rows are of a later instant."""
    if dataset.instant != instant:
        print_note(f"files were gone: read as of {dataset.instant} instead of {instant}")


def note_empty_past(table: HudiTable, as_of: str | None) -> None:
    """Prints a note if ``as_of`` is before the first commit, where Hudi reads an empty table.

    Raises:
        QueryError: ``as_of`` is not an instant.
    """
    commits = table.timeline.commits()
    if as_of is None or not commits:
        return
    first = commits[0].requested_time
    # File slices may be older than the active timeline.
    if parse_query_instant(as_of, table.config.timeline_timezone) < first and not table.file_slices(as_of):
        print_note(f"as of {as_of} there is nothing yet: the first commit on the timeline is {first}")


def rows_look(table: HudiTable) -> Look:
    """Keeps the columns of the record key and of the partition visible."""
    keys = table.config.record_key_fields
    if not keys or any("." in key for key in keys):
        keys = ("_hoodie_record_key",)
    return Look(keep=(*keys, *table.config.partition_fields))


def parse_options(texts: list[str] | None) -> dict[str, str]:
    """Parses options such as ``hoodie.payload.delete.field=op``.

    Raises:
        QueryError: a text has another form.
    """
    return dict(_parts("--option", text, "hoodie.payload.delete.field=op") for text in texts or ())


def parse_storage_options(texts: list[str] | None) -> dict[str, str]:
    """Parses options such as ``region=eu-west-1``.

    Raises:
        QueryError: a text has another form.
    """
    return dict(_parts("--storage-option", text, "region=eu-west-1") for text in texts or ())


def _parts(option: str, text: str, example: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise QueryError(option, repr(text), f"NAME=VALUE, such as {example}")
    return name, value


def load_payloads(texts: list[str] | None) -> dict[str, RecordPayload]:
    """Loads payloads such as ``com.acme.Counter=payloads.py:Counter``; returns them by Java class.

    Raises:
        QueryError: a text has another form, or the file does not hold the class.
    """
    payloads = {}
    for text in texts or ():
        java_class, sign, location = text.partition("=")
        path, _, name = location.rpartition(":")
        if not (java_class and sign and path and name):
            raise QueryError("--payload", repr(text), "CLASS=FILE:NAME, such as com.acme.Counter=payloads.py:Counter")
        kind = _class_in(Path(path), name)
        if not (isinstance(kind, type) and issubclass(kind, RecordPayload)):
            raise QueryError("--payload", f"{name} in {path}", "a class that derives from RecordPayload")
        payloads[java_class] = kind()
    return payloads


def _class_in(path: Path, name: str) -> object:
    spec = spec_from_file_location(f"hudi_bridge_payloads_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise QueryError("--payload", str(path), "a Python file")
    module = module_from_spec(spec)
    # ``inspect`` finds the source of a class through ``sys.modules``.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name, None)
