"""Callbacks of a client of confluent-kafka: collected from any thread, called from poll(), flush() and consume().

1. error_cb hears of a broker that cannot be reached once until it is reached again (_TRANSPORT, _RESOLVE or
   _AUTHENTICATION), and of _ALL_BROKERS_DOWN when no connection is left.
2. throttle_cb hears of every answer with a time to wait, as a ThrottleEvent.
3. stats_cb is called with a JSON text when statistics.interval.ms is over and the program polls.
4. What a callback raises is raised by the call that served it.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from ottla.client.connections import COORDINATOR_IDS, WatchedConnection
from ottla.client.network import NetworkClient
from ottla.compat.confluent_kafka.errors import KafkaError
from ottla.compat.confluent_kafka.settings import Configuration
from ottla.errors import AuthenticationFailed
from ottla.values import Node

log = logging.getLogger("ottla.compat.confluent_kafka")

EVENTS_LIMIT: Final = 10_000
"""Of callbacks that tell about the client; a program that never polls does not fill the memory with them."""


class ThrottleEvent:
    """A broker wants its requests slower."""

    def __init__(self, broker_name: str, broker_id: int, throttle_time: float) -> None:
        self.broker_name = broker_name
        self.broker_id = broker_id
        self.throttle_time = throttle_time

    def __str__(self) -> str:
        return f"{self.broker_name}/{self.broker_id} throttled for {int(self.throttle_time * 1000)} ms"


class Serving:
    """The events of one client; an observer of its network."""

    def __init__(self, configuration: Configuration) -> None:
        self._on_error = configuration.callback("error_cb")
        self._on_throttle = configuration.callback("throttle_cb")
        self._on_stats = configuration.callback("stats_cb")
        self._logger = configuration.logger
        self._every_s = float(configuration.here.get("statistics.interval.ms") or 0) / 1000
        self._stats_due = monotonic() + self._every_s
        self._events: deque[Callable[[], Any]] = deque()
        self._unreachable: set[int] = set()
        self._ready: set[int] = set()
        self._seen: set[int] = set()
        self.changed = threading.Condition()

    def attach(self, network: NetworkClient) -> None:
        """Hear of the network's troubles, when the program wants to."""
        if self._on_error is not None or self._on_throttle is not None or self._logger is not None:
            network.observer = self

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Callable[[], Any]) -> None:
        with self.changed:
            self._events.append(event)
            self.changed.notify_all()

    def wait(self, deadline: float | None, is_pending: Callable[[], bool]) -> None:
        """Until there is an event, nothing is pending any more, or the time is over."""
        with self.changed:
            while not self._events and is_pending():
                left = self._until(deadline)
                if left <= 0:
                    return
                self.changed.wait(left)

    def _until(self, deadline: float | None) -> float:
        left = 1.0 if deadline is None else min(deadline - monotonic(), 1.0)
        return min(left, max(self._stats_due - monotonic(), 0.001)) if self._every_s and self._on_stats else left

    def serve(self, statistics: Callable[[], str]) -> int:
        """Call what is due, in order; returns how many were called."""
        if self._on_stats is not None and self._every_s and monotonic() >= self._stats_due:
            self._stats_due = monotonic() + self._every_s
            on_stats, text = self._on_stats, statistics()
            self.put(lambda: on_stats(text))
        served = 0
        while self._events:
            event = self._events.popleft()
            served += 1
            event()
        return served

    # --- an observer of the network, on its loop ---

    def connection_changed(self, connection: WatchedConnection) -> None:
        node = connection.node
        self._seen.add(node.id)
        if connection.is_ready:
            self._unreachable.discard(node.id)
            self._ready.add(node.id)
        elif connection.is_backing_off and connection.peer.failure is not None:
            self._ready.discard(node.id)
            if node.id not in self._unreachable:
                self._unreachable.add(node.id)
                self._report(_trouble(node, connection.peer.failure))
            if not self._ready and self._unreachable >= self._seen:
                count = len(self._unreachable)
                self._report(KafkaError(KafkaError._ALL_BROKERS_DOWN, f"{count}/{count} brokers are down"))

    def throttled(self, connection: WatchedConnection, throttle_ms: float) -> None:
        if (on_throttle := self._on_throttle) is not None:
            node = connection.node
            event = ThrottleEvent(f"{node.host}:{node.port}", _number(node), throttle_ms / 1000)
            self._put_bounded(lambda: on_throttle(event))

    def _report(self, error: KafkaError) -> None:
        if hasattr(self._logger, "error"):
            self._put_bounded(lambda: self._logger.error("%s", error.str()))
        if (on_error := self._on_error) is not None:
            self._put_bounded(lambda: on_error(error))

    def _put_bounded(self, event: Callable[[], Any]) -> None:
        if len(self._events) < EVENTS_LIMIT:
            self.put(event)


def _number(node: Node) -> int:
    return COORDINATOR_IDS - node.id if node.id > COORDINATOR_IDS // 2 else node.id


def _trouble(node: Node, error: BaseException) -> KafkaError:
    name = f"{node.host}:{node.port}/{'bootstrap' if node.is_bootstrap else _number(node)}"
    code = KafkaError._TRANSPORT
    if isinstance(error, AuthenticationFailed):
        code = KafkaError._AUTHENTICATION
    elif isinstance(error.__cause__, socket.gaierror):
        code = KafkaError._RESOLVE
    return KafkaError(code, f"{name}: {error}", retriable=code != KafkaError._AUTHENTICATION)
