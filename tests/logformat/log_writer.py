"""Writes log blocks and delete blocks, byte by byte, for tests."""

import struct
from collections.abc import Mapping, Sequence

from hudi_bridge.logformat.layout import BlockType, HeaderKey

MAGIC = b"#HUDI#"


def entries(texts: Mapping[int, str]) -> bytes:
    parts = [struct.pack(">i", len(texts))]
    for key, text in texts.items():
        parts.append(struct.pack(">ii", key, len(text.encode())) + text.encode())
    return b"".join(parts)


def log_block(
    block_type: int = BlockType.AVRO_DATA,
    content: bytes = b"",
    header: Mapping[int, str] | None = None,
    *,
    version: int = 1,
    footer: Mapping[int, str] | None = None,
) -> bytes:
    """One block, from the magic to the trailing length."""
    body = struct.pack(">ii", version, block_type) + entries(header or {})
    body += struct.pack(">q", len(content)) + content + entries(footer or {})
    size = len(body) + 8
    return MAGIC + struct.pack(">q", size) + body + struct.pack(">q", size + len(MAGIC))


def data_block(instant: str, content: bytes = b"rows", *, compacted: Sequence[str] = ()) -> bytes:
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: '"string"'}
    if compacted:
        header[HeaderKey.COMPACTED_BLOCK_TIMES] = ",".join(compacted)
    return log_block(BlockType.AVRO_DATA, content, header)


def delete_block(instant: str, content: bytes = b"") -> bytes:
    return log_block(BlockType.DELETE, content, {HeaderKey.INSTANT_TIME: instant})


def rollback_block(instant: str, target: str, command: str = "0") -> bytes:
    header: dict[int, str] = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.TARGET_INSTANT_TIME: target,
        HeaderKey.COMMAND_BLOCK_TYPE: command,
    }
    return log_block(BlockType.COMMAND, b"", header)


def avro_content(datums: Sequence[bytes], version: int = 3) -> bytes:
    """The content of an Avro data block, from encoded datums."""
    framed = b"".join(struct.pack(">i", len(datum)) + datum for datum in datums)
    return struct.pack(">ii", version, len(datums)) + framed


def delete_content(payload: bytes, version: int = 3) -> bytes:
    return struct.pack(">ii", version, len(payload)) + payload


def avro_long(number: int) -> bytes:
    """An encoded int or long, length or union branch."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def avro_text(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return avro_long(len(raw)) + raw


def avro_optional(text: str | None) -> bytes:
    return avro_long(0) if text is None else avro_long(1) + avro_text(text)


def wrapped(branch: int, value: bytes = b"") -> bytes:
    """An ordering value: the branch of the union of wrapper records, and the encoded value."""
    return avro_long(branch) + value


def wrapped_array(*values: bytes) -> bytes:
    """An ordering value of several fields, each made by ``wrapped``."""
    return avro_long(12) + avro_long(1) + avro_array(values)


def avro_array(items: Sequence[bytes]) -> bytes:
    return (avro_long(len(items)) + b"".join(items) if items else b"") + avro_long(0)


def delete_list(deletes: Sequence[tuple[str | None, str | None, bytes]]) -> bytes:
    """A HoodieDeleteRecordList of (record key, partition path, ordering value made by ``wrapped``)."""
    return avro_array([avro_optional(key) + avro_optional(path) + value for key, path, value in deletes])
