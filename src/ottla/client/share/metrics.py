"""The numbers of a share consumer, under Java's names: consumer-share-fetch-manager-metrics and its neighbours.

They are counted per answer and per poll, never per record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ottla.client.share.in_flight import GAP, Outcome
from ottla.client.share.requests import ShareOrder
from ottla.metrics import MetricKey, Registry, Stat, Window
from ottla.protocol.messages.share_fetch import ShareFetchResponse

FETCH: Final = "consumer-share-fetch-manager-metrics"
COORDINATOR: Final = "consumer-share-coordinator-metrics"
CONSUMER: Final = "consumer-share-metrics"

_WINDOWS: Final[tuple[tuple[str, str, str, tuple[Stat, ...]], ...]] = (
    (FETCH, "fetch-size", "Bytes per fetch.", ("avg", "max")),
    (FETCH, "bytes-fetched", "Bytes fetched.", ("rate", "total")),
    (FETCH, "fetch-latency", "Milliseconds from a fetch to its answer.", ("avg", "max")),
    (FETCH, "fetch", "Fetches answered.", ("rate", "total")),
    (FETCH, "records-consumed", "Records given by polls.", ("rate", "total")),
    (FETCH, "records-per-request", "Records per poll that returned any.", ("avg",)),
    (FETCH, "acknowledgements-send", "Acknowledgements that were answered.", ("rate", "total")),
    (FETCH, "acknowledgements-error", "Acknowledgements that failed.", ("rate", "total")),
    (COORDINATOR, "heartbeat", "Heartbeats answered.", ("rate", "total")),
    (COORDINATOR, "heartbeat-response-time", "Milliseconds per heartbeat.", ("max",)),
    (CONSUMER, "time-between-poll", "Milliseconds between polls.", ("avg", "max")),
)


class ShareMetrics:
    """What one share consumer counts."""

    def __init__(self, client_id: str) -> None:
        self.registry = Registry()
        self._windows: dict[tuple[str, str], Window] = {
            (group, name): self.registry.window(group, name, text, ["client-id"], stats=stats).of(client_id)
            for group, name, text, stats in _WINDOWS
        }
        self._polled_ms: float | None = None

    def _record(self, group: str, name: str, value: float, now_ms: float) -> None:
        self._windows[group, name].record(value, now_ms)

    def answered(self, order: ShareOrder, response: Any, now_ms: float) -> None:
        """A request was answered. On the loop."""
        if isinstance(response, ShareFetchResponse):
            size = sum(len(data.records or b"") for topic in response.responses for data in topic.partitions)
            self._record(FETCH, "fetch-size", size, now_ms)
            self._record(FETCH, "bytes-fetched", size, now_ms)
            self._record(FETCH, "fetch-latency", now_ms - order.sent_ms, now_ms)
            self._record(FETCH, "fetch", 1, now_ms)

    def acknowledged(self, outcomes: Iterable[Outcome], now_ms: float) -> None:
        acks = [each for each in outcomes if each.ack != GAP]
        failed = sum(each.error is not None for each in acks)
        if acks:
            self._record(FETCH, "acknowledgements-send", len(acks), now_ms)
        if failed:
            self._record(FETCH, "acknowledgements-error", failed, now_ms)

    def records_returned(self, count: int, now_ms: float) -> None:
        """A poll returned records. In the caller's thread."""
        self._record(FETCH, "records-consumed", count, now_ms)
        self._record(FETCH, "records-per-request", count, now_ms)

    def polled(self, now_ms: float) -> None:
        if self._polled_ms is not None:
            self._record(CONSUMER, "time-between-poll", now_ms - self._polled_ms, now_ms)
        self._polled_ms = now_ms

    def heartbeat(self, latency_ms: float, now_ms: float) -> None:
        self._record(COORDINATOR, "heartbeat", 1, now_ms)
        self._record(COORDINATOR, "heartbeat-response-time", latency_ms, now_ms)

    def snapshot(self, now_ms: float) -> dict[MetricKey, float]:
        """Every number by its Java name."""
        found = self.registry.snapshot(now_ms)
        return {key: value for key, value in found.items() if key.group != "ottla-metrics"}
