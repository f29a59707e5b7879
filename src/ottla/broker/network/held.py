"""Answers that are written already and must not leave yet: whoever made them says when.

A request that waits for a commit would otherwise cost a coroutine, a future and a turn of the loop for itself. Its
answer is known when its records are appended, but for what may go wrong until then, so it is written at once with those
of all requests that came with it, and takes its places in the order of the connection. `leave` is called once, with
whole frames, as many as there are requests, and `counted` before it: a request has been handled when it is answered.
`timed` says from when on its time counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class HeldTimes(Protocol):
    """Where it is recorded how long requests took (observe/request_metrics.py)."""

    def waited(self, started_ms: float, waits_since_ms: float, now_ms: float, count: int = 1) -> None: ...


class HeldAnswers:
    """`request_bytes` are the sizes of the requests; the connection says by `leave` where the answers go."""

    __slots__ = ("content", "counted", "leave", "request_bytes")

    def __init__(self, content: bytes, request_bytes: list[int]) -> None:
        self.content = content
        self.request_bytes = request_bytes
        self.counted: Callable[[], object] | None = None
        self.leave: Callable[[bytes], None] = _nowhere

    def timed(self, broker: Broker, times: HeldTimes, started_ms: float) -> None:
        """These requests began then, and their answers are held back from now on."""
        self.counted = partial(self._count, broker, times, started_ms, broker.clock.monotonic_ms())

    def _count(self, broker: Broker, times: HeldTimes, started_ms: float, held_ms: float) -> None:
        count = len(self.request_bytes)
        times.waited(started_ms, held_ms, broker.clock.monotonic_ms(), count)
        self.count_failure(broker, count)

    def count_failure(self, broker: Broker, count: int) -> None:
        """Count an error, if so many requests get one."""


def _nowhere(content: bytes) -> None:
    raise AssertionError("answers left before their connection had places for them")
