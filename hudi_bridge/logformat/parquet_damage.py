"""How damaged Parquet shows: by what pyarrow raises, and by footers that contradict themselves."""

import pyarrow as pa
import pyarrow.parquet as pq

# Names that are not text are a bare UnicodeDecodeError, a column that is not there a KeyError.
PARQUET_ERRORS = (ValueError, LookupError, OSError, pa.ArrowTypeError, pa.ArrowNotImplementedError)


def first_line(error: Exception) -> str:
    """What to say of an error of pyarrow, some of which go on for pages."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def contradiction(footer: pq.FileMetaData) -> tuple[str, str] | None:
    """What was found and what was expected in a footer that contradicts itself; None for one that does not.

    A flipped bit in a footer would otherwise be another column, or fewer rows.

    Source: ``ParquetMetadataConverter.fromParquetMetadata`` of Parquet for Java, which refuses a column chunk whose
    column the schema does not have.
    """
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    rows = sum(group.num_rows for group in groups)
    if rows != footer.num_rows:
        return f"row groups of {rows} rows", f"{footer.num_rows}"
    if any(group.num_columns != footer.num_columns for group in groups):
        return "row groups of other columns", f"{footer.num_columns} columns"
    if not footer.num_columns:
        return None
    # A value that is repeated is no row of its own.
    if not footer.schema.column(0).max_repetition_level:
        for group in groups:
            values = group.column(0).num_values
            if values != group.num_rows:
                return f"a row group of {group.num_rows} rows", f"{values}, as its first column has"
    # Later row groups are read by the place of their columns, not by name.
    for group in groups[:1]:
        for place in range(footer.num_columns):
            stored, named = group.column(place).path_in_schema, footer.schema.column(place).path
            if stored != named:
                return f"the column {named!r}", f"{stored!r}, as its data are named"
    return None
