"""How patient everybody is, and how hard clients work: what a seed draws beside workloads and faults.

1. Time-outs are drawn one by one and not by one factor: many errors need a client that waits longer than a broker is
   given up, and others need the contrary.
2. The defaults are what runs had before there was anything to draw.
"""

from __future__ import annotations

from typing import Any

from ottla.light_dataclasses import dataclass


@dataclass(frozen=True)
class Tempo:
    """See the module."""

    request_s: float = 5.0  # clients wait for an answer
    member_s: float = 6.0  # a member of a group that is silent for so long is put out
    transaction_s: float = 10.0  # a transaction that is open for so long is aborted
    watch_s: float = 1.0  # between two questions for the ends of partitions, on average
    move_s: float = 5.0  # between two things that an administrator does, on average
    burst: int = 1  # so many sends at once, at most
    batch_bytes: int = 262_144  # of producers
    segment_bytes: int = 0  # of topics from which nothing goes away; 0: the default
    turns: float = 0.0  # this part of what an administrator does lets leaders take turns
    pace: float = 1.0  # stretches what is not drawn: intervals, and how long somebody tries

    def producer(self) -> dict[str, Any]:
        """Settings of producers."""
        return {
            "acks": "all",
            "linger_ms": 0,
            "batch_size": self.batch_bytes,
            "delivery_timeout_ms": int(self.request_s * 12_000),
            "request_timeout_ms": int(self.request_s * 1_000),
            **self._backoff(),
        }

    def consumer(self) -> dict[str, Any]:
        """Settings of consumers."""
        return {
            "auto_offset_reset": "earliest",
            "request_timeout_ms": int(self.request_s * 1_000),
            "fetch_max_wait_ms": int(min(2_000 * self.pace, self.request_s * 500)),  # who waits for nothing costs steps
            "isolation_level": "read_committed",
            **self._backoff(),
        }

    def _backoff(self) -> dict[str, Any]:
        """Between two tries of a client."""
        longest_ms = int(1_000 * self.pace)
        return {
            "retry_backoff_ms": int(100 * self.pace),
            "retry_backoff_max_ms": longest_ms,
            "reconnect_backoff_ms": int(50 * self.pace),
            "reconnect_backoff_max_ms": longest_ms,
        }

    def member(self) -> dict[str, Any]:
        """Settings of members of classic groups; those of the others are the broker's."""
        return {
            "session_timeout_ms": int(self.member_s * 1_000),
            "heartbeat_interval_ms": int(self.member_s * 300),
            "max_poll_interval_ms": int(self.member_s * 2_000),
        }

    def broker(self) -> dict[str, object]:
        """Settings of brokers that belong to it."""
        member_ms = int(self.member_s * 1_000)
        return {
            "group.min.session.timeout.ms": 100,
            "group.consumer.min.session.timeout.ms": 100,
            "group.consumer.min.heartbeat.interval.ms": 100,
            "group.consumer.max.session.timeout.ms": max(60_000, member_ms),
            "group.consumer.max.heartbeat.interval.ms": max(15_000, member_ms),
            "group.consumer.session.timeout.ms": member_ms,
            "group.consumer.heartbeat.interval.ms": max(100, member_ms // 3),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": int(1_000 * self.pace),
        }
