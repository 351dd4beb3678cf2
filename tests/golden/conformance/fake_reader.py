"""A reader that behaves as an option says, for the tests of the suite."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

READER = "fake 1.0"


class PanicError(BaseException):
    """What a panic of a reader in Rust is in Python: no Exception."""


def read(table: str, kind: str, options: Mapping[str, Any]) -> pa.Table:
    rows = pq.read_table(Path(table).with_name("expected") / f"{kind}.parquet")
    match options["do"]:
        case "print":
            print("what a reader prints is no reply")
        case "lose a row":
            return rows.slice(1)
        case "refuse":
            raise ValueError(f"{table}: no merge-on-read\nsecond line")
        case "lack":
            raise NotImplementedError("no snapshots")
        case "panic":
            raise PanicError("index out of bounds")
        case "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "hang":
            time.sleep(1000)
        case "take memory":
            bytearray(4 << 30)
    return rows
