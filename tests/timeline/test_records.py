import json
import zlib
from typing import Any

import pytest

from hudi_bridge.errors import CorruptTimelineError, UnsupportedTableError
from hudi_bridge.timeline.records import parse_container
from tests.logformat.log_writer import avro_long, avro_text

PATH = ".hoodie/timeline/001.clean.requested"
SYNC = b"0123456789abcdef"

TEXT: Any = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "string"]}]}
NOTHING: Any = {"type": "record", "name": "r", "fields": []}
X = avro_long(1) + avro_text("x")


def block(datum: bytes, count: int = 1, sync: bytes = SYNC) -> bytes:
    return avro_long(count) + avro_text(datum) + sync


def container(schema: object, *blocks: bytes, codec: bytes | None = None) -> bytes:
    pairs = [("avro.schema", json.dumps(schema).encode())] + ([("avro.codec", codec)] if codec is not None else [])
    entries = b"".join(avro_text(key) + avro_text(value) for key, value in pairs)
    return b"Obj\x01" + avro_long(len(pairs)) + entries + avro_long(0) + SYNC + b"".join(blocks)


def deflated(data: bytes) -> bytes:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    return squeeze.compress(data) + squeeze.flush()


def array_of(items: object) -> object:
    return {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": items}}]}


@pytest.mark.parametrize(
    "data",
    [
        container(TEXT, block(X)),
        container(TEXT, block(X), codec=b"null"),
        container(TEXT, block(deflated(X)), codec=b"deflate"),
        container(TEXT, block(b"", 0), block(X)),
    ],
    ids=["no codec", "null", "deflate", "an empty block"],
)
def test_the_record_of_a_container(data: bytes) -> None:
    assert parse_container(data, PATH) == {"a": "x"}


def test_metadata_in_sized_blocks() -> None:
    pair = avro_text("avro.schema") + avro_text(json.dumps(TEXT))
    data = b"Obj\x01" + avro_long(-1) + avro_long(len(pair)) + pair + avro_long(0) + SYNC + block(X)
    assert parse_container(data, PATH) == {"a": "x"}


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"Obj\x01", "no whole number"),
        (b"Obj\x01" + b"\xff" * 11, "no whole number"),
        (b"Obj\x01" + avro_long(1) + avro_long(-5), "a part of -5 bytes"),
        (b"Obj\x01" + avro_long(1) + avro_long(1 << 40), "a part of 1099511627776 bytes"),
        (container(TEXT), "0 records"),
        (container(TEXT, block(b"", 0)), "0 records"),
        (container(TEXT, block(X), block(X)), "a block of 1 records"),
        (container(TEXT, block(X + X, 2)), "a block of 2 records"),
        (container(TEXT, block(X, -1)), "a block of -1 records"),
        (container(NOTHING, block(b"", 1 << 40)), "a block of 1099511627776 records"),
        (container(TEXT, block(X, sync=SYNC[::-1])), "another sync marker"),
        (container(TEXT, block(X))[:-1], "a part of 16 bytes"),
        (container(TEXT, block(X + b"\0")), "bytes after the last field"),
        (container(TEXT, block(X[:-1])), "a value of 1 bytes"),
        (container(TEXT, block(avro_long(-1))), "branch -1 of a union"),
        (container(TEXT, block(avro_long(1) + avro_text(b"\xff"))), "damaged Avro"),
        (container(array_of({"type": "enum", "name": "e", "symbols": ["A"]}), block(b"\x02\x01\x00")), "symbol -1"),
        (container(array_of("int"), block(avro_long(1 << 40))), "1099511627776 array items"),
        (container(TEXT, block(X), codec=b"deflate"), "do not inflate"),
        (container(TEXT, block(deflated(X)[:-1]), codec=b"deflate"), "without its end"),
        (container("string", block(avro_text("x"))), "string"),
        (b"Obj\x01" + avro_long(0) + SYNC + block(X), "not JSON"),
        (container(TEXT, block(X)).replace(b'"name"', b'"\xffame"', 1), "not text"),
    ],
)
def test_damaged_containers(data: bytes, found: str) -> None:
    with pytest.raises(CorruptTimelineError) as caught:
        parse_container(data, PATH)
    assert found in caught.value.found
    assert caught.value.path == PATH


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (container(TEXT, block(X), codec=b"zstandard"), "zstandard"),
        (container({**TEXT, "fields": [{"name": "n", "type": ["null", "r"]}]}, block(b"\2\2\0")), "contains itself"),
        (container(array_of("null"), block(avro_long(1 << 40) + b"\0")), "items that take no bytes"),
        (container(array_of({"type": "fixed", "name": "f", "size": 0}), block(avro_long(9) + b"\0")), "no bytes"),
        (container(array_of({**NOTHING, "name": "e"}), block(avro_long(9) + b"\0")), "no bytes"),
    ],
)
def test_what_is_refused(data: bytes, found: str) -> None:
    with pytest.raises(UnsupportedTableError) as caught:
        parse_container(data, PATH)
    assert found in caught.value.found


def test_an_inflated_record_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_bridge.logformat.hfile_blocks._ALWAYS_ALLOWED_BYTES", 1000)
    text = avro_long(1) + avro_text("x" * 100_000)
    with pytest.raises(CorruptTimelineError, match="more than"):
        parse_container(container(TEXT, block(deflated(text)), codec=b"deflate"), PATH)
