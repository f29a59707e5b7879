"""The producer's numbers under Java's names: groups producer-metrics and producer-topic-metrics.

They are counted per request and per batch, never per record: a record costs a fraction of what a counter costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ottla.client.producer.batches.append_choice import ProducerBatch
from ottla.metrics import MetricKey, Registry, Stat, Window

GROUP = "producer-metrics"
TOPIC_GROUP = "producer-topic-metrics"
NOTHING = 0, 0
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

    def sending(self, batches: tuple[ProducerBatch, ...], now_ms: float) -> None:
        """A request leaves. What is an average is taken once for all its batches."""
        records = record_bytes = total_bytes = largest = 0
        smallest, oldest_ms = math.inf, now_ms
        topics: dict[str, tuple[int, int]] = {}
        for batch in batches:
            count, size_bytes, topic = batch.record_count, batch.size_bytes, batch.delivery.topic
            records += count
            record_bytes += batch.uncompressed_bytes
            total_bytes += size_bytes
            if size_bytes > largest:
                largest = size_bytes
            if size_bytes < smallest:
                smallest = size_bytes
            if batch.last_attempt_ms < oldest_ms:
                oldest_ms = batch.last_attempt_ms
            before_count, before_bytes = topics.get(topic, NOTHING)
            topics[topic] = before_count + count, before_bytes + size_bytes
            if batch.is_compressed:
                self.compression.record(batch.compression_ratio, now_ms)
                self.topic(topic).compression.record(batch.compression_ratio, now_ms)
        self.batch_size.record_many(total_bytes, len(batches), smallest, largest, now_ms)
        self.queue_time.record(now_ms - oldest_ms, now_ms)
        self.record_size.record(record_bytes / max(1, records), now_ms)
        self.sent.record(records, now_ms)
        self.records_per_request.record(records, now_ms)
        for topic, (count, size_bytes) in topics.items():
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
        return self.registry.snapshot(now_ms)
