"""Stops a streaming query between two batches.

    stop_between_batches(query)          instead of query.stop()

query.stop() in the middle of a batch kills tasks: Spark logs several errors, and its Python workers print
BrokenPipeError. So this waits until the batch at work is done, for `limit_s` seconds at most, and then stops anyway,
because a stop must end. Nothing but the log depends on it: a batch that was cut off is repeated by the next run.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

STOP_LIMIT_S: Final = 30.0
POLL_S: Final = 0.002
BETWEEN_BATCHES: Final = ("Waiting for", "Getting offsets", "Getting end offsets")
"""How Spark describes a query (query.status) that has no tasks at work and is not about to start them."""


def stop_between_batches(query: StreamingQuery, limit_s: float = STOP_LIMIT_S) -> None:
    """Stop a query when no batch of it is at work."""
    deadline = time.monotonic() + limit_s
    try:
        while query.isActive and not _is_between_batches(query) and time.monotonic() < deadline:
            time.sleep(POLL_S)
    finally:  # a second Ctrl-C ends the wait
        query.stop()


def _is_between_batches(query: StreamingQuery) -> bool:
    return str(query.status["message"]).startswith(BETWEEN_BATCHES)
