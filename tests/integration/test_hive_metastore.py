"""Tables that Hudi's own sync has registered in a real Hive metastore."""

from pathlib import Path

import pytest

from hudi_bridge import HudiTable, QueryType
from hudi_bridge.catalogs.uris import open_catalog
from hudi_bridge.errors import TableNotFoundError
from tests.catalogs.rows import rows_of
from tests.integration.hive_metastore import running_metastore, sync
from tests.support.golden_cases import golden_trips


@pytest.mark.jvm
def test_tables_are_found_by_the_names_that_hudi_has_registered(tmp_path: Path) -> None:
    folder = golden_trips() / "trips"
    by_path = HudiTable.open(folder)
    with running_metastore(tmp_path) as uri:
        sync(folder, uri, "city", "trips", "city")
        catalog = open_catalog(uri)
        assert catalog.namespaces() == [("city",), ("default",)]
        assert catalog.table_names(("city",)) == ["trips", "trips_ro", "trips_rt"]
        assert catalog.table_names(("default",)) == catalog.table_names(("missing",)) == []
        tables = {name: HudiTable.open(f"{uri}/city.{name}") for name in catalog.table_names(("city",))}
        for database in ("city", "missing"):
            with pytest.raises(TableNotFoundError, match="has no Hudi table"):
                HudiTable.open(f"{uri}/{database}.missing")
    assert tables["trips_ro"].query_type is QueryType.READ_OPTIMIZED
    assert rows_of(tables["trips_ro"].query()) == rows_of(by_path.read_optimized())
    for name in ("trips", "trips_rt"):
        assert rows_of(tables[name].query()) == rows_of(by_path.snapshot())
