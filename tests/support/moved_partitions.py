"""Tables whose partition columns have other values than the names of their folders."""

from pathlib import Path

from tests.support.table_writer import KEY_AND_VALUE, Row, TableWriter, at


def moved(folder: Path) -> TableWriter:
    """A table of 0.x whose rows have other values than their paths.

    An index over all partitions has left two updated records where they were, in a base file and in a log, and a file
    system has dropped the slash of ``a/``.
    """
    fields = (*KEY_AND_VALUE, ("part", "string"))
    writer = TableWriter(folder=folder, version=6, fields=fields, partition_fields=("part",)).create()

    def row(key: str, ts: int, part: str) -> Row:
        return {"id": key, "ts": ts, "value": "v", "part": part}

    in_a = [row("k1", 1, "a"), row("k2", 1, "b"), row("k3", 1, "a/")]
    in_b = [row("k4", 1, "b"), row("k5", 1, "b")]
    bases = [
        writer.base_file(at(1), rows, partition=path, file_id=f"{path}-0") for path, rows in (("a", in_a), ("b", in_b))
    ]
    writer.commit(at(1), wrote=bases)
    block = writer.data_block(at(2), [row("k4", 2, "a"), row("k5", 2, "a/")], file_id="b-0", partition="b")
    log = writer.log_file(at(2), [block], base_instant=at(1), file_id="b-0", partition="b")
    writer.commit(at(2), wrote=[log])
    return writer


MOVED_KEYS = {"a": ["k1", "k4"], "b": ["k2"], "a/": ["k3", "k5"]}
