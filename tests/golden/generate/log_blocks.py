"""Lists the blocks of log files, for ``case.json``. Shares no code with the package, which the tables test."""

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"#HUDI#"

_TYPES = ("command", "delete", "corrupt", "avro_data", "hfile_data", "parquet_data", "cdc_data")
_TRAITS = {7: "partial", 5: "positions", 4: "compacted"}
"""The headers that are listed, by their number in ``HeaderMetadataType``."""
_WITH_VERSIONED_CONTENT = ("avro_data", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of a log file: ``version`` of the log format, ``traits`` from its header, and the content."""

    type: str
    version: int
    traits: tuple[str, ...]
    content: bytes

    @property
    def label(self) -> str:
        """The label of the block in the inventory."""
        versioned = self.type in _WITH_VERSIONED_CONTENT and len(self.content) >= 4
        content = f" (content v{struct.unpack_from('>i', self.content)[0]})" if versioned else ""
        return f"{self.type} v{self.version}{content}" + "".join(f" +{trait}" for trait in self.traits)


def inventory(table: Path) -> dict[str, int]:
    """The number of blocks of each label in the log files of a table, without those of its metadata table."""
    counts: Counter[str] = Counter()
    for path in table.rglob(".*.log.*"):
        if ".hoodie" not in path.relative_to(table).parts and path.suffix != ".crc":
            counts.update(labels_of(path))
    return dict(sorted(counts.items()))


def labels_of(path: Path) -> list[str]:
    """The labels of the blocks of a log file, in their order."""
    return list(_labels(path.read_bytes()))


def _labels(data: bytes) -> Iterator[str]:
    """The labels of the blocks, in file order; bytes between blocks are skipped up to the next magic."""
    position = 0
    while position >= 0 and position < len(data):
        try:
            block, position = _block(data, position)
        except (ValueError, struct.error):
            yield "corrupt" if data.startswith(MAGIC, position) else "garbage"
            position = data.find(MAGIC, position + 1)
        else:
            yield block.label


def _block(data: bytes, start: int) -> tuple[Block, int]:
    """The block that begins at ``start``, and where it ends."""
    magic, size, version, kind = struct.unpack_from(">6sqii", data, start)
    end = start + len(MAGIC) + 8 + size
    followed = end == len(data) or data.startswith(MAGIC, end)
    if magic != MAGIC or size < 0 or not followed or struct.unpack_from(">q", data, end - 8)[0] != size + len(MAGIC):
        raise ValueError(f"no block at {start}")
    position = start + len(MAGIC) + 16
    (count,) = struct.unpack_from(">i", data, position)
    position += 4
    headers: dict[int, bytes] = {}
    for _ in range(count):
        key, length = struct.unpack_from(">ii", data, position)
        headers[key] = data[position + 8 : position + 8 + length]
        position += 8 + length
    (length,) = struct.unpack_from(">q", data, position)
    traits = tuple(trait for key, trait in _TRAITS.items() if headers.get(key))
    content = data[position + 8 : position + 8 + length]
    return Block(type=_TYPES[kind], version=version, traits=traits, content=content), end
