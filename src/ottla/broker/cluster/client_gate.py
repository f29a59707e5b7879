"""Keeps clients waiting while a broker joins its cluster; lets the controller through.

1. The controller's first requests must be answered before anybody knows the cluster: they tell of it. They come to the
   listener that clients use too. So the connections are read, and while the gate is closed only requests of
   WHILE_JOINING are dispatched: logins, and what only brokers send. A broker's request that waited would hold back the
   controller's on the same connection.
2. Every other request is kept, and nothing more is read from its connection. When the gate opens, the kept requests are
   dispatched in the order they came.
3. A connection whose request has been kept for KEPT_LIMIT_MS is closed: its client goes to another broker instead of
   waiting for its own time-out, which may be a minute.
4. An open gate costs nothing: the dispatcher behind it is called directly.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import Final

from ottla.broker.network.processor import Answer, Answering, CloseConnection, Connection, Dispatcher, RunAnswers
from ottla.broker.requests.running import awaited, resolve
from ottla.broker.requests.served import BROKER_APIS
from ottla.clock import Clock
from ottla.ordered_set import OrderedSet
from ottla.protocol.api import APIS

_OTHERS: Final = ("api_versions", "sasl_handshake", "sasl_authenticate", "write_txn_markers")
WHILE_JOINING: Final = BROKER_APIS | frozenset(key for key, api in APIS.items() if api.module in _OTHERS)
KEPT_LIMIT_MS: Final = 5_000.0
_KEY_BYTES: Final = 2


class ClientGate:
    """A Dispatcher in front of another one; closed until `open`."""

    def __init__(self, behind: Dispatcher, clock: Clock) -> None:
        self._behind = behind
        self._clock = clock
        self._waiting: OrderedSet[asyncio.Future[bool]] = OrderedSet()
        self.is_open = False

    def open(self) -> None:
        """Dispatch what was kept, and everything from now on."""
        self.is_open = True
        self.dispatch = self._behind.dispatch  # type: ignore[method-assign]
        self.dispatch_run = self._behind.dispatch_run  # type: ignore[method-assign]
        self._resolve(True)

    def close(self) -> None:
        """The broker ends without having joined."""
        self._resolve(False)

    def _resolve(self, is_open: bool) -> None:
        for each in list(self._waiting):
            resolve(each, is_open)

    # -- what connections call ---------------------------------------------------------------------------------------

    def dispatch(self, frame: memoryview, connection: Connection) -> Answering:
        if self.is_open or int.from_bytes(frame[:_KEY_BYTES], signed=True) in WHILE_JOINING:
            return self._behind.dispatch(frame, connection)
        return self._dispatch_when_open(bytes(frame), connection)

    def dispatch_run(
        self, frame: memoryview, following: deque[memoryview], connection: Connection
    ) -> RunAnswers | None:
        return self._behind.dispatch_run(frame, following, connection) if self.is_open else None

    async def _dispatch_when_open(self, frame: bytes, connection: Connection) -> Answer | None:
        connection.hold()
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        timer = self._clock.call_later(KEPT_LIMIT_MS, partial(resolve, waiting, False))
        try:
            if not await waiting:
                raise CloseConnection("this broker has not joined its cluster yet")
        finally:
            timer.cancel()
            self._waiting.discard(waiting)
        return await awaited(self._behind.dispatch(memoryview(frame), connection))
