"""A mistake of this package, or a failing store, is never told as a damaged file."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import CorruptBaseFileError, CorruptTableError, HudiTable, MergeError, StorageError
from hudi_bridge.errors import DataFileGoneError, SchemaEvolutionError
from hudi_bridge.logformat.parquet import PARQUET_ERRORS
from hudi_bridge.readers.base_formats.legacy_dates import LegacyDates
from hudi_bridge.tools.checks.examination import examine
from hudi_bridge.tools.checks.findings import remedy_of
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at

ROWS = [{"id": "a", "ts": 1, "value": "x"}, {"id": "b", "ts": 2, "value": "y"}]
MISTAKES = (KeyError("a column"), IndexError("a place"), ValueError("a value"))
FILTERED = pc.field("ts") > 0
"""A filter, with which a slice is read alone."""


def table_with_parquet_log() -> HudiTable:
    return HudiTable.open(golden_table("c_parquet_blocks_120"))


def plain_table(folder: Path) -> HudiTable:
    table = TableWriter(folder=folder / "t").create()
    table.commit(at(1), wrote=[table.base_file(at(1), ROWS)])
    return table.open()


@pytest.mark.parametrize("mistake", MISTAKES, ids=repr)
@pytest.mark.parametrize("method", ["iter_batches", "read"])
def test_a_mistake_comes_through_as_it_is(
    method: str, mistake: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise mistake

    table = plain_table(tmp_path) if method == "iter_batches" else table_with_parquet_log()
    monkeypatch.setattr(pq.ParquetFile, method, fail)
    with pytest.raises(type(mistake)) as raised:
        table.snapshot().to_table(filter=FILTERED)
    assert not isinstance(raised.value, (CorruptTableError, pa.ArrowException))


def test_an_error_of_converting_dates_is_not_one_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        columns = frozenset(("ts",))

        def require_known(self, columns: object) -> None:
            """All are."""

        def rebased(self, rows: pa.RecordBatch) -> pa.RecordBatch:
            raise pa.ArrowInvalid(f"a cast of ours, of {rows.num_rows} rows")

    monkeypatch.setattr(LegacyDates, "of", lambda *_: Failing())
    with pytest.raises(pa.ArrowInvalid, match="a cast of ours"):
        plain_table(tmp_path).snapshot().to_table(filter=FILTERED)


@pytest.mark.parametrize("error", [pa.ArrowInvalid("not Parquet"), OSError("no footer"), pa.ArrowNotImplementedError()])
def test_what_arrow_says_of_a_file_is_damage(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", fail)
    with pytest.raises(CorruptBaseFileError):
        plain_table(tmp_path).snapshot().to_table(filter=FILTERED)


def test_arrow_errors_hold_no_plain_ones() -> None:
    assert not any(isinstance(mistake, PARQUET_ERRORS) for mistake in MISTAKES)


def test_only_damage_is_restored_from_a_backup() -> None:
    backup = "restore the file from a backup"
    assert remedy_of(CorruptBaseFileError("f", None, "x", "y"), backup) == backup
    for error in (StorageError("f", "read", "no answer"), DataFileGoneError("f", "1", None)):
        assert "try again" in str(remedy_of(error, backup))
    for other in (SchemaEvolutionError("c", "a", "b", "f"), MergeError("m", "k", "r"), pa.ArrowInvalid("x")):
        assert remedy_of(other, backup) is None


def test_doctor_advises_no_backup_where_the_store_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise StorageError("f1", "read", "no answer")

    path = Path(plain_table(tmp_path).path)
    monkeypatch.setattr("hudi_bridge.tools.checks.examined._read_footer", fail)
    (finding,) = (item for item in examine(path).findings if item.check == "base-footers")
    assert "try again" in str(finding.remedy)
