"""What is counted per request and per topic, under the names that Kafka's dashboards already have.

    requests, times = RequestMetrics(registry).of(api, version)    # once per API and version
    requests.value += 1                                            # once per request: an addition and a bucket
    times.record(took_ms, now_ms)

    topics = TopicMetrics(registry)
    topics.produced("orders", size_bytes=4096, record_count=10)

1. kafka_network_requestmetrics_requests_total{request,version}, _errors_total{request,error} and _totaltimems with
   quantiles; kafka_server_brokertopicmetrics_{messagesin,bytesin,bytesout,bytesrejected,...}_total{topic}.
2. Labels are bounded: APIs and versions by the protocol, errors by the table of errors, topics by TOPICS_LIMIT; what
   comes after that is counted together under the topic __other__, so sums stay right.
3. A topic that is deleted is forgotten, and its place is free for another.
"""

from __future__ import annotations

from typing import Final

from ottla.errors import name_of_code
from ottla.metrics import OTHER, Counter, Family, Histogram, Registry
from ottla.protocol.api import Api

TOPICS_LIMIT: Final = 2_000


class RequestMetrics:
    """How many requests of which kind, how long they took, what went wrong."""

    def __init__(self, registry: Registry) -> None:
        group = "kafka.network:RequestMetrics"
        exposed = "kafka_network_requestmetrics_"
        self._requests = registry.counter(
            group, "RequestsPerSec", "Requests answered.", ["request", "version"], exposed=exposed + "requests_total"
        )
        self._errors = registry.counter(
            group, "ErrorsPerSec", "Answers by error.", ["request", "error"], exposed=exposed + "errors_total"
        )
        self._times = registry.histogram(
            group,
            "TotalTimeMs",
            "From the request's last byte to its answer.",
            ["request"],
            exposed=exposed + "totaltimems",
        )
        self._known_errors: dict[tuple[int, int], Counter] = {}

    def of(self, api: Api, version: int) -> tuple[Counter, Histogram]:
        """Where requests of this API and version are counted and timed; kept by callers that count often."""
        return self._requests.of(api.name, str(version)), self._times.of(api.name)

    def failed(self, api: Api, code: int) -> None:
        """A request was answered with that error for the whole of it."""
        key = (api.key, code)
        known = self._known_errors.get(key)
        if known is None:
            known = self._known_errors[key] = self._errors.of(api.name, name_of_code(code))
        known.value += 1


class TopicCounters:
    """The counters of one topic."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
    )

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


_TOPIC_COUNTERS: Final = {
    "messages_in": ("MessagesInPerSec", "messagesin", "Records appended."),
    "bytes_in": ("BytesInPerSec", "bytesin", "Bytes of records appended."),
    "bytes_out": ("BytesOutPerSec", "bytesout", "Bytes of records sent to readers."),
    "bytes_rejected": ("BytesRejectedPerSec", "bytesrejected", "Bytes of records refused."),
    "produces": ("TotalProduceRequestsPerSec", "totalproducerequests", "Times a topic was produced to."),
    "fetches": ("TotalFetchRequestsPerSec", "totalfetchrequests", "Times a topic was fetched from."),
    "failed_produces": ("FailedProduceRequestsPerSec", "failedproducerequests", "Times producing to a topic failed."),
    "failed_fetches": ("FailedFetchRequestsPerSec", "failedfetchrequests", "Times fetching from a topic failed."),
}


class TopicMetrics:
    """What goes into topics and comes out of them."""

    def __init__(self, registry: Registry, *, topics_limit: int = TOPICS_LIMIT) -> None:
        self._limit = topics_limit
        self._topics: dict[str, TopicCounters] = {}
        self._families = {
            attribute: registry.counter(
                "kafka.server:BrokerTopicMetrics",
                name,
                help_text,
                ["topic"],
                exposed=f"kafka_server_brokertopicmetrics_{exposed}_total",
            )
            for attribute, (name, exposed, help_text) in _TOPIC_COUNTERS.items()
        }

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

    def produce_failed(self, topic: str, size_bytes: int) -> None:
        """Records were refused. Count unknown topics under __other__: their names are the client's invention."""
        counters = self.of(topic)
        counters.produces.value += 1
        counters.failed_produces.value += 1
        counters.bytes_rejected.value += size_bytes

    def fetch_failed(self, topic: str) -> None:
        counters = self.of(topic)
        counters.fetches.value += 1
        counters.failed_fetches.value += 1

    def forget(self, topic: str) -> None:
        """A topic is deleted."""
        if self._topics.pop(topic, None) is not None:
            for family in self._families.values():
                family.forget(topic)

    def _new(self, topic: str) -> TopicCounters:
        if len(self._topics) >= self._limit:
            # The shared series is not one of the limit's, and it is never forgotten.
            return TopicCounters(OTHER, self._families)
        made = self._topics[topic] = TopicCounters(topic, self._families)
        return made
