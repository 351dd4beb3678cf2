"""Floating-point columns of a file that is written: how many values are NaN, and the bounds of the others.

Source: the Iceberg specification, "Manifests": bounds leave NaN out.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.connectors.iceberg.data_files import DataFile

_FORMATS: Mapping[pa.DataType, str] = {pa.float32(): "<f", pa.float64(): "<d"}


@dataclass(slots=True, kw_only=True)
class _Seen:
    nans: int = 0
    least: float | None = None
    greatest: float | None = None


@dataclass(slots=True, kw_only=True)
class RealColumns:
    """What has been seen of the floating-point columns of a schema that are not nested.

    ``ids`` are the field ids of columns.
    """

    schema: pa.Schema
    ids: Mapping[str, int]
    _seen: dict[str, _Seen] = field(default_factory=dict)

    def note(self, rows: pa.Table) -> None:
        """Look at some rows of the file."""
        for column in self.schema:
            if column.type in _FORMATS:
                self._note(column.name, rows.column(column.name))

    def _note(self, name: str, values: Any) -> None:  # noqa: ANN401 - the stubs lack chunked arrays of numbers
        seen = self._seen.setdefault(name, _Seen())
        is_nan: Any = pc.is_nan(values)
        seen.nans += pc.sum(is_nan).as_py() or 0
        bounds: Any = pc.min_max(values.filter(pc.invert(is_nan)))
        least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
        if least is not None:
            seen.least = least if seen.least is None else min(seen.least, least)
            seen.greatest = greatest if seen.greatest is None else max(seen.greatest, greatest)

    def described(self, file: DataFile) -> DataFile:
        """The file with the counts of NaN, and with bounds of columns without NaN: some engines put it above all."""
        nans = {self.ids[name]: seen.nans for name, seen in self._seen.items()}
        lower, upper = dict(file.lower_bounds), dict(file.upper_bounds)
        for name, seen in self._seen.items():
            if seen.nans or seen.least is None or seen.greatest is None:
                continue
            form = _FORMATS[self.schema.field(name).type]
            # Clients compare -0.0 as less than 0.0; conditions do not.
            lower[self.ids[name]] = struct.pack(form, seen.least or -0.0)
            upper[self.ids[name]] = struct.pack(form, seen.greatest or 0.0)
        return replace(file, nan_counts=nans, lower_bounds=lower, upper_bounds=upper)
