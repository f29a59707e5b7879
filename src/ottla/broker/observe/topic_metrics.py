"""What goes into topics and comes out of them.

    topics = TopicMetrics(registry)
    topics.produced("orders", size_bytes=4096, record_count=10)

1. Labels are bounded by TOPICS_LIMIT; topics that come after that are counted together under the topic __other__.
2. A topic that is deleted is forgotten, and its place is free for another.
3. Each counter has one more series without a topic, which is the sum of all topics there ever were: what a forgotten
   topic had is kept in it, so that it never goes back.
"""

from __future__ import annotations

from collections import Counter as Sums
from functools import partial
from typing import Final

from ottla.broker.observe.metric_table import counter
from ottla.metrics import OTHER, Counter, Family, Registry

TOPICS_LIMIT: Final = 2_000
ALL_TOPICS: Final = ""
_PREFIX: Final = "kafka_server_brokertopicmetrics_"
_NAMES: Final = {
    "messages_in": "messagesin",
    "bytes_in": "bytesin",
    "bytes_out": "bytesout",
    "bytes_rejected": "bytesrejected",
    "produces": "totalproducerequests",
    "fetches": "totalfetchrequests",
    "failed_produces": "failedproducerequests",
    "failed_fetches": "failedfetchrequests",
}


class TopicCounters:
    """The counters of one topic."""

    __slots__ = tuple(_NAMES)

    def __init__(self, topic: str, families: dict[str, Family[Counter]]) -> None:
        for attribute in self.__slots__:
            setattr(self, attribute, families[attribute].of(topic))

    bytes_in: Counter
    bytes_out: Counter
    bytes_rejected: Counter
    failed_fetches: Counter
    failed_produces: Counter
    fetches: Counter
    messages_in: Counter
    produces: Counter


class TopicMetrics:
    def __init__(self, registry: Registry, *, topics_limit: int = TOPICS_LIMIT) -> None:
        self._limit = topics_limit
        self._topics: dict[str, TopicCounters] = {}
        self._others: TopicCounters | None = None
        self._gone: Sums[str] = Sums()
        self._families = {
            attribute: counter(registry, f"{_PREFIX}{exposed}_total") for attribute, exposed in _NAMES.items()
        }
        for attribute, family in self._families.items():
            family.of(ALL_TOPICS).read = partial(self._sum, attribute)
        self.replicated_in = counter(registry, f"{_PREFIX}replicationbytesin_total").of()
        self.replicated_out = counter(registry, f"{_PREFIX}replicationbytesout_total").of()

    def _sum(self, attribute: str) -> int:
        others = [] if self._others is None else [self._others]
        counters = [*self._topics.values(), *others]
        return self._gone[attribute] + sum(int(getattr(each, attribute).value) for each in counters)

    def totals(self) -> dict[str, int]:
        """The sums over all topics there ever were."""
        others = [] if self._others is None else [self._others]
        messages_in = bytes_in = bytes_out = 0
        for each in (*self._topics.values(), *others):  # in one go: the console asks every second
            messages_in += each.messages_in.value
            bytes_in += each.bytes_in.value
            bytes_out += each.bytes_out.value
        found = {"messages_in": messages_in, "bytes_in": bytes_in, "bytes_out": bytes_out}
        return {name: self._gone[name] + int(value) for name, value in found.items()}

    def of(self, topic: str) -> TopicCounters:
        """The counters of a topic; those of __other__ when there are too many topics."""
        found = self._topics.get(topic)
        return self._new(topic) if found is None else found

    def produced(self, topic: str, size_bytes: int, record_count: int, times: int = 1) -> None:
        counters = self.of(topic)
        counters.produces.value += times
        counters.bytes_in.value += size_bytes
        counters.messages_in.value += record_count

    def fetched(self, topic: str, size_bytes: int) -> None:
        counters = self.of(topic)
        counters.fetches.value += 1
        counters.bytes_out.value += size_bytes

    def produce_failed(self, topic: str, rejected_bytes: int = 0) -> None:
        """Records were refused; `rejected_bytes` of them for their size. Count unknown topics under __other__: their
        names are the client's invention."""
        counters = self.of(topic)
        counters.produces.value += 1
        counters.failed_produces.value += 1
        counters.bytes_rejected.value += rejected_bytes

    def fetch_failed(self, topic: str) -> None:
        counters = self.of(topic)
        counters.fetches.value += 1
        counters.failed_fetches.value += 1

    def forget(self, topic: str) -> None:
        """A topic is deleted."""
        found = self._topics.pop(topic, None)
        if found is not None:
            for attribute, family in self._families.items():
                self._gone[attribute] += getattr(found, attribute).value
                family.forget(topic)

    def _new(self, topic: str) -> TopicCounters:
        if topic == OTHER or len(self._topics) >= self._limit:
            # The shared series is not one of the limit's, and it is never forgotten.
            if self._others is None:
                self._others = TopicCounters(OTHER, self._families)
            return self._others
        made = self._topics[topic] = TopicCounters(topic, self._families)
        return made
