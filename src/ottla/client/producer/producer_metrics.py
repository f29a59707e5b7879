"""The producer's numbers under Java's names: groups producer-metrics and producer-topic-metrics.

They are counted per request and per batch, never per record: a record costs a fraction of what a counter costs. What
every request counts is added up (batches/tally.py) and taken over into the windows every COUNT_MS, and when it is read.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.client.producer.batches.append_choice import ProducerBatch, Tally
from ottla.metrics import MetricKey, Registry, Stat, Window

if TYPE_CHECKING:
    from ottla.client.producer.sending.sender import Send

GROUP = "producer-metrics"
TOPIC_GROUP = "producer-topic-metrics"
COUNT_MS: Final = 100.0
TIMES = {
    "bufferpool-wait": "callers waiting for memory",
    "metadata-wait": "callers waiting for metadata",
    "flush": "in flush()",
    "txn-init": "in init_transactions()",
    "txn-begin": "in begin_transaction()",
    "txn-send-offsets": "in send_offsets_to_transaction()",
    "txn-commit": "in commit_transaction()",
    "txn-abort": "in abort_transaction()",
    "txn-prepare": "in prepare_transaction()",
}


class _TopicNumbers:
    def __init__(self, registry: Registry, client_id: str, topic: str) -> None:
        def window(name: str, help_text: str, *stats: Stat) -> Window:
            return registry.window(TOPIC_GROUP, name, help_text, ["client-id", "topic"], stats=stats).of(
                client_id, topic
            )

        self.records = window("record-send", "Records sent.", "rate", "total")
        self.bytes = window("byte", "Bytes sent.", "rate", "total")
        self.compression = window("compression-rate", "Compressed over uncompressed size.", "avg")
        self.retries = window("record-retry", "Records sent again.", "rate", "total")
        self.errors = window("record-error", "Records that failed.", "rate", "total")


class ProducerMetrics:
    """Counted on the loop, read by anybody; only the times that callers waited are counted by callers."""

    def __init__(self, client_id: str, *, registry: Registry | None = None) -> None:
        self.registry = registry or Registry()
        self._client_id = client_id
        self._topics: dict[str, _TopicNumbers] = {}
        self._tally = Tally()
        self._counted_ms = -math.inf
        self._lock = threading.Lock()  # between the loop, which adds, and whoever reads
        self.batch_size = self._window("batch-size", "Bytes per batch.", "avg", "max")
        self.queue_time = self._window("record-queue-time", "Milliseconds a batch waited.", "avg", "max")
        self.latency = self._window("request-latency", "Milliseconds from request to answer.", "avg", "max")
        self.throttle = self._window("produce-throttle-time", "Milliseconds a broker wanted us to wait.", "avg", "max")
        self.records_per_request = self._window("records-per-request", "Records in a request.", "avg")
        self.record_size = self._window("record-size", "Bytes of a record.", "avg", "max")
        self.compression = self._window("compression-rate", "Compressed over uncompressed size.", "avg")
        self.sent = self._window("record-send", "Records sent.", "rate", "total")
        self.retries = self._window("record-retry", "Records sent again.", "rate", "total")
        self.errors = self._window("record-error", "Records that failed.", "rate", "total")
        self.splits = self._window("batch-split", "Batches that were too large.", "rate", "total")
        self.exhausted = self._window("buffer-exhausted", "Records refused for want of memory.", "rate", "total")
        self._times = {
            name: self._window(f"{name}-time-ns", f"Nanoseconds spent: {what}.", "total")
            for name, what in TIMES.items()
        }

    def _window(self, name: str, help_text: str, *stats: Stat) -> Window:
        return self.registry.window(GROUP, name, help_text, ["client-id"], stats=stats).of(self._client_id)

    def gauge(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """A number that somebody else knows."""
        self.registry.gauge(GROUP, name, help_text, ["client-id"]).of(self._client_id).read = read

    def topic(self, name: str) -> _TopicNumbers:
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = _TopicNumbers(self.registry, self._client_id, name)
        return found

    def sending(self, requests: Sequence[Send], now_ms: float) -> None:
        """Requests leave."""
        with self._lock:
            for request in requests:
                self._tally.sent(request.batches, now_ms)
            if now_ms - self._counted_ms >= COUNT_MS:
                self._count(now_ms)
        if requests[0].batches[0].is_compressed:  # all of a producer are, or none
            for batch in [each for request in requests for each in request.batches]:
                self.compression.record(batch.compression_ratio, now_ms)
                self.topic(batch.delivery.topic).compression.record(batch.compression_ratio, now_ms)

    def answered(self, latency_ms: float, throttle_ms: float, now_ms: float) -> None:
        """Its answer came."""
        with self._lock:
            self._tally.answered(latency_ms, throttle_ms)

    def _count(self, now_ms: float) -> None:
        """Take what was added up over into the windows."""
        tally = self._tally
        self._counted_ms = now_ms
        self.batch_size.record_many(*tally.batch_size.take(), now_ms)
        self.queue_time.record_many(*tally.queue_time.take(), now_ms)
        self.record_size.record_many(*tally.record_size.take(), now_ms)
        self.latency.record_many(*tally.latency.take(), now_ms)
        self.throttle.record_many(*tally.throttle.take(), now_ms)
        records = tally.records.take()
        self.sent.record_many(*records, now_ms)
        self.records_per_request.record_many(*records, now_ms)
        for topic, (count, size_bytes) in tally.take_topics().items():
            numbers = self.topic(topic)
            numbers.records.record(count, now_ms)
            numbers.bytes.record(size_bytes, now_ms)

    def retried(self, batch: ProducerBatch, now_ms: float) -> None:
        self.retries.record(batch.record_count, now_ms)
        self.topic(batch.delivery.topic).retries.record(batch.record_count, now_ms)

    def failed(self, batch: ProducerBatch) -> None:
        now_ms = batch.last_attempt_ms
        self.errors.record(batch.record_count, now_ms)
        self.topic(batch.delivery.topic).errors.record(batch.record_count, now_ms)

    def split(self, batch: ProducerBatch, now_ms: float) -> None:
        self.splits.record(1, now_ms)

    def took(self, name: str, duration_ms: float, now_ms: float) -> None:
        """A caller waited so long; `name` is one of TIMES."""
        self._times[name].record(duration_ms * 1e6, now_ms)

    def snapshot(self, now_ms: float) -> dict[MetricKey, float]:
        with self._lock:
            self._count(now_ms)
        return self.registry.snapshot(now_ms)
