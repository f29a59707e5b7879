"""How many tasks run at the same time: what Spark does not tell a Python source.

The number of cores of the driver's machine that this process may use; OTTLA_SPARK_CORES says it better where it is
known (ottla.spark.session sets it). It only counts for small batches: large ones have one task for each partition.
"""

from __future__ import annotations

import os
from typing import Final

CORES_VARIABLE: Final = "OTTLA_SPARK_CORES"
CORES_MAX: Final = 4096


def core_count() -> int:
    """At least one."""
    said = os.environ.get(CORES_VARIABLE, "")
    if said.isdecimal() and 1 <= int(said) <= CORES_MAX:
        return int(said)
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
