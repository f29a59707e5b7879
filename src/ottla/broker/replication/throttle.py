"""How fast replicas may move data that is only catching up (leader. and follower.replication.throttled.*).

Moving replicas must not take the network from those who produce. Which replicas are slowed down is a setting of the
topic (`partition:broker`, or `*`), how fast they may be one of the broker. Replicas that are in sync are never slowed
down: that would hold up what is acknowledged.

1. The rate is measured over samples of equal length, the last one still running. It is the bytes of all samples by the
   time they stand for, and never by less than all samples but one last: so a burst after a pause is allowed.
2. What is over the limit is not cut short; it makes the next wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ottla.values import TopicPartition

EVERY = "*"


class Throttle:
    """The rate of one direction of one broker."""

    def __init__(self, *, samples: int, sample_ms: int) -> None:
        self._samples_limit = samples
        self._sample_ms = sample_ms
        self._samples: deque[tuple[float, int]] = deque()  # when it began, bytes

    def record(self, size_bytes: int, now_ms: float) -> None:
        self._forget(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= self._sample_ms:
            self._samples.append((now_ms, size_bytes))
        else:
            began_ms, before = self._samples[-1]
            self._samples[-1] = began_ms, before + size_bytes

    def is_exceeded(self, limit_bytes_per_second: int, now_ms: float) -> bool:
        self._forget(now_ms)
        if not self._samples:
            return False
        least_ms = max(1, self._samples_limit - 1) * self._sample_ms
        elapsed_ms = max(now_ms - self._samples[0][0], least_ms)
        return sum(size for _, size in self._samples) * 1000 > limit_bytes_per_second * elapsed_ms

    def _forget(self, now_ms: float) -> None:
        while self._samples and now_ms - self._samples[0][0] >= self._samples_limit * self._sample_ms:
            self._samples.popleft()


def is_listed(name: TopicPartition, broker_id: int, replicas: Sequence[str]) -> bool:
    """Whether a topic's list of throttled replicas has this one."""
    return EVERY in replicas or f"{name.partition}:{broker_id}" in replicas
