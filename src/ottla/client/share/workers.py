"""Handlers in threads: so many records at a time, each for as long as it takes.

1. As many records are acquired as there are workers that wait for one (share.acquire.mode=record_limit, whatever the
   settings say): no record is locked that nobody works on, and other consumers get the rest. It wants Kafka 4.2.
2. From the moment a worker gets a record its lock is renewed in the background, for at most share.renew.max.ms.
3. A handler that returns accepts its record, one that raises releases it, unless it said something itself. Errors of
   handlers are logged and go no further; with share.dead.letter.topic they end there after enough deliveries.
4. Acknowledgements are sent at once. While all workers are busy the consumer stays a member of its group.
5. At the end the handlers that run are waited for. Ctrl-C does not wait: the process can end, and brokers give the
   records of such handlers to others when the consumer is closed.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.client.share.face import POLL_TURN_S
from ottla.client.share.in_flight import NotHeld
from ottla.client.share.records import ShareRecord
from ottla.client.share.requests import RECORD_LIMIT

if TYPE_CHECKING:
    from ottla.client.share.sync_calls import ShareCalls

log = logging.getLogger(__name__)


def handle(handler: Callable[[ShareRecord], object], record: ShareRecord) -> None:
    """One record; whatever happens, it is said of it."""
    try:
        with record:
            handler(record)
    except NotHeld as error:
        log.warning("a record was handled, but it is not ours any more: %s", error)
    except Exception:
        log.exception("the handler failed at %s-%s@%s", record.topic, record.partition, record.offset)


class Workers:
    """The threads of one call of work()."""

    def __init__(self, consumer: ShareCalls, handler: Callable[[ShareRecord], object], count: int) -> None:
        self._consumer = consumer
        self._handler = handler
        self._count = count
        self._records: queue.SimpleQueue[ShareRecord | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._busy = 0
        self._done = 0

    def run(self, max_records: int | None, idle_s: float | None) -> int:
        core = self._consumer._core
        core.sends_acks = True
        threads = [
            threading.Thread(target=self._work, name=f"{core.settings.client_id}-worker-{number}", daemon=True)
            for number in range(self._count)
        ]
        for thread in threads:
            thread.start()
        try:
            self._feed(max_records, idle_s)
            self._wait_for_handlers()
        finally:
            self._consumer._stopping = False
            core.sends_acks = False
            for _ in threads:
                self._records.put(None)
        return self._done

    def _feed(self, max_records: int | None, idle_s: float | None) -> None:
        clock = self._consumer._core.clock
        begun = 0
        last_ms = clock.monotonic_ms()
        while not self._consumer._stopping and (max_records is None or begun < max_records):
            free = self._count - self._busy
            if max_records is not None:
                free = min(free, max_records - begun)
            if free <= 0:
                self._wait_for_worker()
                continue
            found = self._consumer._delivered(self._consumer._poll(POLL_TURN_S, free, RECORD_LIMIT))
            for record in found:
                self._hand_over(record)
            begun += len(found)
            if found or self._busy:
                last_ms = clock.monotonic_ms()
            elif idle_s is not None and clock.monotonic_ms() - last_ms >= idle_s * 1000:
                return

    def _hand_over(self, record: ShareRecord) -> None:
        self._consumer.keep_record(record)
        with self._lock:
            self._busy += 1
        self._records.put(record)

    def _wait_for_worker(self) -> None:
        """All are busy: say that we are there, and wait until one is not."""
        consumer = self._consumer
        consumer._core.polled()
        consumer._news.clear()
        consumer._attend()
        if self._busy >= self._count:
            consumer._news.wait(consumer._pace_s())

    def _wait_for_handlers(self) -> None:
        while self._busy:
            consumer = self._consumer
            consumer._core.polled()
            consumer._news.clear()
            if self._busy:
                consumer._news.wait(consumer._pace_s())

    def _work(self) -> None:
        while (record := self._records.get()) is not None:
            try:
                handle(self._handler, record)
            finally:
                with self._lock:
                    self._busy -= 1
                    self._done += 1
                self._consumer._news.set()
