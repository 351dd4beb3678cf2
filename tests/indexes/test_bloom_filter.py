import base64
import struct
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge.errors import CorruptBaseFileError
from hudi_bridge.indexes.bloom_filter import (
    DYNAMIC,
    SIMPLE,
    BloomFilter,
    HashedKeys,
    murmur_hash,
    parse_bloom_filter,
)
from hudi_bridge.indexes.footer_index import FooterAnswer, FooterIndex, LookupKeys, parse_footer_index
from tests.support.golden_cases import golden_table

PATH = "part/f1-0_0-1-1_20260101000000000.parquet"
HASHES = 7


def simple(keys: Sequence[str], size: int = 512, hashes: int = HASHES) -> bytes:
    bits = np.zeros((size + 7) // 8 * 8, dtype=np.bool_)
    for key in keys:
        seed = 0
        for _ in range(hashes):
            seed = murmur_hash(key.encode(), seed)
            bits[abs(seed) % size] = True
    return struct.pack(">iibi", -1, hashes, 1, size) + np.packbits(bits, bitorder="little").tobytes()


def dynamic(*rows: bytes) -> bytes:
    return struct.pack(">iibiiii", -1, HASHES, 1, 512, 10, 3, len(rows)) + b"".join(rows)


def parsed(content: bytes, type_code: str) -> BloomFilter:
    actual = parse_bloom_filter(base64.b64encode(content), type_code, PATH)
    assert actual is not None
    return actual


def indexed_base_files(case: str) -> Iterator[tuple[FooterIndex, list[str]]]:
    for path in golden_table(case).rglob("*.parquet"):
        if ".hoodie" in path.relative_to(golden_table(case)).parts:
            continue
        with pq.ParquetFile(path) as file:
            index = parse_footer_index(file.schema_arrow.metadata, path.name)
            yield index, [str(key) for key in file.read(columns=["_hoodie_record_key"]).column(0).to_pylist()]


@pytest.mark.parametrize(
    "case", ["h_bloom_footer_0150", "h_bloom_footer_120", "a_story_v5_0122", "e_odd_keys_120", "e_composite_keys_0150"]
)
def test_filters_of_hudi_find_all_keys_and_hardly_any_other(case: str) -> None:
    actual = 0
    for index, keys in indexed_base_files(case):
        assert index.bloom_filter is not None
        assert not index.bloom_filter.is_saturated
        assert all(index.bloom_filter.may_hold(key) for key in keys)
        assert {index.ask(key) for key in keys} == {FooterAnswer.MAY_HOLD}
        actual += sum(index.bloom_filter.may_hold(f"nowhere-ä{number}") for number in range(200))
    assert actual <= 3


def test_a_filter_of_hudi_with_one_key_has_the_bits_of_that_key() -> None:
    checked = 0
    for index, keys in indexed_base_files("e_composite_keys_120"):
        if len(keys) == 1 and index.bloom_filter is not None:
            (row,) = index.bloom_filter.rows
            content = base64.b64encode(simple(keys, row.size, row.hashes))
            rebuilt = parse_bloom_filter(content, SIMPLE, PATH)
            assert rebuilt is not None
            assert (rebuilt.rows[0].bits == row.bits).all()
            checked += 1
    assert checked == 2


@pytest.mark.parametrize("key", ["", "a", "ab", "abc", "abcd", "abcdé", "日本", "\U0001f600x"])
def test_a_simple_filter_finds_what_was_added(key: str) -> None:
    actual = parsed(simple(["k1", key]), SIMPLE)
    assert actual.may_hold(key)
    assert actual.may_hold("k1")
    assert not actual.may_hold("k2")


def test_a_dynamic_filter_finds_the_keys_of_every_row() -> None:
    actual = parsed(dynamic(simple(["k1"]), simple(["k2"]), simple(["k3"])), DYNAMIC)
    assert [actual.may_hold(f"k{number}") for number in range(6)] == [False, True, True, True, False, False]


def test_a_filter_that_holds_too_much_is_not_asked() -> None:
    full = parsed(dynamic(simple(["k1"]), simple([f"a{number}" for number in range(2000)])), DYNAMIC)
    assert full.is_saturated
    assert full.false_positive_rate > 0.99
    index = FooterIndex(key_range=None, bloom_filter=full)
    assert index.ask("not added") is FooterAnswer.MAY_HOLD


def test_a_false_positive_rate_is_that_of_the_set_bits() -> None:
    half = struct.pack(">iibi", -1, 2, 1, 12) + bytes([0b00111111, 0b11110000])
    assert parsed(half, SIMPLE).false_positive_rate == 0.25


@pytest.mark.parametrize(
    ("content", "kind"), [(simple(["k1"], size=20), SIMPLE), (dynamic(simple(["k1"], 20)), DYNAMIC)]
)
def test_every_truncation_and_anything_behind_is_noticed(content: bytes, kind: str) -> None:
    parsed(content, kind)
    for wrong in (*(content[:end] for end in range(len(content))), content + b"\0"):
        with pytest.raises(CorruptBaseFileError, match="Bloom filter"):
            parse_bloom_filter(base64.b64encode(wrong), kind, PATH)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (struct.pack(">iibi", -1, 0, 1, 8) + b"\xff", SIMPLE),
        (struct.pack(">iibi", -1, 2_000_000_000, 1, 8) + b"\xff", SIMPLE),
        (struct.pack(">iibi", -1, 3, 1, 0), SIMPLE),
        (struct.pack(">iibi", -1, 3, 1, -8), SIMPLE),
        (struct.pack(">iibi", -1, 3, 1, 2_000_000_000) + b"\xff", SIMPLE),
        (struct.pack(">iibiiii", -1, 3, 1, 8, 10, 1, 0), DYNAMIC),
        (struct.pack(">iibiiii", -1, 3, 1, 8, 10, 1, 2_000_000_000), DYNAMIC),
        (dynamic(struct.pack(">iibi", -2, 3, 1, 8) + b"\xff"), DYNAMIC),
    ],
)
def test_counts_that_cannot_be_true_are_refused(content: bytes, kind: str) -> None:
    with pytest.raises(CorruptBaseFileError, match=PATH):
        parse_bloom_filter(base64.b64encode(content), kind, PATH)


