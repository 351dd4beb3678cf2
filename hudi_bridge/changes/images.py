"""Changes of records with their images before and after, and the record batches made of them."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.changes.json_text import AVRO, JACKSON, JACKSON_WITH_DIGITS, json_texts
from hudi_bridge.changes.split import AFTER, BEFORE, INSTANT, OPERATION, ChangeFormat, ChangeSplit
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.arrays import Column
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.schema.avro_types import AvroRecord
from hudi_bridge.schema.meta_columns import META_COLUMNS, OPERATION_COLUMN, own_columns

INSERT, UPDATE, DELETE = "i", "u", "d"
_NOT_STORED = (*META_COLUMNS, OPERATION_COLUMN)

Structs: TypeAlias = "pa.StructArray"


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """One state of some records, as structs of the table's columns; null where the record did not exist.

    ``is_logged`` is whether the writer has stored the images in a change data file, without meta columns. ``logged_as``
    is their Avro type if they are in a block. Hudi writes their JSON in another style then, with the word null for a
    missing image.
    """

    rows: Structs
    is_logged: bool = False
    logged_as: AvroRecord | None = None

    def json(self, split: ChangeSplit) -> Column:
        """The images as JSON texts."""
        if not self.is_logged:
            return json_texts(self.rows, JACKSON_WITH_DIGITS if split.digits else JACKSON)
        names = [name for name in split.image.schema.names if name not in _NOT_STORED]
        children = dict(zip(split.image.schema.names, self.rows.flatten(), strict=True))
        stored = structs([children[name] for name in names], names, self.rows.is_null())
        if self.logged_as is None:
            return json_texts(stored, JACKSON)
        return json_texts(stored, AVRO, self.logged_as).fill_null("null")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes as columns: the operations, the instants of their commits, and the images before and after."""

    operations: Column
    instants: Column
    before: Images
    after: Images

    def batch(self, split: ChangeSplit, request: RowRequest) -> pa.RecordBatch:
        """The changes that pass the request's filter, with its columns; only images that it needs are made."""
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


def own_images(schema: pa.Schema) -> dict[str, pc.Expression]:
    """The columns of changes as expressions that leave meta columns out of the images.

    Raises:
        QueryError: the images are JSON, as in Hudi's queries.
    """
    columns = {name: pc.field(name) for name in schema.names}
    for name in (BEFORE, AFTER):
        kind: Any = schema.field(name).type
        if not pa.types.is_struct(kind):
            raise QueryError("meta_columns", "False for images that are JSON", f"the format {ChangeFormat.ROWS}")
        names = own_columns(field.name for field in kind)
        image = pc.make_struct(*(pc.field(name, field) for field in names), field_names=names)
        missing = pa.scalar(None, pa.struct([kind.field(field) for field in names]))
        columns[name] = pc.if_else(pc.field(name).is_valid(), image, missing)
    return columns


def structs(columns: list[Column], names: list[str], is_null: "pa.BooleanArray | None" = None) -> Structs:
    """Columns as an array of structs."""
    fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=is_null)


def structs_of(rows: pa.Table) -> Structs:
    """The rows of a table, no more than fit a batch, as structs."""
    columns: list[Any] = [column.combine_chunks() for column in rows.columns]
    columns = [pa.concat_arrays(child.chunks) if isinstance(child, pa.ChunkedArray) else child for child in columns]
    return structs(columns, rows.column_names)


def no_images(schema: pa.Schema, count: int) -> Images:
    """The null images of records that do not exist."""
    return Images(rows=pa.nulls(count, pa.struct(list(schema))))


def repeated(text: str, count: int) -> Column:
    """A column that repeats one text."""
    return pa.repeat(text, count)
