import subprocess
import sys

PROGRAM = """
from pathlib import Path

import pyarrow as pa

from hudi_bridge.connectors.spark.worker_memory import returning_memory


def resident_megabytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20


def work():
    texts = pa.chunked_array([pa.array(["abcdefghij" * 10] * 1000) for _ in range(600)])
    return len(texts.combine_chunks())


with returning_memory():
    work()
    held = resident_megabytes()
print(held - resident_megabytes())
"""


def test_what_a_task_has_freed_goes_back_to_the_system() -> None:
    found = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    # The task had 120 MB at its peak.
    assert int(found.stdout) > 40
