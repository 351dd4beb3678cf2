"""The same rows by any way: with and without the metadata table and data skipping, by filters, counts and columns.

Tables are golden ones of all groups, spread over the archives, and made ones, where features meet that no golden table
has together; values of filters come from their rows.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiDataset, HudiReadError, HudiTable, UnsupportedTableError
from hudi_bridge.splits import table_files
from tests.support.compare import differences
from tests.support.encryption import COLUMNS, decryption, encrypted
from tests.support.golden_cases import golden_table, spread
from tests.support.golden_queries import QUERIES
from tests.support.lsm_tables import LSM_TREE, sort_file
from tests.support.shredded_tables import FIELDS, FILES, PLAIN, created
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at, sorted_column
from tests.support.version_10 import UNRELEASED

Query = Callable[[HudiTable], HudiDataset]
CASES = spread(sorted({query.case for query in QUERIES.values()}), 60)
OTHER_WAYS = ({"hoodie.metadata.enable": "false"}, {"hoodie.enable.data.skipping": "false"})


def queries(table: HudiTable, random: Random) -> Iterator[tuple[str, Query]]:
    yield "snapshot", lambda table: table.snapshot()
    yield "read optimized", lambda table: table.read_optimized()
    yield "all commits", lambda table: table.incremental("earliest")
    commits = table.timeline.commits()
    if commits:
        commit, last = random.choice(commits), random.choice(commits)
        end = max(commit.completion_time or commit.requested_time, last.completion_time or last.requested_time)
        yield "time travel", lambda table: table.snapshot(commit.requested_time)
        yield "some commits", lambda table: table.incremental(commit.completion_time or commit.requested_time)
        yield "first commits", lambda table: table.incremental("earliest", end)


def conditions(rows: pa.Table, random: Random) -> Iterator[pc.Expression]:
    """Conditions on columns and fields of structs, with values that there are."""
    paths: list[tuple[tuple[str, ...], Any]] = []
    for outer in rows.schema:
        inner = outer.type if pa.types.is_struct(outer.type) else ()
        paths += [((outer.name,), outer.type), *(((outer.name, part.name), part.type) for part in inner)]
    plain = [(path, kind) for path, kind in paths if not pa.types.is_nested(kind) and kind.num_fields == 0]
    for path, kind in random.sample(plain, min(3, len(plain))):
        column: Any = rows[path[0]] if len(path) == 1 else pc.struct_field(rows[path[0]], path[1])
        values = column.drop_null()
        field: Any = pc.field(*path)
        if not len(values) or isinstance(kind, pa.BaseExtensionType):
            yield field.is_null()
            continue
        value = values[random.randrange(len(values))]
        yield random.choice([field == value, field < value, field >= value, field.is_valid(), field.is_null()])


def require_same_rows(opened: Callable[[Mapping[str, str]], HudiTable], random: Random) -> None:
    """Requires the rows of the whole table, by any way; ``opened`` takes read options."""
    table, *others = map(opened, ({}, *OTHER_WAYS))
    for name, query in queries(table, random):
        try:
            dataset = query(table)
            rows = dataset.to_table()
        except HudiReadError as error:
            for other in others:
                with pytest.raises(type(error)):
                    query(other).to_table()
            continue
        for other in others:
            assert differences(rows, query(other).to_table()) == [], name
        columns = random.sample(rows.schema.names, min(3, rows.num_columns))
        assert differences(rows.select(columns), dataset.to_table(columns)) == [], (name, columns)
        for condition in (None, *conditions(rows, random)):
            expected = rows if condition is None else rows.filter(condition)
            assert differences(expected, dataset.to_table(filter=condition)) == [], (name, condition)
            assert dataset.count_rows(condition) == expected.num_rows, (name, condition)
            assert dataset.to_table(columns=[], filter=condition).num_rows == expected.num_rows, (name, condition)
            assert dataset.head(2, filter=condition).num_rows == min(2, expected.num_rows), (name, condition)


@pytest.mark.parametrize("case", one_in(31, CASES))
def test_rows_do_not_depend_on_the_way(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The metadata table lists the files, of few folders too.
    monkeypatch.setattr(table_files, "_FEW_FOLDERS", 0)
    require_same_rows(lambda options: HudiTable.open(golden_table(case), options=options), Random(case))


def rows_of_one_key(folder: Path, version: int, keys: Sequence[str] = "aabccdee") -> TableWriter:
    """Record keys that are in a base file twice, and in another file group; logs that match, delete and insert them."""
    table = TableWriter(folder=folder, version=version).create()
    rows = [{"id": key, "ts": number, "value": f"{key}{number}"} for number, key in enumerate(keys)]
    others = [{"id": key, "ts": 9, "value": "other"} for key in "azz"]
    bases = [table.base_file(at(1), rows, row_group_size=2, with_key_index=True)]
    bases.append(table.base_file(at(1), others, file_id="f2-0", row_group_size=1, with_key_index=True))
    table.commit(at(1), wrote=bases)
    updates = [{"id": key, "ts": 20, "value": f"log {key}"} for key in "aenn"]
    if version > 9:
        logs = [table.native_log(at(2), updates), table.native_deletes(at(2), [("c", 20)])]
    else:
        blocks = [table.data_block(at(2), updates), table.delete_block(at(2), [("c", 20)])]
        logs = [table.log_file(at(2), blocks, base_instant=at(1))]
    table.commit(at(2), wrote=logs)
    return table


@pytest.mark.parametrize(
    ("version", "form"),
    [(6, None), (9, None), (10, None), (10, COLUMNS), pytest.param(9, COLUMNS, marks=pytest.mark.long)],
)
def test_rows_of_one_key_do_not_depend_on_the_way(tmp_path: Path, version: int, form: str | None) -> None:
    table = rows_of_one_key(tmp_path, version)
    unreleased = UNRELEASED if version > 9 else {}
    plain = HudiTable.open(tmp_path, options=unreleased).snapshot().to_table()
    for path in tmp_path.glob("f?-0_*.parquet") if form is not None else ():
        if at(1) in path.name:
            path.write_bytes(encrypted(pq.read_table(path), str(form), row_group_size=2))
    keys = {} if form is None else {"decryption_properties": decryption()}

    def opened(options: Mapping[str, str]) -> HudiTable:
        return HudiTable.open(table.folder, options={**unreleased, **options}, **keys)

    assert differences(plain, opened({}).snapshot().to_table()) == []
    require_same_rows(opened, Random(version))
    for key in "acenz?":
        of_key = plain.filter(pc.field("id") == key)
        assert differences(of_key, opened({}).get([key])) == [], key
        assert opened({}).snapshot().count_rows(pc.field("_hoodie_record_key") == key) == of_key.num_rows, key
    if form is not None:
        for other in ({}, *OTHER_WAYS):
            with pytest.raises(UnsupportedTableError, match="has encrypted columns"):
                HudiTable.open(table.folder, options={**unreleased, **other}).snapshot().head(1)


@pytest.mark.parametrize("is_tree", [False, True])
def test_shredded_values_do_not_depend_on_the_way(tmp_path: Path, is_tree: bool) -> None:
    layout = LSM_TREE if is_tree else {}
    table = created(tmp_path, version=10, options=layout, fields=(*FIELDS, ("added", "int")))
    base = table.partition("") / f"f1-0_0-1-1_{at(1)}.parquet"
    shutil.copyfile(FILES / "spark_object.parquet", base)
    if is_tree:
        sort_file(base, ["id"])
    table.commit(at(1), wrote=[base])
    first, second, *_, last = sorted_column(pq.read_table(base), "id")
    rows = [{"id": first, "ts": 5, "v": PLAIN, "added": 1}, {"id": "~", "ts": 5, "v": None, "added": 2}]
    table.commit(at(2), wrote=[table.native_log(at(2), rows)])
    deletes = table.native_deletes(at(3), [(last, 9)])
    partial = (
        [] if is_tree else [table.native_log(at(3), [{"id": second, "ts": 6, "added": 3}], only=["id", "ts", "added"])]
    )
    table.commit(at(3), wrote=[*partial, deletes])
    require_same_rows(
        lambda options: HudiTable.open(tmp_path, options={**UNRELEASED, **options}), Random(tmp_path.name)
    )
