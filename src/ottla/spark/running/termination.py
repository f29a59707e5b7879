"""SIGTERM ends a program in order: streams are stopped, jobs are cancelled, and what they had open is aborted.

Without this SIGTERM ends Python on the spot. Spark notices and stops too, but too quickly to let sinks clean up: their
transactions stay open and hold back readers of committed records until they time out.

1. ottla.spark.session() installs it, in the main thread, where SIGTERM still has its default meaning. A program that
   has a handler of its own keeps it, and Spark's own processes are not touched.
2. Streams get STREAM_LIMIT_S to finish the batch at work; then it is cut off and aborted.
3. Then the signal does what it did before: the process ends by SIGTERM, for a supervisor that checks its exit status.
   All of it takes at most LIMIT_S: supervisors send SIGKILL after 30 seconds as a rule.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.running.stopping import stop_between_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

LIMIT_S: Final = 25.0
STREAM_LIMIT_S: Final = 5.0
POLL_S: Final = 0.05


def end_in_order_on_sigterm(spark: SparkSession) -> None:
    """Install the handler for this session, unless SIGTERM has a meaning already."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return

    def end(number: int, _: FrameType | None) -> None:
        # In a thread: this one may be in the middle of a call to Java, and its connection takes one at a time.
        work = threading.Thread(target=_stop_quietly, args=(spark,), name="ottla spark termination", daemon=True)
        work.start()
        work.join(LIMIT_S)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)


def _stop_quietly(spark: SparkSession) -> None:
    """A supervisor may have sent the signal to Java as well, which then answers no more, or does in its own words."""
    from py4j.protocol import Py4JError  # who has a session has both; the sink is also used without Spark
    from pyspark.errors import PySparkException

    try:
        stop_all(spark)
    except (Py4JError, PySparkException, OSError) as error:
        log.warning(
            "Spark ended before it was stopped (%s); what it had open ends by its time-outs", type(error).__name__
        )


def stop_all(spark: SparkSession) -> None:
    """Stop every stream and cancel every job of a session, and wait until their sinks have cleaned up."""
    for query in spark.streams.active:
        stop_between_batches(query, STREAM_LIMIT_S)
    spark.sparkContext.cancelAllJobs()
    deadline = time.monotonic() + LIMIT_S
    while _has_executions(spark) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    spark.stop()


def _has_executions(spark: Any) -> bool:
    """Whether a write is at work; it is until its sink has committed or aborted."""
    listed = spark._jsparkSession.sharedState().statusStore().executionsList()
    return any(listed.apply(index).completionTime().isEmpty() for index in range(listed.size()))
