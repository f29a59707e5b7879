"""The clients of the sink in one process: they outlive a task, because a worker process runs many.

1. One set of clients per process and client settings, made when first used. A forked child makes its own.
2. A producer in a transaction belongs to one transactional id. It is kept for the next batch of the same task, which
   initializes it again: the epoch rises at every write, only connections and metadata are saved.
3. At most PRODUCER_LIMIT producers and CLIENTS_LIMIT sets are kept; the least recently used one is closed. To
   close a producer whose transaction is prepared aborts nothing.
4. A set with a token that was replaced is closed when the next one is made.
5. A producer that failed, or whose task ended before it had prepared a transaction, is not used again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.loop import BackgroundLoop
from ottla.client.producer.producer import Producer
from ottla.errors import OttlaError
from ottla.spark.sink.options import SinkOptions

log = logging.getLogger(__name__)

T = TypeVar("T")

PRODUCER_LIMIT: Final = 4
CLIENTS_LIMIT: Final = 4
CLOSE_LIMIT_S: Final = 5.0

_kept: Final[OrderedDict[tuple[Any, ...], SinkClients]] = OrderedDict()
_lock: Final = threading.Lock()


class SinkClients:
    """Producers and an admin client for one set of options."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._producers: OrderedDict[str | None, Producer] = OrderedDict()
        self._unprepared: set[str] = set()
        self._loop = BackgroundLoop("ottla spark sink")
        self._loop.start()
        self.admin = AsyncAdmin(options.client_settings("admin"))
        self.marker_topics: set[str] = set()
        self.known_tasks: dict[str, set[int]] = {}

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Carry out a call of `admin` and wait for it."""
        return self._loop.run(call)

    def run_all(self, calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """Several calls at the same time; the first error is raised when all have ended."""

        async def together() -> list[T]:
            tasks = [asyncio.ensure_future(call) for call in calls]
            await asyncio.wait(tasks)
            errors = [error for task in tasks if (error := task.exception()) is not None]
            if errors:
                raise errors[0]
            return [task.result() for task in tasks]

        return self._loop.run(together()) if calls else []

    def producer(self, transactional_id: str | None = None) -> Producer:
        """The producer of an id, or the one without transactions."""
        found = self._producers.pop(transactional_id, None)
        if found is None:
            while len(self._producers) >= PRODUCER_LIMIT:
                self._close(self._producers.popitem(last=False)[1])
            found = Producer(
                self._options.client_settings("producer")
                if transactional_id is None
                else self._options.transaction_settings(transactional_id)
            )
        self._producers[transactional_id] = found
        return found

    def producer_to_initialize(self, transactional_id: str) -> Producer:
        """The producer of an id at the beginning of a task."""
        if transactional_id in self._unprepared:
            self.drop(transactional_id)
        self._unprepared.add(transactional_id)
        return self.producer(transactional_id)

    def has_prepared(self, transactional_id: str) -> None:
        """The producer's transaction is prepared, so it can be initialized again by the next task."""
        self._unprepared.discard(transactional_id)

    def drop(self, transactional_id: str | None) -> None:
        """Close a producer instead of keeping it; an open transaction is aborted, a prepared one is not."""
        self._unprepared.discard(transactional_id or "")
        if (found := self._producers.pop(transactional_id, None)) is not None:
            self._close(found)

    def close(self) -> None:
        for transactional_id in list(self._producers):
            self.drop(transactional_id)
        self._loop.run(self.admin.close(CLOSE_LIMIT_S))
        self._loop.close(CLOSE_LIMIT_S)

    def _close(self, producer: Producer) -> None:
        try:
            producer.close(CLOSE_LIMIT_S)
        except OttlaError as error:
            log.warning("while closing a producer of the sink: %s", error)


def sink_clients(options: SinkOptions) -> SinkClients:
    """The clients of this process for these options."""
    settings, login = tuple(sorted(options.kafka.items())), tuple(sorted(options.login.items()))
    key = (os.getpid(), options.transaction_timeout_ms, settings, login)
    with _lock:
        found = _kept.pop(key, None)
        if found is None:
            _close_superseded(key)
            _make_room()
            found = SinkClients(options)
        _kept[key] = found
        return found


def close_sink_clients() -> None:
    """Close what this process keeps; the next task makes new ones."""
    with _lock:
        for key in list(_kept):
            found = _kept.pop(key)
            if key[0] == os.getpid():
                found.close()


def _close_superseded(key: tuple[Any, ...]) -> None:
    """Clients for the same settings with another token: that token was replaced, and soon it is good for nothing."""
    for other in [other for other in _kept if other[:-1] == key[:-1]]:
        _kept.pop(other).close()


def _make_room() -> None:
    mine = os.getpid()
    for key in [key for key in _kept if key[0] != mine]:
        del _kept[key]  # a parent's; it closes them itself
    while len(_kept) >= CLIENTS_LIMIT:
        _kept.popitem(last=False)[1].close()
