"""Histories of real clients: written by threads, ended by a last reading of everything, judged by the same checker.

    history = SharedHistory()
    sending = history.invoke("confluent 1", "send", partition="orders-0", value=17)     # in any thread
    sending.ok(offset=4)                                                                # in another one
    read_everything(history, servers, {"orders": 3})
    anomalies = check(history.events)

1. Events of all threads stand in one order, that of their writing: an operation begins before it is asked for, and ends
   after it was answered, so what ended before another one began did so in fact.
2. The last reading is by a fresh client of ours, to where the ends of the partitions are when it begins.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.client.consumer.consumer import Consumer
from ottla.simulation.history import History, Kind, Operation
from ottla.values import TopicPartition

READ_LIMIT_S: Final = 300.0


class SharedHistory(History):
    """See the module."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(now_s)
        self._lock = threading.RLock()

    def invoke(self, client: str, action: str, **facts: Any) -> Operation:
        with self._lock:
            return super().invoke(client, action, **facts)

    def add(self, client: str, kind: Kind, action: str, number: int, facts: Mapping[str, Any]) -> None:
        with self._lock:
            super().add(client, kind, action, number, facts)


def number_in(value: bytes | None) -> int:
    return int(value or b"-1")


def read_everything(
    history: History,
    servers: str,
    topics: Mapping[str, int],
    *,
    isolation: str = "read_committed",
    value_of: Callable[[bytes | None], int] = number_in,
    client: str = "final reader",
    settings: Mapping[str, Any] | None = None,
) -> None:
    """All records of these topics (partitions by name), written down as `final-poll`s of one `final-read`. `settings`
    are further ones of the consumer, such as a login."""
    partitions = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
    reading = history.invoke(client, "final-read", isolation=isolation)
    history.note(client, "assign")
    where = {**(settings or {}), "bootstrap.servers": servers, "isolation.level": isolation}
    with Consumer(where) as consumer:
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions, timeout=READ_LIMIT_S)
        consumer.seek_to_beginning(*partitions)
        give_up_s = time.monotonic() + READ_LIMIT_S
        while any(consumer.position(each, timeout=READ_LIMIT_S) < ends[each] for each in partitions):
            if time.monotonic() > give_up_s:
                reading.info(f"not at the end within {READ_LIMIT_S:g} s")
                return
            records = consumer.poll(1.0)
            plain = [[f"{each.topic}-{each.partition}", each.offset, value_of(each.value)] for each in records]
            if plain:
                history.invoke(client, "final-poll").ok(records=plain, isolation=isolation)
        starts = consumer.beginning_offsets(partitions, timeout=READ_LIMIT_S)
    reading.ok(
        starts={f"{each.topic}-{each.partition}": offset for each, offset in starts.items()},
        ends={f"{each.topic}-{each.partition}": offset for each, offset in ends.items()},
    )
