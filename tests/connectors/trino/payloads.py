"""Payload classes that are sent to Trino as text."""

import importlib.util
import sys
from pathlib import Path

from hudi_bridge.merge.custom_payload import RecordPayload


def payload_in(folder: Path, text: str, name: str = "Joined") -> RecordPayload:
    path = folder / "my_payloads.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"my_payloads_{abs(hash(text))}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    made: RecordPayload = getattr(module, name)()
    return made
