"""Reads small inputs that announce huge data, in a process with little memory, and prints the result of each.

``test_damaged_input`` runs it in a process of its own, so that an input that kills its reader fails one test only.
"""

import base64
import json
import resource
import struct
import sys
import zlib
from collections.abc import Callable

from hudi_bridge.errors import HudiReadError
from hudi_bridge.indexes.bloom_filter import DYNAMIC, SIMPLE, parse_bloom_filter
from hudi_bridge.logformat.avro_columns import decode_avro_block
from hudi_bridge.logformat.hfile import read_hfile
from hudi_bridge.logformat.kryo import decode_deletes
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.schema.avro import parse_avro_schema
from hudi_bridge.schema.internal import parse_internal_schema
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.timeline.records import parse_record
from tests.logformat.hfile_writer import hfile
from tests.logformat.log_writer import avro_content, avro_long, avro_text, log_block

MEMORY_BYTES = 3 << 30
SYNC = b"S" * 16
MANY = 1 << 40


def container(schema: object, count: int, datum: bytes, codec: bytes = b"null") -> bytes:
    metadata = avro_text("avro.schema") + avro_text(json.dumps(schema)) + avro_text("avro.codec") + avro_text(codec)
    return b"Obj\x01" + avro_long(2) + metadata + b"\0" + SYNC + avro_long(count) + avro_text(datum) + SYNC


def record(**fields: object) -> dict[str, object]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def array(items: object) -> dict[str, object]:
    return {"type": "array", "items": items}


def zeros(size: int, window_bits: int) -> bytes:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, window_bits)
    chunk = bytes(1 << 20)
    return b"".join(squeeze.compress(chunk) for _ in range(size >> 20)) + squeeze.flush()


def nested(kind: str, levels: int) -> str:
    return '{"type":"array","items":' * levels + kind + "}" * levels


def avro_block(schema: object, *datums: bytes) -> None:
    decode_avro_block(avro_content(datums), parse_avro_schema(json.dumps(schema), "p"), None, "p", 0)


def hfile_that_announces(size: int) -> bytes:
    stored = zeros(1 << 20, 31)
    header = struct.pack(">8siiqbii", b"DATABLK*", len(stored), size, -1, 0, 16384, 33 + len(stored))
    return header + stored + hfile([[("a", b"1")]], codec=1, overrides={9: 0, 10: 0})


def twice_as_many(levels: int) -> str:
    """A schema in which each type has two fields of the type before."""
    fields: list[object] = [{"name": "f0", "type": {**record(x="int"), "name": "t0"}}]
    for level in range(1, levels):
        inner = f"t{level - 1}"
        fields.append({"name": f"f{level}", "type": {**record(a=inner, b=inner), "name": f"t{level}"}})
    return json.dumps({"type": "record", "name": "r", "fields": fields})


BOMBS: dict[str, Callable[[], object]] = {
    "a schema that contains itself": lambda: parse_record(
        container(record(n=["null", "r"]), 1, b"\2" * 1_000_000 + b"\0"), "p"
    ),
    "records without fields": lambda: parse_record(container(record(), MANY, b""), "p"),
    "an array of nulls": lambda: parse_record(container(record(a=array("null")), 1, avro_long(MANY) + b"\0"), "p"),
    "a schema of 300 levels": lambda: parse_record(
        container(record(a=json.loads(nested('"int"', 300))), 1, b"\0"), "p"
    ),
    "300 MiB deflated": lambda: parse_record(container(record(a="bytes"), 1, zeros(300 << 20, -15), b"deflate"), "p"),
    "JSON of 100,000 levels": lambda: parse_record(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "p"),
    "an Avro schema of 10,000 levels": lambda: parse_avro_schema(nested('"int"', 10_000), "p"),
    "an Avro schema of 2 to the 40th types": lambda: parse_avro_schema(twice_as_many(40), "p"),
    "an internal schema of 100,000 levels": lambda: parse_internal_schema('{"fields":[' * 100_000, "p"),
    "a split of 100,000 levels": lambda: RealtimeFileSplit.from_json('{"format":1,"split":' + "[" * 100_000),
    "log records that do not fit": lambda: decode_avro_block(
        struct.pack(">ii", 3, 2**31 - 1) + bytes(99), parse_avro_schema(json.dumps(record(a="int")), "p"), None, "p", 0
    ),
    "nulls in a log record": lambda: avro_block(record(a=array("null")), *[avro_long(1 << 16) + b"\0"] * 2000),
    "a header of 2 to the 31st entries": lambda: scan_blocks(
        log_block(3, b"").replace(struct.pack(">iii", 1, 3, 0), struct.pack(">iii", 1, 3, 2**31 - 1), 1), "p"
    ),
    "a HFile block of 2 GiB": lambda: read_hfile(hfile_that_announces(2**31 - 1), "p"),
    "deletes in Kryo": lambda: decode_deletes(
        b"\x01\x00[Lorg.apache.hudi.common.model.DeleteRecord"
        + bytes([ord(";") | 0x80])
        + b"\x01"
        + b"\xff" * 8
        + b"\x0f",
        "p",
        0,
    ),
    "a Bloom filter of 2 to the 31st bits": lambda: parse_bloom_filter(
        base64.b64encode(struct.pack(">iibi", -1, 30, 1, 2**31 - 1)), SIMPLE, "p"
    ),
    "a Bloom filter of 2 to the 31st rows": lambda: parse_bloom_filter(
        base64.b64encode(struct.pack(">iibi", -1, 30, 1, 8) + struct.pack(">iii", 1, 1, 2**31 - 1)), DYNAMIC, "p"
    ),
}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for name, bomb in BOMBS.items():
        sys.stdout.write(f"{name}: ")
        sys.stdout.flush()
        try:
            bomb()
        except HudiReadError as error:
            sys.stdout.write(f"{type(error).__name__}\n")
        except BaseException as error:  # noqa: BLE001 - told to the test
            sys.stdout.write(f"escaped {error!r:.200}\n")
        else:
            sys.stdout.write("read\n")


if __name__ == "__main__":
    main()
