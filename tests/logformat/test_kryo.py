import pyarrow as pa
import pytest

from hudi_bridge.errors import CorruptLogFileError, HudiReadError, UnsupportedTableError
from hudi_bridge.logformat.delete_records import parse_delete_block
from hudi_bridge.logformat.kryo import KryoDelete, decode_deletes
from hudi_bridge.logformat.layout import OrderingKind
from hudi_bridge.logformat.scan import scan_blocks
from tests.logformat.log_writer import delete_block, delete_content
from tests.support.strength import one_in

PATH = ".f1-0_001.log.1_0-1-2"

# Written by org.apache.hudi.common.util.SerializationUtils on Kryo 4.0.2.
RECORDS = bytes.fromhex(
    "01005b4c6f72672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e44656c6574655265636f7264bb0117"
    "01016f72672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e44656c6574655265636f72e40101026f72"
    "672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e486f6f6469654b65f9010170b1016bb10200010101"
    "01020105016bb2020d0101010102010181016bb3090a0101010102010182700182c3a909ffffffffffffffffff010101"
    "0102011001827809feffffffffffffffff01010101020101706172f4016bb4043fc0000001010101020117016bb50ac0"
    "0200000000000001010101020117016bb6050101010101020117016bb7030168656c6cef01010101020117016b37e203"
    "1401010101020117016b37e3030184eda0b4edb49ee6bca201010101020117016bb801036a6176612e6d6174682e4269"
    "67446563696d61ec0104ed29bc0801010101020117016bb901046a6176612e73716c2e54696d657374616df001aeb683"
    "c1cc3101010101020117016b39ee010401fbffffffffffffffff01010101020117016b31b001056a6176612e74696d65"
    "2e4c6f63616c446174e501e80f021d01010101020117016b3130e2010501a80f021d01010101020117016b31b1030186"
    "75746638c3a901010101020117016b31b200010101010201170161616161616161616161616161616161616161616161"
    "61616161616161616161616161616161616161616161616161616161616161616161616161616161e102000101010102"
    "011701c10161616161616161616161616161616161616161616161616161616161616161616161616161616161616161"
    "61616161616161616161616161616161616161616102000101010102011701c903616161616161616161616161616161"
    "616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161"
    "616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161"
    "616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161"
    "616161616161616161616161616161616161616161616161616161616161616161616161616161616102ffffffff0f01"
    "010101020117016b31b302feffffff0f"
)
KEYS = bytes.fromhex(
    "01005b4c6f72672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e486f6f6469654b6579bb010401016f"
    "72672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e486f6f6469654b65f9010170f0016beb01010301"
    "010104016bb2"
)
SHARED_KEY = bytes.fromhex(
    "01005b4c6f72672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e44656c6574655265636f7264bb0103"
    "01016f72672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e44656c6574655265636f72e40101026f72"
    "672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e486f6f6469654b65f9010170f0016beb0200010101"
    "0102040202"
)
BIG_INTEGER = bytes.fromhex(
    "01005b4c6f72672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e44656c6574655265636f7264bb0102"
    "01016f72672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e44656c6574655265636f72e40101026f72"
    "672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e486f6f6469654b65f90101826201826101036a6176"
    "612e6d6174682e426967496e74656765f2010a00ab54a98ceb1f0ad2"
)
INSTANT = bytes.fromhex(
    "01005b4c6f72672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e44656c6574655265636f7264bb0102"
    "01016f72672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e44656c6574655265636f72e40101026f72"
    "672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e486f6f6469654b65f90101826201826101036a6176"
    "612e74696d652e496e7374616ef40100c096b102"
)
SQL_DATE = bytes.fromhex(
    "01005b4c6f72672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e44656c6574655265636f7264bb0102"
    "01016f72672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e44656c6574655265636f72e40101026f72"
    "672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e486f6f6469654b65f90101826201826101036a6176"
    "612e73716c2e446174e50105"
)
NO_RECORDS = bytes.fromhex(
    "01005b4c6f72672e6170616368652e687564692e636f6d6d6f6e2e6d6f64656c2e44656c6574655265636f7264bb0101"
)

