"""What Spark's Python processes have loaded is not searched for garbage after every task.

A process of Spark that is used again calls gc.collect() after each task and after each piece of planning (4.3). It
searches everything that PySpark, pyarrow and ottla have loaded, in four processes for each micro-batch. gc.freeze()
takes what is there out of that search; what tasks make later is searched as before.

1. freeze_what_is_loaded() is called at the beginning of a piece of work, and acts when modules were loaded since it
   acted last: a worker reads in one task and writes in the next, and each loads what it needs. In any process that is
   not a worker of Spark it does nothing.
2. Frozen objects are freed when nobody refers to them, as before; only cycles among them are not found any more. They
   are collected once before.
"""

from __future__ import annotations

import gc
import sys

from ottla.spark.running.worker_exit import DAEMON

_frozen_modules = 0


def freeze_what_is_loaded() -> None:
    """Call it when a piece of work begins."""
    global _frozen_modules
    loaded = len(sys.modules)
    if loaded != _frozen_modules and _is_worker():
        _frozen_modules = loaded
        gc.collect()
        gc.freeze()


def _is_worker() -> bool:
    main = sys.modules.get("__main__")
    return getattr(getattr(main, "__spec__", None), "name", None) == DAEMON
