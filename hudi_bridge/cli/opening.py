"""Tables as commands open them: with what they do not say of their merging themselves."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from hudi_bridge.errors import QueryError
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.table import HudiTable


def open_table(path: str, option: list[str] | None, payload: list[str] | None) -> HudiTable:
    """The table in a folder, opened with the values of ``--option`` and ``--payload``.

    Raises:
        QueryError: a value is not what it should be.
        HudiReadError: the table cannot be opened.
    """
    return HudiTable.open(path, options=parse_options(option), payloads=load_payloads(payload))


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