RECORD_CLASS = b"org.apache.hudi.common.model.DeleteRecord"
KEY_CLASS = b"org.apache.hudi.common.model.HoodieKey"


def text(value: bytes) -> bytes:
    """A string of two or more ASCII characters."""
    return value[:-1] + bytes([value[-1] | 0x80])


def one_delete(ordering: bytes, key: bytes = b"\x01" + text(b"p1") + b"\x01" + text(b"k1")) -> bytes:
    return (
        b"\x01\x00" + text(b"[L" + RECORD_CLASS + b";") + b"\x01\x02"
        b"\x01\x01" + text(RECORD_CLASS) + b"\x01\x01\x02" + text(KEY_CLASS) + b"\x01" + key + ordering
    )


def decode(payload: bytes) -> tuple[KryoDelete, ...]:
    return decode_deletes(payload, PATH, 100)


def test_ordering_values_of_every_class() -> None:
    deletes = decode(RECORDS)
    assert [(delete.record_key, delete.kind, delete.ordering) for delete in deletes] == [
        ("k1", OrderingKind.INT, 0),
        ("k2", OrderingKind.INT, -7),
        ("k3", OrderingKind.LONG, 5),
        ("é", OrderingKind.LONG, -(1 << 63)),
        ("x", OrderingKind.LONG, (1 << 63) - 1),
        ("k4", OrderingKind.FLOAT, 1.5),
        ("k5", OrderingKind.DOUBLE, -2.25),
        ("k6", OrderingKind.BOOLEAN, True),
        ("k7", OrderingKind.STRING, "hello"),
        ("k7b", OrderingKind.STRING, "x"),
        ("k7c", OrderingKind.STRING, "𝄞漢"),
        ("k8", OrderingKind.DECIMAL, (-1234500, 4)),
        ("k9", OrderingKind.TIMESTAMP_MICROS, 1_704_164_645_678_000),
        ("k9n", OrderingKind.TIMESTAMP_MICROS, -5000),
        ("k10", OrderingKind.DATE, 19782),
        ("k10b", OrderingKind.DATE, -3594),
        ("k11", OrderingKind.STRING, "utf8é"),
        ("k12", OrderingKind.NULL, None),
        ("a" * 63, OrderingKind.INT, 0),
        ("a" * 64, OrderingKind.INT, 0),
        ("a" * 200, OrderingKind.INT, -(1 << 31)),
        ("k13", OrderingKind.INT, (1 << 31) - 1),
    ]
    assert [delete.partition_path for delete in deletes] == ["p1", "p1", "", "p", "p"] + ["part"] * 17


def test_keys_of_version_1_have_no_ordering_value() -> None:
    expected = [("kk", "pp"), ("kk", "pp"), ("k2", "pp")]
    deletes = decode(KEYS)
    assert [(delete.record_key, delete.partition_path) for delete in deletes] == expected
    assert {delete.kind for delete in deletes} == {OrderingKind.NULL}


def test_records_that_share_their_key() -> None:
    deletes = decode(SHARED_KEY)
    assert [(delete.record_key, delete.ordering) for delete in deletes] == [("kk", 0), ("kk", 1)]


def test_no_records() -> None:
    assert decode(NO_RECORDS) == ()


def test_avro_text_as_hudi_0_12_registers_it() -> None:
    (delete,) = decode(one_delete(b"\x0c\x01\x03xy"))
    assert (delete.kind, delete.ordering) == (OrderingKind.UTF8, "xy")


@pytest.mark.parametrize(("ordering", "is_unlike"), [(b"\x0c\x01\x03xy", False), (b"\x03\x01x\xf9", True)])
def test_0x_compares_avro_text_alone_with_that_of_rows(ordering: bytes, *, is_unlike: bool) -> None:
    (block,) = scan_blocks(delete_block("001", delete_content(one_delete(ordering), version=2)), PATH).blocks
    deletes = parse_delete_block(block)
    assert deletes.ordering_as((pa.string(),)).columns[0].to_pylist() == ["xy"]
    assert deletes.unlike_rows_of((pa.string(),)).tolist() == [is_unlike]


