"""The numbers of a consumer, under Java's names: consumer-fetch-manager-metrics and consumer-coordinator-metrics.

They are counted per fetch and per poll, never per record. Lag and lead are worked out when somebody asks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from ottla.client.consumer.subscription import PartitionState
from ottla.metrics import MetricKey, Registry, Stat, Window
from ottla.protocol.messages.fetch import FetchResponse

FETCH: Final = "consumer-fetch-manager-metrics"
COORDINATOR: Final = "consumer-coordinator-metrics"
CONSUMER: Final = "consumer-metrics"

_WINDOWS: Final[tuple[tuple[str, str, str, tuple[Stat, ...]], ...]] = (
    (FETCH, "fetch-size", "Bytes per fetch.", ("avg", "max")),
    (FETCH, "bytes-consumed", "Bytes fetched.", ("rate", "total")),
    (FETCH, "records-consumed", "Records given by polls.", ("rate", "total")),
    (FETCH, "records-per-request", "Records per poll that returned any.", ("avg",)),
    (FETCH, "fetch-latency", "Milliseconds from a fetch to its answer.", ("avg", "max")),
    (FETCH, "fetch", "Fetches answered.", ("rate", "total")),
    (FETCH, "fetch-throttle-time", "Milliseconds that quotas cost.", ("avg", "max")),
    (COORDINATOR, "commit", "Commits answered.", ("rate", "total")),
    (COORDINATOR, "commit-latency", "Milliseconds per commit.", ("avg", "max")),
    (COORDINATOR, "heartbeat", "Heartbeats answered.", ("rate", "total")),
    (COORDINATOR, "heartbeat-response-time", "Milliseconds per heartbeat.", ("max",)),
    (COORDINATOR, "rebalance", "Assignments by the group.", ("total",)),
    (COORDINATOR, "partition-revoked-latency", "Milliseconds in on_revoked.", ("avg", "max")),
    (COORDINATOR, "partition-assigned-latency", "Milliseconds in on_assigned.", ("avg", "max")),
    (COORDINATOR, "partition-lost-latency", "Milliseconds in on_lost.", ("avg", "max")),
    (CONSUMER, "time-between-poll", "Milliseconds between polls.", ("avg", "max")),
)


class ConsumerMetrics:
    """What one consumer counts."""

    def __init__(self, client_id: str) -> None:
        self.registry = Registry()
        self._tags = (("client-id", client_id),)
        self._windows: dict[tuple[str, str], Window] = {
            (group, name): self.registry.window(group, name, text, ["client-id"], stats=stats).of(client_id)
            for group, name, text, stats in _WINDOWS
        }
        self._last_ms: dict[str, float] = {}

    def _record(self, group: str, name: str, value: float, now_ms: float) -> None:
        self._windows[group, name].record(value, now_ms)

    def fetched(self, response: FetchResponse, latency_ms: float, now_ms: float) -> None:
        """A fetch was answered. On the loop."""
        size = sum(len(data.records or b"") for topic in response.responses for data in topic.partitions)
        self._record(FETCH, "fetch-size", size, now_ms)
        self._record(FETCH, "bytes-consumed", size, now_ms)
        self._record(FETCH, "fetch-latency", latency_ms, now_ms)
        self._record(FETCH, "fetch", 1, now_ms)
        self._record(FETCH, "fetch-throttle-time", response.throttle_time_ms, now_ms)

    def records_returned(self, count: int, now_ms: float) -> None:
        """A poll returned records. In the caller's thread."""
        self._record(FETCH, "records-consumed", count, now_ms)
        self._record(FETCH, "records-per-request", count, now_ms)

    def polled(self, now_ms: float) -> None:
        before = self._last_ms.get("poll")
        if before is not None:
            self._record(CONSUMER, "time-between-poll", now_ms - before, now_ms)
        self._last_ms["poll"] = now_ms

    def committed(self, latency_ms: float, now_ms: float) -> None:
        self._record(COORDINATOR, "commit", 1, now_ms)
        self._record(COORDINATOR, "commit-latency", latency_ms, now_ms)

    def heartbeat(self, latency_ms: float, now_ms: float) -> None:
        self._record(COORDINATOR, "heartbeat", 1, now_ms)
        self._record(COORDINATOR, "heartbeat-response-time", latency_ms, now_ms)
        self._last_ms["heartbeat"] = now_ms

    def rebalanced(self, now_ms: float) -> None:
        self._record(COORDINATOR, "rebalance", 1, now_ms)
        self._last_ms["rebalance"] = now_ms

    def listened(self, kind: str, latency_ms: float, now_ms: float) -> None:
        """A rebalance listener took so long; `kind` is assigned, revoked or lost."""
        self._record(COORDINATOR, f"partition-{kind}-latency", latency_ms, now_ms)

    def snapshot(self, states: Iterable[PartitionState], committed_only: bool, now_ms: float) -> dict[MetricKey, float]:
        """Every number by its Java name."""
        found = self.registry.snapshot(now_ms)
        found = {key: value for key, value in found.items() if key.group != "ottla-metrics"}
        for what, group in (("poll", CONSUMER), ("heartbeat", COORDINATOR), ("rebalance", COORDINATOR)):
            before = self._last_ms.get(what)
            age = -1.0 if before is None else math.floor((now_ms - before) / 1000)
            found[MetricKey(group, f"last-{what}-seconds-ago", self._tags)] = age
        found.update(self._distances(list(states), committed_only))
        return found

    def _distances(self, states: list[PartitionState], committed_only: bool) -> dict[MetricKey, float]:
        found: dict[MetricKey, float] = {
            MetricKey(COORDINATOR, "assigned-partitions", self._tags): len(states),
        }
        lags, leads = [], []
        for state in states:
            tags = (*self._tags, ("topic", state.name.topic), ("partition", str(state.name.partition)))
            if (lag := lag_of(state, committed_only)) is not None:
                found[MetricKey(FETCH, "records-lag", tags)] = lag
                lags.append(lag)
            if state.position is not None and state.log_start_offset is not None:
                lead = max(0, state.position.offset - state.log_start_offset)
                found[MetricKey(FETCH, "records-lead", tags)] = lead
                leads.append(lead)
        found[MetricKey(FETCH, "records-lag-max", self._tags)] = max(lags, default=math.nan)
        found[MetricKey(FETCH, "records-lead-min", self._tags)] = min(leads, default=math.nan)
        return found


def lag_of(state: PartitionState, committed_only: bool) -> int | None:
    """How many offsets lie between the position and the end that this consumer can see; None when that is unknown."""
    end = state.last_stable_offset if committed_only else state.high_watermark
    return None if end is None or state.position is None else max(0, end - state.position.offset)
