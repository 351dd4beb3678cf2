"""Changes as they are found -> record batches with the columns of changes, images as structs or as JSON texts."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from hudi_bridge.changes.json_text import AVRO, JACKSON, JACKSON_WITH_DIGITS, json_texts
from hudi_bridge.changes.split import AFTER, BEFORE, INSTANT, OPERATION, ChangeFormat, ChangeSplit
from hudi_bridge.merge.arrays import Column
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.schema.avro_types import AvroRecord
from hudi_bridge.schema.meta_columns import META_COLUMNS, OPERATION_COLUMN

INSERT, UPDATE, DELETE = "i", "u", "d"
_NOT_STORED = (*META_COLUMNS, OPERATION_COLUMN)

Structs: TypeAlias = "pa.StructArray"


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """One state of some records, a struct of the table's columns each, null where the record was not there.

    ``logged_as`` is the type in which a writer has stored the images. Hudi writes JSON of such images in another way,
    in which an image that is not there is the word null, and without the meta columns, which are not stored.
    """

    rows: Structs
    logged_as: AvroRecord | None = None

    def json(self, split: ChangeSplit) -> Column:
        """The images as JSON texts."""
        if self.logged_as is None:
            return json_texts(self.rows, JACKSON_WITH_DIGITS if split.digits else JACKSON)
        names = [name for name in split.image.schema.names if name not in _NOT_STORED]
        children = dict(zip(split.image.schema.names, self.rows.flatten(), strict=True))
        stored = structs([children[name] for name in names], names, self.rows.is_null())
        return json_texts(stored, AVRO, self.logged_as).fill_null("null")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Some changes: operations, the instants of the commits that made them, and both images."""

    operations: Column
    instants: Column
    before: Images
    after: Images

    def batch(self, split: ChangeSplit, request: RowRequest) -> pa.RecordBatch:
        """Those that pass the request's filter, with its columns; images that nobody asks for are not made."""
        schema = pa.schema([split.context.schema.field(name) for name in request.needed])
        columns = [self._column(name, split) for name in schema.names]
        return request.apply(pa.record_batch(columns, schema=schema))

    def _column(self, name: str, split: ChangeSplit) -> Column:
        if name == OPERATION:
            return self.operations
        if name == INSTANT:
            return self.instants
        images = {BEFORE: self.before, AFTER: self.after}[name]
        return images.json(split) if split.change_format is ChangeFormat.CDC else images.rows


def structs(columns: list[Column], names: list[str], is_null: "pa.BooleanArray | None" = None) -> Structs:
    """Columns as structs."""
    fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=is_null)


def structs_of(rows: pa.Table) -> Structs:
    """The rows of a table as structs; for as many rows as a batch has."""
    columns: list[Any] = [column.combine_chunks() for column in rows.columns]
    columns = [pa.concat_arrays(one.chunks) if isinstance(one, pa.ChunkedArray) else one for one in columns]
    return structs(columns, rows.column_names)


def no_images(schema: pa.Schema, count: int) -> Images:
    """The images of records that are not there."""
    return Images(rows=pa.nulls(count, pa.struct(list(schema))))


def repeated(text: str, count: int) -> Column:
    """A column of one text."""
    return pa.repeat(text, count)
