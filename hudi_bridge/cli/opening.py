"""Tables as commands open them: with what they do not say of their merging themselves."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from hudi_bridge.cli.grid import Look
from hudi_bridge.cli.terminal import print_note
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import parse_query_instant


def open_table(path: str, option: list[str] | None, payload: list[str] | None) -> HudiTable:
    """The table in a folder, opened with the values of ``--option`` and ``--payload``.

    Raises:
        QueryError: a value is not what it should be.
        HudiReadError: the table cannot be opened.
    """
    return HudiTable.open(path, options=parse_options(option), payloads=load_payloads(payload))


def note_empty_past(table: HudiTable, as_of: str | None) -> None:
    """Say so where nothing is read because the instant lies before the first commit: Hudi reads that as an empty table.

    Raises:
        QueryError: the instant is none.
    """
    commits = table.timeline.commits()
    if as_of is None or not commits:
        return
    first = commits[0].requested_time
    # Files may be older than the active timeline.
    if parse_query_instant(as_of, table.config.timeline_timezone) < first and not table.file_slices(as_of):
        print_note(f"as of {as_of} there is nothing yet: the first commit on the timeline is {first}")


def rows_look(table: HudiTable) -> Look:
    """How rows of a table are shown: with the columns that make up its record keys and partitions."""
    keys = table.config.record_key_fields
    if not keys or any("." in key for key in keys):
        keys = ("_hoodie_record_key",)
    return Look(keep=(*keys, *table.config.partition_fields))


def parse_options(texts: list[str] | None) -> dict[str, str]:
    """The options of texts like ``hoodie.payload.delete.field=op``.

    Raises:
        QueryError: a text is no such thing.
    """
    found = {}
    for text in texts or ():
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise QueryError("--option", repr(text), "NAME=VALUE, such as hoodie.payload.delete.field=op")
        found[name] = value
    return found


def load_payloads(texts: list[str] | None) -> dict[str, RecordPayload]:
    """The payloads of texts like ``com.acme.Counter=payloads.py:Counter``, by their Java classes.

    Raises:
        QueryError: a text is no such thing, or the file does not hold the class.
    """
    found = {}
    for text in texts or ():
        java_class, sign, place = text.partition("=")
        path, _, name = place.rpartition(":")
        if not (java_class and sign and path and name):
            raise QueryError("--payload", repr(text), "CLASS=FILE:NAME, such as com.acme.Counter=payloads.py:Counter")
        kind = _class_in(Path(path), name)
        if not (isinstance(kind, type) and issubclass(kind, RecordPayload)):
            raise QueryError("--payload", f"{name} in {path}", "a class that derives from RecordPayload")
        found[java_class] = kind()
    return found


def _class_in(path: Path, name: str) -> object:
    spec = spec_from_file_location(f"hudi_bridge_payloads_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise QueryError("--payload", str(path), "a Python file")
    module = module_from_spec(spec)
    # The text of a class is found through the module that it says it is from.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name, None)
