"""How many tasks run at the same time: what Spark does not tell a Python source.

The number of cores of the driver's machine that this process may use; OTTLA_SPARK_CORES says it better where it is
known (session.py sets it). It only counts for small batches: large ones have one task for each partition.
A task costs 30 ms, so the small batches of a stream have one for each TASK_OFFSETS. Who does heavy work for each row
says minPartitions.
"""

from __future__ import annotations

import os
import re
from typing import Final

CORES_VARIABLE: Final = "OTTLA_SPARK_CORES"
CORES_MAX: Final = 4096
TASK_OFFSETS: Final = 1_000


def core_count() -> int:
    """At least one."""
    said = os.environ.get(CORES_VARIABLE, "")
    if said.isdecimal() and 1 <= int(said) <= CORES_MAX:
        return int(said)
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def local_cores(master: str) -> int:
    """How many tasks a local master runs at once: local[4] says four, local[*] as many as there are cores."""
    chosen = re.match(r"local\[(\d+)", master)
    if chosen is not None:
        return max(1, int(chosen[1]))
    return core_count() if "*" in master else 1


def task_count(offsets: int) -> int:
    """How many tasks a batch of so many offsets is worth: at most one for each core."""
    return max(1, min(core_count(), -(-offsets // TASK_OFFSETS)))
