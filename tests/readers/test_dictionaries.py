"""Meta columns that are read as dictionaries."""

import pyarrow as pa

from hudi_bridge.readers.base_file import DICTIONARY_COLUMNS, PlainColumns, decoded_schema


def test_meta_columns_are_plain_text_and_all_else_is_kept() -> None:
    text = pa.array(["x", "y", "x"])
    columns = {name: text.dictionary_encode() for name in (*DICTIONARY_COLUMNS, "own")} | {"id": text}
    labelled = pa.schema(
        [pa.field(name, column.type, metadata={"of": name}) for name, column in columns.items()], {"filter": "bits"}
    )
    stored = pa.record_batch(list(columns.values()), schema=labelled)
    decoded = decoded_schema(stored.schema)
    assert [field.type for field in decoded] == [*[pa.string()] * 3, columns["own"].type, pa.string()]
    assert decoded.metadata == labelled.metadata
    assert [field.metadata for field in decoded] == [field.metadata for field in labelled]
    rows = PlainColumns().without_dictionaries(stored)
    assert rows.schema.equals(decoded, check_metadata=True)
    assert rows.to_pydict() == stored.to_pydict()


def test_batches_share_a_text_that_all_rows_have() -> None:
    name = DICTIONARY_COLUMNS[0]
    plain = PlainColumns()
    rows: list[list[str | None]] = [["x"] * 3, ["x"] * 2, ["x"] * 4, ["y"] * 3, [], ["x", None], [None], ["x"] * 4]
    actual = []
    for values in rows:
        stored = pa.record_batch({name: pa.array(values, pa.string()).dictionary_encode()})
        column = plain.without_dictionaries(stored).column(0)
        assert column.type == pa.string()
        assert column.to_pylist() == values
        values_of = column.buffers()[-1]
        assert values_of is not None
        actual.append(values_of.address)
    assert actual[0] == actual[1] != actual[2]
    null = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array([None], pa.string()))
    stored = pa.record_batch({name: null})
    assert plain.without_dictionaries(stored).column(0).to_pylist() == [None, None]
