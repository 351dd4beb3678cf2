"""A table of so many slices that one client asks for a few."""

from pathlib import Path

from tests.support.table_writer import KEY_AND_VALUE, TableWriter, at

SLICES = 100


def table_of_many_slices(folder: Path) -> TableWriter:
    """A table of many partitions, of which each has a base file and a log file."""
    table = TableWriter(
        folder=folder,
        partition_fields=("part",),
        fields=(*KEY_AND_VALUE, ("part", "int")),
        options={"hoodie.table.keygenerator.type": "SIMPLE"},
    ).create()
    names = [f"part={number:03d}" for number in range(SLICES)]
    for number, name in enumerate(names):
        key = f"k{number}"
        first = [{"id": key, "ts": 1, "value": "old", "part": number}, {"id": f"{key}x", "ts": 1, "part": number}]
        table.base_file(at(1), first, partition=name, file_id=f"f{number}", with_key_index=True)
    table.commit(at(1))
    for number, name in enumerate(names):
        block = table.data_block(at(2), [{"id": f"k{number}", "ts": 2, "value": "new", "part": number}])
        table.log_file(at(2), [block], base_instant=at(1), partition=name, file_id=f"f{number}")
    table.commit(at(2))
    return table
