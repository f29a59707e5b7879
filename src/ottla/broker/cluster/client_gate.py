"""Keeps clients waiting while a broker joins its cluster; lets the controller through.

1. The controller's first requests must be answered before anybody knows the cluster: they tell of it. They come to the
   listener that clients use too. So the connections are read, and while the gate is closed only requests of
   WHILE_JOINING are dispatched: logins, and what only brokers send. A broker's request that waited would hold back the
   controller's on the same connection.
2. Any other request is kept, and nothing more is read from its connection. When the gate opens, the kept requests are
   dispatched in the order they came.
3. A connection whose request has been kept for KEPT_LIMIT_MS is closed: its client goes to another broker instead of
   waiting for its own time-out, which may be a minute.
4. An open gate costs nothing: the dispatcher behind it is called directly.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Any, Final

from ottla.broker.network.processor import Connection, Dispatcher
from ottla.clock import Clock, Timer
from ottla.protocol.api import APIS

log = logging.getLogger(__name__)

_LOGIN: Final = ("api_versions", "sasl_handshake", "sasl_authenticate")
_FROM_BROKERS: Final = (
    "leader_and_isr",
    "stop_replica",
    "update_metadata",
    "controlled_shutdown",
    "write_txn_markers",
    "alter_partition",
    "allocate_producer_ids",
)
WHILE_JOINING: Final = frozenset(key for key, api in APIS.items() if api.module in (*_LOGIN, *_FROM_BROKERS))
KEPT_LIMIT_MS: Final = 5_000.0
_KEY_BYTES: Final = 2


class ClientGate:
    """A Dispatcher in front of another one; closed until `open`."""

    def __init__(self, behind: Dispatcher, clock: Clock) -> None:
        self._behind = behind
        self._clock = clock
        self._kept: dict[Connection, tuple[list[bytes], Timer]] = {}
        self.is_open = False

    def open(self) -> None:
        """Dispatch what was kept, and everything from now on."""
        if self.is_open:
            return
        self.is_open = True
        self.dispatch = self._behind.dispatch  # type: ignore[method-assign]
        self.dispatch_run = self._behind.dispatch_run  # type: ignore[method-assign]
        kept, self._kept = self._kept, {}
        for connection, (frames, timer) in kept.items():
            timer.cancel()
            for frame in frames:
                if not connection.is_gone:
                    connection.frame_received(memoryview(frame))
            connection.let_go()

    def close(self) -> None:
        """The broker ends without having joined."""
        for _, timer in self._kept.values():
            timer.cancel()
        self._kept.clear()

    # -- what connections call ---------------------------------------------------------------------------------------

    def dispatch(self, frame: memoryview, connection: Connection) -> Any:
        if self.is_open or int.from_bytes(frame[:_KEY_BYTES], signed=True) in WHILE_JOINING:
            return self._behind.dispatch(frame, connection)
        connection.hold()
        if connection not in self._kept:
            self._kept[connection] = [], self._clock.call_later(KEPT_LIMIT_MS, lambda: self._send_away(connection))
        self._kept[connection][0].append(bytes(frame))
        return None

    def dispatch_run(self, frame: memoryview, following: deque[memoryview], connection: Connection) -> Any:
        return self._behind.dispatch_run(frame, following, connection) if self.is_open else None

    def _send_away(self, connection: Connection) -> None:
        if self._kept.pop(connection, None) is not None:
            log.info("%s: closed, because this broker has not joined its cluster yet", connection.name)
            connection.close()
