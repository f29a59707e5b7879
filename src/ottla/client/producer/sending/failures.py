"""Failures that nobody has heard of yet: what flush() and close() raise, so that nothing is lost in silence.

1. A failure is told once: by the future (result, exception, await), by on_delivery, or else by the next flush or close.
2. The first FAILED_RECORDS_LIMIT records are kept with their bytes; of the others only the number is known.
3. Filled on the loop, emptied by callers; a lock keeps both from meeting.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from ottla.client.producer.batches.append_choice import Delivery, ProducerBatch
from ottla.client.producer.values import FAILED_RECORDS_LIMIT, FailedRecord, SendFailed
from ottla.errors import OttlaError
from ottla.records import RecordBatch

DELIVERIES_LIMIT = 10_000


class Failures:
    """Deliveries that failed, until somebody is told."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deliveries: list[tuple[Delivery, list[FailedRecord]]] = []
        self._kept_count = 0
        self._older_count = 0  # records of deliveries that there was no place for

    def add(self, batch: ProducerBatch, error: OttlaError, record_errors: Mapping[int, OttlaError]) -> None:
        """Remember a batch that is about to fail; its bytes are still there."""
        with self._lock:
            room = FAILED_RECORDS_LIMIT - self._kept_count
        records = _records_of(batch, error, record_errors, room) if room > 0 else []
        with self._lock:
            self._kept_count += len(records)
            if len(self._deliveries) < DELIVERIES_LIMIT:
                self._deliveries.append((batch.delivery, records))
            else:
                self._older_count += batch.record_count

    def take(self) -> SendFailed | None:
        """Everything that failed and nobody was told of; afterwards it counts as told."""
        with self._lock:
            deliveries, self._deliveries = self._deliveries, []
            count, self._older_count, self._kept_count = self._older_count, 0, 0
        found: list[FailedRecord] = []
        for delivery, records in deliveries:
            seen = delivery.told or ()
            count += delivery.record_count - len(seen)
            found += [record for index, record in enumerate(records) if index not in seen]
        return SendFailed(count, found) if count > 0 else None


def _records_of(
    batch: ProducerBatch, error: OttlaError, record_errors: Mapping[int, OttlaError], limit: int
) -> list[FailedRecord]:
    name = batch.queue.name
    found: list[FailedRecord] = []
    for index, record in enumerate(RecordBatch(bytes(batch.seal(-1, -1, -1, False)))):
        if index >= limit:
            break
        why = record_errors.get(index, error)
        content = record.key, record.value, tuple(record.headers), record.timestamp_ms
        found.append(FailedRecord(name.topic, name.partition, *content, why))
    return found
