import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge.indexes.record_kinds import record_kind

VERSIONS = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from([None, "f1", "f2", "f3"]), st.integers(0, 9), st.booleans()),
    max_size=30,
)


@given(VERSIONS)
def test_files_are_those_left_by_one_version_after_the_other(versions: list[tuple[str, str | None, int, bool]]) -> None:
    kind = record_kind("files")
    assert kind is not None
    versions = [(key, name, size, is_deleted or name is None) for key, name, size, is_deleted in versions]
    expected: dict[tuple[str, str], int] = {}
    for key, name, size, is_deleted in versions:
        if name is None:
            expected = {known: left for known, left in expected.items() if known[0] != key}
        elif is_deleted:
            expected.pop((key, name), None)
        else:
            expected[key, name] = max(size, expected.get((key, name), 0))
    rows = [dict(zip(kind.schema.names, version, strict=True)) for version in versions]
    merged = kind.merged(pa.Table.from_pylist(rows, schema=kind.schema))
    actual = [(row["key"], row["name"], row["size_bytes"]) for row in merged.to_pylist()]
    assert actual == [(key, name, size) for (key, name), size in sorted(expected.items())]
    assert not any(merged.column("is_deleted").to_pylist())


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 99), st.booleans()), max_size=30))
def test_the_newest_version_of_a_location_wins(versions: list[tuple[str, int, bool]]) -> None:
    kind = record_kind("record_index")
    assert kind is not None
    rows = [{"key": key, "position": position, "is_deleted": deleted} for key, position, deleted in versions]
    merged = kind.merged(pa.Table.from_pylist(rows, schema=kind.schema))
    expected = {key: (position, deleted) for key, position, deleted in versions}
    assert {row["key"]: row["position"] for row in merged.to_pylist()} == {
        key: position for key, (position, deleted) in expected.items() if not deleted
    }


def test_partitions_of_unknown_kinds() -> None:
    assert record_kind("other") is None


def test_an_expression_index_has_stats_or_filters() -> None:
    fields = {name: record_kind("expr_index_x", name) for name in ("column_stats", "bloom_filters", None)}
    actual = {name: kind and kind.field for name, kind in fields.items()}
    assert actual == {
        "column_stats": "ColumnStatsMetadata",
        "bloom_filters": "BloomFilterMetadata",
        None: "ColumnStatsMetadata",
    }
