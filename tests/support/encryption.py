"""Writes Parquet files that are encrypted as Parquet defines it, and the properties that decrypt them."""

import base64
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

KEYS = {"footer": "0123456789abcdef", "column": "fedcba9876543210"}
WHOLE, COLUMNS = "whole", "columns"
FORMS = (WHOLE, COLUMNS)
"""The footer is encrypted, or in plain text; columns are encrypted in both."""


class Kms(pe.KmsClient):
    """Keys that are wrapped by their names; some of them are missing, others wrong."""

    def __init__(self, _: pe.KmsConnectionConfig, missing: Collection[str], wrong: Collection[str]) -> None:
        super().__init__()
        self._missing = missing
        self._wrong = wrong

    def wrap_key(self, key: bytes, master_key: str) -> str:
        return base64.b64encode(KEYS[master_key].encode() + key).decode()

    def unwrap_key(self, wrapped: str, master_key: str) -> Any:
        if master_key in self._missing:
            raise PermissionError(f"no access to the key {master_key}")
        key = base64.b64decode(wrapped)[len(KEYS[master_key]) :]
        return bytes(reversed(key)) if master_key in self._wrong else key


def _factory(missing: Collection[str] = (), wrong: Collection[str] = ()) -> pe.CryptoFactory:
    return pe.CryptoFactory(partial(Kms, missing=missing, wrong=wrong))


def decryption(missing: Collection[str] = (), wrong: Collection[str] = ()) -> Any:
    """Properties that decrypt all files, without the keys that are missing."""
    factory = _factory(missing, wrong)
    return factory.file_decryption_properties(pe.KmsConnectionConfig(), pe.DecryptionConfiguration())


def encrypted(
    rows: pa.Table, form: str, columns: Sequence[str] | None = None, row_group_size: int | None = None
) -> bytes:
    """A Parquet file in one of the forms, with the key ``column`` for some columns of values, by default for all."""
    leaves = _leaves(rows) if columns is None else list(columns)
    settings = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": leaves}, plaintext_footer=form == COLUMNS
    )
    properties = _factory().file_encryption_properties(pe.KmsConnectionConfig(), settings)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema, encryption_properties=properties) as writer:
        writer.write_table(rows, row_group_size)
    return sink.getvalue().to_pybytes()


def _leaves(rows: pa.Table) -> list[str]:
    sink = pa.BufferOutputStream()
    pq.write_table(rows.slice(0, 0), sink)
    footer = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    return [footer.schema.column(number).path for number in range(footer.num_columns)]


def encrypt_base_files(folder: Path, form: str) -> list[Path]:
    """Encrypt all columns of all Parquet files of a folder, but of Hudi's own; returns their paths."""
    paths = sorted(path for path in folder.rglob("*.parquet") if ".hoodie" not in path.parts)
    for path in paths:
        path.write_bytes(encrypted(pq.ParquetFile(path).read(), form))
    return paths
