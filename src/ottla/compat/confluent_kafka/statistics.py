"""The JSON text of stats_cb, with librdkafka's names for the numbers that our client has.

1. Whole client: name, client_id, type, ts, time, age, replyq, msg_cnt, msg_max, msg_size_max, tx, rx, tx_bytes,
   rx_bytes, txmsgs, txmsg_bytes or rxmsgs, rxmsg_bytes, metadata_cache_cnt, brokers, topics, and cgrp of a consumer.
2. A broker: name, nodeid, nodename, source, state, tx, rx, txbytes, rxbytes, and rtt (avg and max in microseconds).
3. A topic: its name and partitions with leader; of a consumer also consumer_lag, lo_offset, hi_offset, stored_offset.
4. Numbers of librdkafka's own machinery (its queues, window statistics other than avg and max) are absent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from time import monotonic, time
from typing import Any, Final

from ottla.client.network import NetworkClient
from ottla.metrics import MetricKey
from ottla.values import TopicPartition

Metrics = Mapping[MetricKey, float]
_CLIENT: Final = {"tx": "request-total", "rx": "response-total"}
_BYTES: Final = {"tx_bytes": "outgoing-byte-total", "rx_bytes": "incoming-byte-total"}
MICROSECONDS: Final = 1000


class Statistics:
    """What one client tells about itself."""

    def __init__(self, kind: str, client_id: str, network: NetworkClient) -> None:
        self._kind = kind
        self._client_id = client_id
        self._network = network
        self._began = monotonic()

    def text(self, metrics: Metrics, facts: Mapping[str, Any], topics: Mapping[str, Any]) -> str:
        """`facts` and `topics` are what only the client itself knows."""
        now = time()
        group = f"{self._kind}-metrics"
        found: dict[str, Any] = {
            "name": f"{self._client_id}#{self._kind}-1",
            "client_id": self._client_id,
            "type": self._kind,
            "ts": int(monotonic() * 1e6),
            "time": int(now),
            "age": int((monotonic() - self._began) * 1e6),
            **{name: _of(metrics, group, metric) for name, metric in (_CLIENT | _BYTES).items()},
            "metadata_cache_cnt": len(topics),
            **facts,
            "brokers": self._brokers(metrics),
            "topics": dict(topics),
        }
        return json.dumps(found)

    def _brokers(self, metrics: Metrics) -> dict[str, Any]:
        group = f"{self._kind}-node-metrics"
        found = {}
        for node in self._network.metadata.nodes():
            tag = f"node-{node.id}"
            name = f"{node.host}:{node.port}/{node.id}"
            found[name] = {
                "name": name,
                "nodeid": node.id,
                "nodename": f"{node.host}:{node.port}",
                "source": "configured" if node.is_bootstrap else "learned",
                "state": "UP" if self._network.versions_of(node) is not None else "INIT",
                "tx": _of(metrics, group, "request-total", tag),
                "txbytes": _of(metrics, group, "outgoing-byte-total", tag),
                "rx": _of(metrics, group, "response-total", tag),
                "rxbytes": _of(metrics, group, "incoming-byte-total", tag),
                "rtt": {
                    each: _of(metrics, group, f"request-latency-{each}", tag, MICROSECONDS) for each in ("avg", "max")
                },
            }
        return found

    def topics(self, partitions: Mapping[TopicPartition, Mapping[str, Any]], names: set[str]) -> dict[str, Any]:
        """Topics with their partitions; `partitions` adds what the client knows of some."""
        found: dict[str, Any] = {}
        for name in sorted(names | {each.topic for each in partitions}):
            rows = {}
            for info in self._network.metadata.partitions_of(name) or ():
                more = partitions.get(TopicPartition(name, info.partition), {})
                leader = getattr(info, "leader", None)
                rows[str(info.partition)] = {"partition": info.partition, "leader": _id(leader), **more}
            found[name] = {"topic": name, "partitions": rows}
        return found


def _id(leader: Any) -> int:
    return -1 if leader is None else int(getattr(leader, "id", leader))


def _of(metrics: Metrics, group: str, name: str, node: str | None = None, scale: int = 1) -> int:
    found = 0.0
    for key, value in metrics.items():
        if key.group == group and key.name == name and (node is None or ("node-id", node) in key.tags):
            found += 0.0 if math.isnan(value) else value
    return int(found * scale)
