"""Threads that take records of a share consumer, `count` of them; task_hands.py has the same with a task for each."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Final

from ottla.client.share.records import ShareRecord


class ThreadHands:
    """`news` is called when one is free again."""

    can_be_cancelled: Final = False

    def __init__(self, handle: Callable[[ShareRecord], None], count: int, news: Callable[[], None], name: str) -> None:
        self.busy = self.done = 0
        self._handle = handle
        self._count = count
        self._news = news
        self._lock = threading.Lock()
        self._records: queue.SimpleQueue[ShareRecord | None] = queue.SimpleQueue()
        for number in range(count):
            threading.Thread(target=self._work, name=f"{name}-worker-{number}", daemon=True).start()

    def take(self, record: ShareRecord) -> None:
        with self._lock:
            self.busy += 1
        self._records.put(record)

    def _work(self) -> None:
        while (record := self._records.get()) is not None:
            try:
                self._handle(record)
            finally:
                with self._lock:
                    self.busy -= 1
                    self.done += 1
                self._news()

    def end(self) -> None:
        """They end when they are free; nobody waits for that."""
        for _ in range(self._count):
            self._records.put(None)
