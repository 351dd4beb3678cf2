"""Paths of VARIANT columns in scans: the values, and the columns of shredded files that are read for them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import CorruptTableError, HudiTable, QueryError, variant_path
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.logformat.layout import BlockType, HeaderKey
from hudi_bridge.schema.avro_types import is_variant
from tests.logformat.log_writer import log_block
from tests.support.counting_files import CountingFileSystem
from tests.support.shredded_tables import FIELDS, FILES, FORMS, NAMES, PLAIN, VARIANT, created, opened, with_base
from tests.support.strength import one_in
from tests.support.table_writer import META_FIELDS, TableWriter, at
from tests.support.variants import Primitive, at_path, decoded

PATHS: list[tuple[str | int, ...]] = [
    *(("a",), ("s",), ("d",), ("ts",), ("nope",), ("rest", "k"), ("k010",), (0,), (1, "a"), (0, 0), ()),
    *(("nest",), ("nest", "p"), ("nest", "r"), ("nest", "q", 0), ("nest", "q", 1, "z"), ("nest", "q", 0, "y")),
    *(("arr",), ("arr", 1), ("arr", 299), ("zz", "a", 1, "b"), ("b",)),
]
FILTERS: list[Any] = [
    pc.field("ts") >= 0,
    pc.field("id").isin(["all", "r0", "inner_rest", "array"]),
    pc.field("v").is_valid(),
]


def values_at(dataset: HudiDataset, steps: Any, row_filter: pc.Expression | None = None) -> dict[str, Any]:
    """The decoded value of each id at a path, in a tuple; an empty one without a value."""
    columns: Any = {"value": variant_path("v", *steps), "id": pc.field("id")}
    rows = dataset.to_table(columns, filter=row_filter)
    rows.validate(full=True)
    assert rows.column_names == ["value", "id"]
    assert is_variant(rows.schema.field("value"))
    decoded_rows = ((row["id"], () if row["value"] is None else (decoded(**row["value"]),)) for row in rows.to_pylist())
    return dict(decoded_rows)


def whole_values(dataset: HudiDataset, row_filter: pc.Expression | None = None) -> dict[str, Any]:
    rows = dataset.to_table(filter=row_filter).to_pylist()
    return {row["id"]: () if row["v"] is None else (decoded(**row["v"]),) for row in rows}


def require_paths(dataset: HudiDataset, row_filter: pc.Expression | None = None, every: int = 3) -> None:
    """Each of the ``PATHS``, or ``every`` other, has the values that the whole values have there."""
    whole = whole_values(dataset, row_filter)
    assert whole
    for steps in PATHS[::every]:
        expected = {key: at_path(value[0], steps) if value else () for key, value in whole.items()}
        assert values_at(dataset, steps, row_filter) == expected, steps


@pytest.mark.parametrize("name", one_in(5, NAMES))
def test_paths_of_base_files(tmp_path: Path, name: str) -> None:
    table = opened(with_base(tmp_path / "table", name))
    require_paths(table.snapshot(), every=1)
    for row_filter in FILTERS if name in ("spark_object", "duckdb_object") else ():
        require_paths(table.snapshot(), row_filter)


@pytest.mark.parametrize("form", ["block", "native"])
def test_paths_of_logs(tmp_path: Path, form: str) -> None:
    require_paths(opened(FORMS[form](tmp_path / "table", "spark_object")).snapshot())


@pytest.fixture
def merged(tmp_path: Path) -> TableWriter:
    """Two file groups of other shredding; one with updates, of whole rows and of one other field, and deletes."""
    table = with_base(tmp_path / "table", "spark_object", fields=(*FIELDS, ("note", "string")))
    rows = pq.read_table(FILES / "duckdb_object.parquet")
    renamed = pa.array(["all" if key == "r0" else key for key in rows["id"].to_pylist()])
    newer = rows.set_column(0, "id", renamed).set_column(1, "ts", pa.array([2] * len(rows), pa.int64()))
    sink = pa.BufferOutputStream()
    pq.write_table(newer.append_column("note", pa.nulls(len(rows), pa.string())), sink)
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: at(2), HeaderKey.SCHEMA: json.dumps(table.avro_schema)}
    blocks = [
        log_block(BlockType.PARQUET_DATA, sink.getvalue().to_pybytes(), header),
        table.data_block(at(2), [{"id": "rest", "ts": 2, "v": PLAIN, "note": None}]),
        table.delete_block(at(2), [("empty", 2), ("many", 0)]),
    ]
    table.commit(at(2), wrote=[table.log_file(at(2), blocks)])
    other = table.partition("") / f"f2-0_0-1-1_{at(3)}.parquet"
    by_itself = pq.read_table(FILES / "spark_by_itself.parquet")
    ids = pa.array([f"other_{key}" for key in by_itself["id"].to_pylist()])
    pq.write_table(by_itself.set_column(0, "id", ids), other)
    table.commit(at(3), wrote=[other])
    block = table.data_block(at(4), [{"id": "inner_rest", "ts": 4, "note": "new"}], only=["id", "ts", "note"])
    table.commit(at(4), wrote=[table.log_file(at(4), [block])])
    return table


def test_paths_after_merges_and_in_other_queries(merged: TableWriter) -> None:
    table = opened(merged)
    snapshot = table.snapshot()
    require_paths(snapshot, every=4)
    require_paths(snapshot, pc.field("id").isin(["inner_rest", "rest", "other_all"]), every=6)
    values = values_at(snapshot, ["nest", "p"])
    assert values["inner_rest"] == (Primitive("int32", 1),)
    assert "empty" not in values
    require_paths(table.read_optimized(), every=6)
    require_paths(table.snapshot(as_of=at(1)), every=6)


def test_paths_of_an_incremental_query(tmp_path: Path) -> None:
    table = created(tmp_path / "table", options={"hoodie.populate.meta.fields": "true"})
    for number, name in enumerate(("spark_object", "duckdb_object"), 1):
        path = table.partition("") / f"f{number}-0_0-1-1_{at(number)}.parquet"
        rows = pq.read_table(FILES / f"{name}.parquet")
        ids = rows["id"].to_pylist()
        meta: dict[str, Any] = {
            "_hoodie_commit_time": [at(number)] * len(ids),
            "_hoodie_commit_seqno": [f"{at(number)}_0_{row}" for row in range(len(ids))],
            "_hoodie_record_key": ids,
            "_hoodie_partition_path": [""] * len(ids),
            "_hoodie_file_name": [path.name] * len(ids),
        }
        columns: list[Any] = [*(pa.array(texts) for texts in meta.values()), *rows.columns]
        pq.write_table(pa.table(columns, [*meta, *rows.column_names]), path)
        table.commit(at(number), wrote=[path])
    newer = opened(table).incremental(at(1))
    require_paths(newer)
    p = variant_path("v", "nest", "p")
    assert newer.explain(columns={"p": p}).base_bytes < newer.explain(columns={"p": pc.field("v")}).base_bytes / 2


RENAMED = "renamed"


def with_history(version: int, name: str) -> dict[str, Any]:
    """The schema with column ids that Hudi 1.2.0 makes of a table with the VARIANT columns of a name and ``w``."""
    ids = {"metadata": -2, "value": -1}
    parts = [{"id": id_, "name": part, "optional": False, "type": "binary"} for part, id_ in ids.items()]
    kinds: dict[str, Any] = {**dict.fromkeys((*META_FIELDS, "id"), "string"), "ts": "long"}
    kinds |= {column: {"type": "record", "fields": parts} for column in (name, "w")}
    fields = [{"id": id_, "name": key, "optional": True, "type": kind} for id_, (key, kind) in enumerate(kinds.items())]
    return {"version_id": version, "max_column_id": len(fields) - 1, "type": "record", "fields": fields}


def base_with_meta(table: TableWriter, file_id: str, instant: str, source: str) -> Path:
    """A golden file with meta columns, whose VARIANT column is there twice."""
    path = table.partition("") / f"{file_id}_0-1-1_{instant}.parquet"
    ids, *columns = pq.read_table(FILES / f"{source}.parquet").select(["id", "ts", "v", "v"]).columns
    keys = pa.array([f"{file_id}_{key}" for key in ids.to_pylist()])
    meta: list[Any] = [pa.array([text] * len(keys)) for text in (instant, instant, "", "", path.name)]
    pq.write_table(pa.table([*meta[:2], keys, *meta[3:], keys, *columns], list(table.arrow_schema.names)), path)
    return path


def test_paths_of_a_column_that_was_renamed(tmp_path: Path) -> None:
    other = {**VARIANT, "name": "other"}
    before, after = (
        TableWriter(folder=tmp_path / "table", fields=(*FIELDS[:2], (name, VARIANT), ("w", other)))
        for name in ("v", RENAMED)
    )
    before.create().commit(at(1), wrote=[base_with_meta(before, "f1-0", at(1), "spark_object")])
    versions = [with_history(int(at(2)), RENAMED), with_history(0, "v")]
    latest = {"latest_schema": json.dumps(versions[0])}
    after.commit(at(2), action="commit", operation="ALTER_SCHEMA", extra=latest)
    (after.folder / ".hoodie/.schema").mkdir()
    (after.folder / f".hoodie/.schema/{at(2)}.schemacommit").write_text(json.dumps({"schemas": versions}))
    files = [base_with_meta(after, "f2-0", at(3), "duckdb_object")]
    rows = [{"id": "f1-0_rest", "ts": 9, RENAMED: PLAIN, "w": PLAIN}]
    files.append(after.log_file(at(3), [after.data_block(at(3), rows), after.delete_block(at(3), [("f1-0_empty", 9)])]))
    after.commit(at(3), wrote=files, extra=latest)
    table = after.open()
    assert [str(change) for version in table.schema_history for change in version.changes] == ["renamed v to renamed"]
    base = table.read_optimized()
    queries = {
        RENAMED: (
            table.snapshot(),
            base,
            table.snapshot(at(2)),
            table.incremental("earliest"),
            table.incremental(at(2)),
        ),
        "v": (table.snapshot(at(1)),),
    }
    for column, dataset in ((name, dataset) for name, datasets in queries.items() for dataset in datasets):
        whole = {row["id"]: row for row in dataset.to_table().to_pylist()}
        assert len(whole) > 20 or dataset.query_type == "incremental"
        assert all(row[column] == row["w"] for row in whole.values())
        for steps in PATHS[::7]:
            columns: Any = {"key": pc.field("_hoodie_record_key"), "time": pc.field("_hoodie_commit_time")}
            columns |= {"p": variant_path(column, *steps), "q": variant_path("w", *steps)}
            for row in dataset.to_table(columns, filter=pc.field("ts") >= 0).to_pylist():
                value, p, q = whole[row["key"]][column], row["p"], row["q"]
                assert (() if p is None else (decoded(**p),)) == (at_path(decoded(**value), steps) if value else ())
                assert (p, row["time"]) == (q, whole[row["key"]]["_hoodie_commit_time"])
    p, v = variant_path(RENAMED, "nest", "p"), pc.field(RENAMED)
    assert base.explain(columns={"p": p}).base_bytes < base.explain(columns={"p": v}).base_bytes / 2


def test_paths_beside_expressions_of_the_same_column(tmp_path: Path) -> None:
    snapshot = opened(with_base(tmp_path / "table", "spark_object")).snapshot()
    columns: Any = {
        "p": variant_path("v", "nest", "p"),
        "same": pc.field("v"),
        "q": variant_path("v", "nest", "q"),
        "is_null": pc.field("v").is_null(),
    }
    rows = snapshot.to_table(columns).to_pylist()
    whole = snapshot.to_table(["v"]).to_pylist()
    assert [row["same"] for row in rows] == [row["v"] for row in whole]
    for name, steps in (("p", ("nest", "p")), ("q", ("nest", "q"))):
        actual = [() if row[name] is None else (decoded(**row[name]),) for row in rows]
        assert actual == [at_path(decoded(**row["v"]), steps) if row["v"] else () for row in whole]
    assert len(snapshot.head(3, {"p": columns["p"]})) == 3
    assert snapshot.scanner({"p": columns["p"]}).projected_schema.names == ["p"]


def chunks(path: Path, *leaves: str) -> Iterator[Any]:
    """The column chunks of leaves."""
    footer = pq.read_metadata(path)
    for group in range(footer.num_row_groups):
        for number in range(footer.num_columns):
            chunk = footer.row_group(group).column(number)
            if chunk.path_in_schema in leaves:
                yield chunk


def leaves_of(path: Path) -> list[str]:
    footer = pq.read_metadata(path)
    return [footer.schema.column(number).path for number in range(footer.num_columns)]


def base_of(table: TableWriter) -> Path:
    (path,) = table.folder.glob("*.parquet")
    return path


NEST = "v.typed_value.nest.typed_value"
LEAVES_OF_P = ("v.metadata", f"{NEST}.p.value", f"{NEST}.p.typed_value")


@pytest.mark.parametrize("row_filter", [None, pc.field("id") == "inner_rest"], ids=["all", "key"])
def test_chunks_of_other_paths_are_not_read(tmp_path: Path, row_filter: pc.Expression | None) -> None:
    table = with_base(tmp_path / "table", "spark_object")
    expected = values_at(opened(table).snapshot(), ["nest", "p"], row_filter)
    path = base_of(table)
    content, names = bytearray(path.read_bytes()), leaves_of(path)
    for chunk in chunks(path, *(set(names) - {"id", "ts", *LEAVES_OF_P})):
        start = min(offset for offset in (chunk.dictionary_page_offset, chunk.data_page_offset) if offset)
        content[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(content)
    with pytest.raises(CorruptTableError):
        opened(table).snapshot().to_table(["v"])
    assert values_at(opened(table).snapshot(), ["nest", "p"], row_filter) == expected


def test_explain_counts_the_chunks_of_a_path(tmp_path: Path) -> None:
    table = with_base(tmp_path / "table", "spark_object")
    path, snapshot = base_of(table), opened(table).snapshot()

    def base_bytes(*leaves: str) -> int:
        return sum(chunk.total_compressed_size for chunk in chunks(path, *leaves))

    p, rest = variant_path("v", "nest", "p"), variant_path("v", "nowhere")
    assert snapshot.explain(columns={"p": p}).base_bytes == base_bytes(*LEAVES_OF_P)
    assert snapshot.explain(columns={"p": p, "rest": rest}).base_bytes == base_bytes(*LEAVES_OF_P, "v.value")
    names = [name for name in leaves_of(path) if name.startswith("v.")]
    of_whole: list[Any] = [{"v": pc.field("v"), "p": p}, {"p": variant_path("v")}]
    for whole in of_whole:
        assert snapshot.explain(columns=whole).base_bytes == base_bytes(*names)
    is_valid: Any = pc.field("v").is_valid()
    of_valid = snapshot.explain(filter=is_valid, columns={"p": p})
    assert of_valid.base_bytes == base_bytes(*names)


def test_a_store_is_asked_for_the_chunks_of_a_path(tmp_path: Path) -> None:
    table = created(tmp_path / "table")
    path = table.partition("") / f"f1-0_0-1-1_{at(1)}.parquet"
    count = 40_000
    texts, none = pa.array([f"{number * 7919 % 104729:0200x}" for number in range(count)]), pa.nulls(count, pa.binary())
    fields: dict[str, Any] = {"big": texts, "small": pa.array(range(count), pa.int32()), "rest": texts}
    groups = [pa.StructArray.from_arrays([none, typed], ["value", "typed_value"]) for typed in fields.values()]
    typed = pa.StructArray.from_arrays(groups, list(fields))
    metadata = pa.array([b"\x01\x03\x00\x03\x08\x0cbigsmallrest"] * count, pa.binary())
    values = pa.StructArray.from_arrays([metadata, none, typed], ["metadata", "value", "typed_value"])
    ids = pa.array([f"{number:05}" for number in range(count)])
    rows = pa.table({"id": ids, "ts": pa.array([1] * count, pa.int64()), "v": values})
    pq.write_table(rows, path, use_dictionary=False, compression="none", row_group_size=count // 2)
    table.commit(at(1), wrote=[path])
    files = CountingFileSystem()
    snapshot = HudiTable.open(str(table.folder), filesystem=files).snapshot()
    requests = files.reset()
    small = snapshot.to_table({"small": variant_path("v", "small")})
    first: Any = small["small"].to_pylist()[:2]
    assert [row["value"] for row in first] == [b"\x14" + bytes(4), b"\x14\x01\x00\x00\x00"]
    needed = sum(
        chunk.total_compressed_size
        for chunk in chunks(path, "v.metadata", *(f"v.typed_value.small.{part}" for part in ("value", "typed_value")))
    )
    # The chunks, small gaps between them, and the footer.
    assert needed <= requests.read_bytes < needed + (3 << 20) < path.stat().st_size // 3


def test_columns_that_are_no_variant_are_refused(tmp_path: Path) -> None:
    snapshot = opened(with_base(tmp_path / "table", "spark_number")).snapshot()
    for column in ("id", "nope"):
        with pytest.raises(QueryError, match=f"columns: found a path of '{column}', expected VARIANT columns: v"):
            snapshot.scanner({"x": variant_path(column, "a")})
    plain = TableWriter(folder=tmp_path / "plain", fields=FIELDS[:2]).create()
    plain.commit(at(1), wrote=[plain.base_file(at(1), [{"id": "a", "ts": 1}])])
    with pytest.raises(QueryError, match="VARIANT columns: none"):
        opened(plain).snapshot().scanner({"x": variant_path("id", "a")})


def test_a_value_that_cannot_be_decoded_names_the_table(tmp_path: Path) -> None:
    table = created(tmp_path / "table")
    block = table.data_block(at(1), [{"id": "a", "ts": 1, "v": {**PLAIN, "value": b"\x0c"}}])
    table.commit(at(1), wrote=[table.log_file(at(1), [block])])
    with pytest.raises(CorruptTableError, match="a value that is cut off, in the VARIANT column v"):
        opened(table).snapshot().to_table({"x": variant_path("v")})
