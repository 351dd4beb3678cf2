"""What log records take in memory is estimated before they are decoded, whatever encodes them."""

import io
import json
from collections.abc import Mapping

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_bridge.logformat.avro_columns import decode_avro_block
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.readers.block_decoder import bytes_of_row, bytes_when_decoded
from hudi_bridge.schema.avro import parse_avro_schema
from tests.logformat.hfile_writer import GZ, hfile
from tests.logformat.log_writer import avro_content

ROWS = 4000
LARGE = 1 << 62
STRUCT = {"type": "record", "name": "s", "fields": [{"name": f"n{n}", "type": ["null", "double"]} for n in range(20)]}
KINDS: Mapping[str, object] = {
    "numbers": ["null", "long"],
    "small numbers": "long",
    "decimals": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}],
    "structs": STRUCT,
    "null structs": ["null", STRUCT],
    "texts": "string",
    "null texts": ["null", "string"],
}
VALUES: Mapping[str, object] = {
    "small numbers": 1,
    "structs": {f"n{n}": None for n in range(20)},
    "texts": "some text that is longer than its length",
}


def block_of(kind: BlockType, content: bytes) -> LogBlock:
    return LogBlock(
        block_type=kind,
        version=1,
        header={},
        content=pa.py_buffer(content),
        footer={},
        path="a.log",
        offset=0,
        content_offset=0,
        size_bytes=len(content),
    )


def avro_block(name: str) -> tuple[LogBlock, pa.RecordBatch]:
    """A block of a column of key texts and ten columns of the kind, or one of structs, and its rows."""
    kinds = [KINDS[name]] * (1 if "structs" in name else 10)
    fields = [{"name": "id", "type": "string"}, *({"name": f"c{n}", "type": kind} for n, kind in enumerate(kinds))]
    schema = {"type": "record", "name": "r", "fields": fields}
    parsed = fastavro.parse_schema(schema)
    datums = []
    for number in range(ROWS):
        out = io.BytesIO()
        row = {"id": f"{number:05d}", **{f"c{n}": VALUES.get(name) for n in range(len(kinds))}}
        fastavro.schemaless_writer(out, parsed, row)
        datums.append(out.getvalue())
    content = avro_content(datums)
    writer = parse_avro_schema(json.dumps(schema), "a.log", 0)
    return block_of(BlockType.AVRO_DATA, content), decode_avro_block(content, writer, None, "a.log", 0)


@pytest.mark.parametrize("name", KINDS)
def test_records_of_an_avro_block_take_no_more_than_estimated(name: str) -> None:
    block, rows = avro_block(name)
    estimated = bytes_when_decoded([block], bytes_of_row(rows.schema), 1)
    # As they are decoded, and as they survive.
    assert 1.4 * rows.nbytes <= estimated <= 6 * rows.nbytes


@pytest.mark.parametrize("name", ["numbers", "null structs", "texts"])
def test_rows_of_a_parquet_block_take_no_more_than_estimated(name: str) -> None:
    _, rows = avro_block(name)
    out = io.BytesIO()
    pq.write_table(pa.Table.from_batches([rows]), out, compression="gzip", use_dictionary=False)
    block = block_of(BlockType.PARQUET_DATA, out.getvalue())
    assert bytes_when_decoded([block], bytes_of_row(rows.schema), 1) >= 1.4 * rows.nbytes


def test_values_of_a_compressed_hfile_take_no_more_than_estimated() -> None:
    _, rows = avro_block("numbers")
    cells = [(f"{number:05d}", bytes(11)) for number in range(ROWS)]
    block = block_of(BlockType.HFILE_DATA, hfile([cells], codec=GZ))
    assert 6 * block.content.size < rows.nbytes
    assert bytes_when_decoded([block], bytes_of_row(rows.schema), 1) >= 1.4 * rows.nbytes


@pytest.mark.parametrize("kind", [BlockType.AVRO_DATA, BlockType.HFILE_DATA, BlockType.PARQUET_DATA, BlockType.DELETE])
@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1xxxx" * 100, b"\x00\x00\x00\x03\x7f\xff\xff\xff" * 100])
def test_damaged_blocks_are_left_to_those_that_decode_them(kind: BlockType, content: bytes) -> None:
    assert 0 <= bytes_when_decoded([block_of(kind, content)], 8, 1) <= 8 * 2 * (len(content) + 1)


def test_small_compressed_blocks_are_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    block = block_of(BlockType.PARQUET_DATA, b"PAR1" * 10)
    monkeypatch.setattr("hudi_bridge.logformat.parquet.pq.read_metadata", None)
    assert bytes_when_decoded([block], 8, LARGE) == 8 * block.content.size
