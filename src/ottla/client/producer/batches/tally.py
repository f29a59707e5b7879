"""What requests and their answers were like, added up until somebody wants to know. The readable twin.

A request is a few additions here instead of a dozen calls; ProducerMetrics takes the sums over into its windows several
times a second, and whenever the numbers are read. Whoever adds and whoever takes hold its lock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ottla.client.producer.batches.producer_batch import ProducerBatch


class Sum:
    """Values that were added up: how many, their sum, the smallest and the largest."""

    __slots__ = ("count", "largest", "smallest", "total")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.count, self.total = 0, 0.0
        self.smallest, self.largest = math.inf, -math.inf

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.smallest = min(self.smallest, value)
        self.largest = max(self.largest, value)

    def take(self) -> tuple[float, int, float, float]:
        """Sum, count, smallest and largest; it begins again with nothing."""
        found = self.total, self.count, self.smallest, self.largest
        self.clear()
        return found


class Tally:
    """The sums of one producer."""

    def __init__(self) -> None:
        self.batch_size = Sum()
        self.queue_time = Sum()
        self.record_size = Sum()
        self.records = Sum()
        self.latency = Sum()
        self.throttle = Sum()
        self.topics: dict[str, tuple[int, int]] = {}  # records and bytes of each topic

    def sent(self, batches: Sequence[ProducerBatch], now_ms: float) -> None:
        """A request leaves. What is an average is taken once for all its batches."""
        records = record_bytes = 0
        oldest_ms = now_ms
        for batch in batches:
            count, size_bytes, topic = batch.record_count, batch.size_bytes, batch.delivery.topic
            records += count
            record_bytes += batch.uncompressed_bytes
            self.batch_size.add(size_bytes)
            oldest_ms = min(oldest_ms, batch.last_attempt_ms)
            before_count, before_bytes = self.topics.get(topic, (0, 0))
            self.topics[topic] = before_count + count, before_bytes + size_bytes
        self.queue_time.add(now_ms - oldest_ms)
        self.record_size.add(record_bytes / max(1, records))
        self.records.add(records)

    def answered(self, latency_ms: float, throttle_ms: float) -> None:
        """Its answer came."""
        self.latency.add(latency_ms)
        self.throttle.add(throttle_ms)

    def take_topics(self) -> dict[str, tuple[int, int]]:
        """Records and bytes of each topic; it begins again with nothing."""
        found, self.topics = self.topics, {}
        return found
