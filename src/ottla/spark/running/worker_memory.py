"""What Spark's Python processes have loaded is not searched for garbage after every task.

A process of Spark that is used again calls gc.collect() after each task and after each piece of planning (4.3). It
searches everything that PySpark, pyarrow and ottla have loaded, in four processes for each micro-batch. gc.freeze()
takes what is there out of that search; what tasks make later is searched as before.

1. freeze_what_is_loaded() is called at the beginning of a piece of work, and acts once: at the second one, when the
   first has loaded what it needed. In any process that is not a worker of Spark it does nothing.
2. Frozen objects are freed when nobody refers to them, as before; only cycles among them are not found any more. They
   are collected once before.
"""

from __future__ import annotations

import gc
import sys

from ottla.spark.running.worker_exit import DAEMON

_calls = 0


def freeze_what_is_loaded() -> None:
    """Call it when a piece of work begins."""
    global _calls
    _calls += 1
    if _calls == 2 and _is_worker():
        gc.collect()
        gc.freeze()


def _is_worker() -> bool:
    main = sys.modules.get("__main__")
    return getattr(getattr(main, "__spec__", None), "name", None) == DAEMON
