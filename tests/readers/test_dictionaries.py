"""Meta columns that are read as dictionaries."""

import pyarrow as pa

from hudi_bridge.readers.dictionaries import DICTIONARY_COLUMNS, decoded_schema, without_dictionaries


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
    rows = without_dictionaries(stored)
    assert rows.schema.equals(decoded, check_metadata=True)
    assert rows.to_pydict() == stored.to_pydict()