def test_null_in_place_of_a_text() -> None:
    (delete,) = decode(one_delete(b"\x03\x00", key=b"\x00\x01" + text(b"k1")))
    assert (delete.partition_path, delete.kind, delete.ordering) == (None, OrderingKind.NULL, None)


def test_delete_blocks_of_both_versions() -> None:
    for version, payload, keys in ((1, KEYS, ["kk", "kk", "k2"]), (2, SHARED_KEY, ["kk", "kk"])):
        (block,) = scan_blocks(delete_block("001", delete_content(payload, version)), PATH).blocks
        records = parse_delete_block(block)
        assert records.record_keys.to_pylist() == keys
        assert records.is_default.to_pylist() == ([True] * 3 if version == 1 else [True, False])


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        (BIG_INTEGER, "java.math.BigInteger"),
        (INSTANT, "java.time.Instant"),
        (SQL_DATE, "java.sql.Date"),
        (one_delete(b"\x06\x00"), "byte"),
        (one_delete(b"\x20\x00"), "the class registered as 30"),
        (b"\x01\x00" + text(b"java.util.ArrayList") + b"\x01\x01", "java.util.ArrayList"),
        (b"\x00", "null"),
    ],
)
def test_other_classes_are_refused_by_name(payload: bytes, name: str) -> None:
    with pytest.raises(UnsupportedTableError) as caught:
        decode(payload)
    assert caught.value.found.startswith(f"{name} in {PATH} at byte ")


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (RECORDS + b"\x00", "1 bytes left over"),
        (b"\x01\x01", "class name 1"),
        (b"\x01\x00" + text(b"[L" + KEY_CLASS + b";") + b"\x00", "reference tag 0"),
        (b"\x01\x00" + text(b"[L" + KEY_CLASS + b";") + b"\x01\xff\xff\xff\xff\x0f", "elements"),
        (b"\x01\x00" + text(b"[L" + KEY_CLASS + b";") + b"\x01\x00", "elements"),
        (one_delete(b"\x03\x09"), "object 7"),
        (one_delete(b"\x03\x02"), "object 0"),
        # Object 2 is the key.
        (one_delete(b"\x01\x03" + text(b"java.math.BigDecimal") + b"\x04"), "object 2"),
        (one_delete(b"\x03\x01\xff\xff\x7f"), "characters"),
        (one_delete(b"\x0c\x01\x03\xff\xff"), "UTF-8"),
        (one_delete(b"\x03\x01\x82\xed\xa0\x80"), "UTF-16"),
        (one_delete(b"\x0c\x01\x00"), "-1 bytes"),
        (one_delete(b"\x01\x03" + text(b"java.time.LocalDate") + b"\x01\xe8\x0f\x02\x1e"), "2024-2-30"),
    ],
)
def test_damage_is_named(payload: bytes, reason: str) -> None:
    with pytest.raises(CorruptLogFileError) as caught:
        decode(payload)
    assert reason in str(caught.value)
    assert caught.value.offset is not None
    assert 100 <= caught.value.offset <= 100 + len(payload)


@pytest.mark.parametrize("length", one_in(7, range(len(RECORDS))))
def test_truncation_is_an_error_of_ours(length: int) -> None:
    with pytest.raises(HudiReadError):
        decode(RECORDS[:length])


@pytest.mark.parametrize("mask", one_in(2, [0x01, 0x02, 0x80, 0xFF]))
def test_flipped_bits_give_deletes_or_an_error_of_ours(mask: int) -> None:
    refused = 0
    for position in range(len(RECORDS)):
        broken = bytearray(RECORDS)
        broken[position] ^= mask
        (block,) = scan_blocks(delete_block("001", delete_content(bytes(broken), 2)), PATH).blocks
        try:
            parse_delete_block(block)
        except HudiReadError:
            refused += 1
    assert refused > 0