def test_text_that_is_not_base64_is_refused() -> None:
    with pytest.raises(CorruptBaseFileError, match="base64"):
        parse_bloom_filter(b"///?", SIMPLE, PATH)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (simple(["k1"]), "RIBBON_V1"),
        (struct.pack(">iibi", -1, 3, 0, 8) + b"\xff", SIMPLE),
        (struct.pack(">iibi", 3, 3, 1, 8) + b"\xff", SIMPLE),
    ],
)
def test_filters_that_hudi_does_not_write_rule_nothing_out(content: bytes, kind: str) -> None:
    assert parse_bloom_filter(base64.b64encode(content), kind, PATH) is None


@pytest.mark.parametrize("name", [b"org.apache.hudi.bloomfilter", b"com.uber.hoodie.bloomfilter"])
def test_a_footer_names_its_filter_in_two_ways_and_may_leave_out_its_kind(name: bytes) -> None:
    index = parse_footer_index({name: base64.b64encode(simple(["k1"]))}, PATH)
    assert index.key_range is None
    assert index.ask("k1") is FooterAnswer.MAY_HOLD
    assert index.ask("k2") is FooterAnswer.NOT_IN_FILTER


def test_a_key_range_includes_its_ends() -> None:
    footer = {b"hoodie_min_record_key": b"k10", b"hoodie_max_record_key": b"k20"}
    index = parse_footer_index(footer, PATH)
    answers = [index.ask(key) for key in ("k1", "k10", "k15", "k20", "k200")]
    outside, inside = FooterAnswer.OUT_OF_RANGE, FooterAnswer.MAY_HOLD
    assert answers == [outside, inside, inside, inside, outside]


def test_a_key_is_out_of_range_only_if_it_is_in_both_orders_of_text() -> None:
    # U+FFFD sorts before U+1F600 by UTF-8 bytes, and after it by UTF-16 code units.
    footer = {b"hoodie_min_record_key": b"a", b"hoodie_max_record_key": "\U0001f600".encode()}
    index = parse_footer_index(footer, PATH)
    assert index.ask("\ufffd") is FooterAnswer.MAY_HOLD
    assert index.ask("\U0001f601") is FooterAnswer.OUT_OF_RANGE


def test_a_footer_without_an_index_rules_nothing_out() -> None:
    assert parse_footer_index({}, PATH).ask("k1") is FooterAnswer.MAY_HOLD


@pytest.mark.parametrize("name", [b"hoodie_min_record_key", b"hoodie_bloom_filter_type_code"])
def test_a_footer_that_is_not_text_is_refused(name: bytes) -> None:
    footer = {
        b"org.apache.hudi.bloomfilter": base64.b64encode(simple(["k1"])),
        b"hoodie_min_record_key": b"a",
        b"hoodie_max_record_key": b"b",
        name: b"\xff\xfe",
    }
    with pytest.raises(CorruptBaseFileError, match="UTF-8"):
        parse_footer_index(footer, PATH)


@given(st.lists(st.text(max_size=12), max_size=8))
def test_many_keys_are_hashed_as_one(keys: list[str]) -> None:
    hashed = HashedKeys(keys)
    for index, key in enumerate(keys):
        expected, seed = [], 0
        for number in range(4):
            seed = murmur_hash(key.encode("utf-8", "surrogatepass"), seed)
            expected.append(seed)
            assert hashed.hashes(number)[index] == seed
        assert hashed.hashes_of(index, 4) == expected


@pytest.mark.parametrize("others", [0, 5, 3000])
@pytest.mark.parametrize("rows", [1, 3])
def test_one_of_many_keys_is_found(rows: int, others: int) -> None:
    held = [simple([f"k{number}"], size=1 << 16) for number in range(rows)]
    actual = parsed(dynamic(*held), DYNAMIC) if rows > 1 else parsed(held[0], SIMPLE)
    missing = [f"nowhere{number}" for number in range(others)]
    assert not actual.may_hold_any(HashedKeys(missing), 0, others)
    for key in (f"k{number}" for number in range(rows)):
        assert actual.may_hold_any(HashedKeys([*missing, key]), 0, others + 1)


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=3), min_size=1, max_size=6),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=6),
)
def test_the_index_of_a_file_finds_each_of_its_keys(held: list[str], others: list[str]) -> None:
    bloom_filter = parsed(simple(held), SIMPLE)
    for order in ("utf-8", "utf-16-be"):
        ordered = sorted(held, key=lambda key: key.encode(order))
        index = FooterIndex(key_range=(ordered[0], ordered[-1]), bloom_filter=bloom_filter)
        assert all(index.may_hold_any(LookupKeys.of([*others, key])) for key in held)
