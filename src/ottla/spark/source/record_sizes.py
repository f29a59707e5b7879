"""How large the next records of each topic are, for maxBytesPerTrigger.

1. Before a batch one fetch samples the partition of each topic in which most waits: at most SAMPLE_BYTES and
   SAMPLE_RECORDS of it, from where the batch will begin. Key, value and headers count, as they are after decompression.
2. It takes at most WAIT_MS. A topic that gave nothing by then, or only an error (its records may have been deleted a
   moment ago), counts with what was measured last, else with the mean of the other topics, else with UNKNOWN_BYTES.
   The batch itself will tell what is wrong.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.errors import OttlaError
from ottla.spark.source.options import SourceOptions
from ottla.values import TopicPartition

log = logging.getLogger(__name__)

SAMPLE_BYTES: Final = 65_536
SAMPLE_RECORDS: Final = 500
WAIT_MS: Final = 2_000
UNKNOWN_BYTES: Final = 1_024.0
TOPIC_LIMIT: Final = 64
"""So many topics are sampled before one batch; the others count with what was measured last."""


def _consumer(settings: Mapping[str, object]) -> Any:
    # Only a query with maxBytesPerTrigger needs one.
    from ottla.client.consumer.consumer import Consumer

    return Consumer(settings)


class RecordSizes:
    """Measures the topics of one query."""

    def __init__(
        self,
        options: SourceOptions,
        *,
        make_consumer: Callable[[Mapping[str, object]], Any] = _consumer,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._make_consumer = make_consumer
        self._now = monotonic
        self._consumer: Any = None
        self._means: dict[str, float] = {}

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def log_in_anew(self, options: SourceOptions) -> None:
        """Connect with the login of these options at the next question."""
        self.close()
        self._options = options

    def means(self, begins: Mapping[TopicPartition, int], waiting: Mapping[TopicPartition, int]) -> Mapping[str, float]:
        """The mean size of the next records, for each topic of which something waits."""
        fullest: dict[str, TopicPartition] = {}
        for partition in sorted(waiting, key=lambda each: (waiting[each], each)):
            fullest[partition.topic] = partition
        chosen = sorted(fullest.values(), key=lambda each: (each.topic in self._means, -waiting[each]))[:TOPIC_LIMIT]
        if chosen:
            try:
                self._measure({each: begins[each] for each in chosen})
            except OttlaError as error:
                log.warning("the size of the next records is not known, what was measured last counts: %s", error)
        known = [self._means[topic] for topic in fullest if topic in self._means]
        otherwise = sum(known) / len(known) if known else UNKNOWN_BYTES
        return {topic: self._means.get(topic, otherwise) for topic in fullest}

    def _measure(self, places: Mapping[TopicPartition, int]) -> None:
        consumer = self._connected()
        consumer.assign(list(places))
        for partition, offset in places.items():
            consumer.seek(partition, offset)
        waiting_for = {each.topic for each in places}
        deadline = self._now() + WAIT_MS / 1000
        while waiting_for and (left := deadline - self._now()) > 0:
            sizes: dict[str, list[int]] = {}
            for record in consumer.poll(left, max_records=SAMPLE_RECORDS):
                sizes.setdefault(record.topic, []).append(_size(record))
            for topic, found in sizes.items():
                if topic in waiting_for:
                    self._means[topic] = max(1.0, sum(found) / len(found))
                    waiting_for.discard(topic)
        consumer.assign([])

    def _connected(self) -> Any:
        if self._consumer is None:
            settings = self._options.client_settings("consumer")
            self._consumer = self._make_consumer(
                {**settings, "max.partition.fetch.bytes": SAMPLE_BYTES, "client.id": f"{settings['client.id']}-sizes"}
            )
        return self._consumer


def _size(record: Any) -> int:
    headers = sum(len(each.key) + len(each.value or b"") for each in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers
