"""The condition of ``--where`` as a test of single rows, for commands that ask it of several versions of a record."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.cli.rows_session import in_sql, pushed_filter, rows_where
from hudi_bridge.cli.session import connection_in_utc
from hudi_bridge.cli.sources import SHORT_NAME
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.readers.request import referenced_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCondition:
    """A condition, and the columns that it needs; threads take turns.

    ``row_filter`` is what Arrow can tell of it: all rows that meet the condition pass.
    """

    columns: tuple[str, ...]
    row_filter: pc.Expression | None
    _connection: duckdb.DuckDBPyConnection
    _lock: Lock
    _name: str
    _sql_names: Mapping[str, str]
    _condition: str

    def passes(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Which rows of a batch with the ``columns`` meet the condition."""
        number = "".join(rows.schema.names) + "#"
        numbers = pa.array(np.arange(rows.num_rows))
        names = [*(self._sql_names[name] for name in rows.schema.names), number]
        numbered = pa.table([*rows.columns, numbers], names=names)
        passes = np.zeros(rows.num_rows, dtype=np.bool_)
        with self._lock:
            view = self._connection.from_arrow(numbered)
            for name in dict.fromkeys((self._name, SHORT_NAME)):
                view.create_view(name, replace=True)
            found = self._connection.sql(rows_where(self._name, [number], self._condition)).fetchnumpy()
        passes[np.asarray(found[number], dtype=np.int64)] = True
        return passes


@contextmanager
def row_condition(dataset: HudiDataset, name: str, condition: str) -> Iterator[RowCondition]:
    """The condition on rows with the columns of a dataset, which has a name in it; nothing is read of the dataset.

    Raises:
        QueryError: the condition reads the table again, as in a subquery.
        duckdb.Error: the condition cannot be understood.
    """
    schema = dataset.schema
    asked, row_filter = pushed_filter(dataset, name, schema.names[:1], condition)
    used = {*asked, *(() if row_filter is None else referenced_columns(row_filter, schema))}
    columns = tuple(column for column in schema.names if column in used)
    with connection_in_utc() as connection:
        yield RowCondition(
            columns=columns,
            row_filter=row_filter,
            _connection=connection,
            _lock=Lock(),
            _name=name,
            _sql_names=dict(zip(columns, in_sql(schema, columns), strict=True)),
            _condition=condition,
        )
