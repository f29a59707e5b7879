"""librdkafka's settings as ours.

1. A name that our client knows (its own or an alias) goes through unchanged.
2. A name of librdkafka that has no meaning here is passed over; the log names it once with the reason.
3. Defaults that decide what a program sees are librdkafka's: CRC-32 of keys, committed records only, no idempotence.
   Those about speed are ours.
4. Callbacks (error_cb, stats_cb, throttle_cb, logger) are returned for the caller to use.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

log = logging.getLogger(__name__)

CALLBACKS: Final = ("error_cb", "stats_cb", "throttle_cb", "on_delivery", "delivery.report.only.error", "on_commit")
NO_EFFECT: Final[Mapping[str, str]] = {
    "api.version.request": "versions are always asked for",
    "api.version.request.timeout.ms": "versions are always asked for",
    "api.version.fallback.ms": "versions are always asked for",
    "broker.version.fallback": "versions are always asked for",
    "batch.num.messages": "batches are limited by batch.size",
    "queue.buffering.max.messages": "waiting records are limited by bytes, buffer.memory",
    "queued.min.messages": "what is fetched ahead is limited by bytes",
    "fetch.queue.backoff.ms": "fetching goes on as soon as there is room",
    "fetch.error.backoff.ms": "retry.backoff.ms counts for fetches too",
    "coordinator.query.interval.ms": "the coordinator is looked up when it is needed",
    "topic.metadata.refresh.fast.interval.ms": "retry.backoff.ms counts for metadata too",
    "topic.metadata.refresh.sparse": "only topics in use are asked for",
    "topic.metadata.propagation.max.ms": "a new topic is waited for up to max.block.ms",
    "socket.keepalive.enable": "connections.max.idle.ms closes what is not used",
    "socket.nagle.disable": "requests are always sent at once",
    "socket.max.fails": "a connection that fails is always made again",
    "socket.blocking.max.ms": "nothing blocks on sockets here",
    "broker.address.family": "every address the name has is tried",
    "broker.address.ttl": "names are looked up at every connection",
    "log_level": "use the logging module",
    "log.queue": "use the logging module",
    "log.thread.name": "use the logging module",
    "log.connection.close": "use the logging module",
    "debug": "use the logging module: logging.getLogger('ottla').setLevel('DEBUG')",
    "logger": "use the logging module",
    "statistics.interval.ms": "there are no statistics callbacks; see metrics()",
    "stats_cb": "there are no statistics callbacks; see metrics()",
    "throttle_cb": "throttling is obeyed and not told",
    "internal.termination.signal": "there are no threads to be signalled",
    "enable.random.seed": "chance comes from the system",
    "allow.auto.create.topics": "the broker decides whether topics are made by themselves",
    "enable.metrics.push": "metrics are not pushed",
    "sticky.partitioning.linger.ms": "records without a key move on when a batch is full",
    "queue.buffering.backpressure.threshold": "batches are sent when they are full or linger.ms is over",
    "enable.gapless.guarantee": "with idempotence there are no gaps",
    "produce.offset.report": "offsets are always told",
    "request.timeout.ms.broker": "request.timeout.ms counts",
    "consume.callback.max.messages": "there are no consume callbacks",
    "offset.store.method": "offsets are kept by the broker",
    "offset.store.sync.interval.ms": "offsets are kept by the broker",
    "auto.commit.enable": "use enable.auto.commit",
}
_RESET: Final = {"smallest": "earliest", "beginning": "earliest", "largest": "latest", "end": "latest", "error": "none"}
_warned: set[str] = set()


def split(config: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings for our client, and callbacks for the caller."""
    configured = {**config.get("default.topic.config", {}), **config}
    configured.pop("default.topic.config", None)
    callbacks = {name: configured.pop(name) for name in CALLBACKS if name in configured}
    settings: dict[str, Any] = dict(defaults)
    for name, value in configured.items():
        if name in NO_EFFECT:
            _warn_once(name)
        elif value is not None:
            settings[name] = _RESET.get(value, value) if name == "auto.offset.reset" else value
    for name in ("stats_cb", "throttle_cb"):
        if name in callbacks:
            _warn_once(name)
    return settings, callbacks


def merged(config: Any, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The dictionary of the constructor and its keywords, which may be callbacks."""
    if config is not None and not isinstance(config, Mapping):
        raise TypeError(f"expected configuration dict, not {type(config).__name__}")
    return {**(config or {}), **keywords}


def _warn_once(name: str) -> None:
    if name not in _warned:
        _warned.add(name)
        log.warning("the setting %s of librdkafka has no effect here: %s", name, NO_EFFECT[name])


Callback = Callable[..., Any]
