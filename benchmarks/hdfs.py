"""Times reads through ``hdfs://`` beside the same local ones: ``python -m benchmarks.hdfs --size small``.

The cluster is that of the tests: two NameNodes and a DataNode in one JVM on the loopback. It needs the extra ``hdfs``
and a JDK. Other readers are asked as well, and say why they read nothing: ``hudi`` knows no HDFS, and pyarrow needs
libhdfs. Requests are calls of clients to the NameNode, and reads of blocks from the DataNode. ``--keep`` writes the
page into ``results/``.
"""

import argparse
import os
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from benchmarks import page
from benchmarks.aims import Aims
from benchmarks.make_tables import default_cache
from benchmarks.readings import FLOOR, PEER
from benchmarks.results_folder import keep
from benchmarks.run import run_cases
from benchmarks.store import Counted, Store
from benchmarks.suite import BOTH, MOST_SLICES_FAR, SIZES, Case, Size, cases
from tests.integration.hdfs_cluster import HdfsCluster, running_hdfs


class HdfsStore(Store):
    """A cluster of HDFS as a store, into which a folder is uploaded when its URI is first asked for."""

    def __init__(self, cluster: HdfsCluster, root: Path) -> None:
        self._cluster, self._root = cluster, root
        self._uris: dict[Path, str] = {}
        self._before = cluster.requests()

    def uri(self, folder: Path) -> str:
        """The URI of a folder below the root."""
        if folder not in self._uris:
            self._uris[folder] = self._cluster.put(folder, f"/{folder.relative_to(self._root).as_posix()}")
        return self._uris[folder]

    def reset(self) -> None:
        """Count anew."""
        self._before = self._cluster.requests()

    def counted(self) -> Counted:
        """What was counted since ``reset``; bytes, and requests at once, are not known."""
        requests = self._cluster.requests() - self._before
        return Counted(requests=dict(requests), sent_bytes=0, most_at_once=0)


def chosen_cases(size: Size) -> list[Case]:
    """The cases: one large file slice and many small ones, near and in HDFS."""
    most = max(number for number in size.slices if number <= MOST_SLICES_FAR)
    reads = {"updates-10": BOTH, f"slices-{most}": BOTH[:1]}
    near = [replace(case, reads=reads[case.name]) for case in cases(size) if case.name in reads]
    far = [replace(case, name=f"hdfs-{case.name}", about=f"{case.about}; in HDFS", is_far=True) for case in near]
    return [*near, *far]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="standard", help="of the tables (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each read and reader (default: %(default)s)")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="default: %(default)s")
    parser.add_argument("--keep", action="store_true", help="write the page into results/")
    given = parser.parse_args()
    cache = given.cache.resolve()
    with tempfile.TemporaryDirectory() as scratch, running_hdfs(Path(scratch)) as cluster:
        os.environ["HADOOP_CONF_DIR"] = str(cluster.settings)
        run = run_cases(
            chosen_cases(SIZES[given.size]),
            cache,
            size=f"hdfs-{given.size}",
            rounds=given.rounds,
            readers=(PEER, FLOOR),
            store=nullcontext(HdfsStore(cluster, cache)),
        )
    text = page.markdown(run, Aims(aims={}, reached={}))
    if given.keep:
        keep(text, run.size)
    print(text, flush=True)


if __name__ == "__main__":
    main()
