"""An answer goes out in one piece: what is written in one turn of the loop is sent at its end, with one system call.

uvicorn writes the head of an answer and then its body, and asyncio sends each at once: two system calls of the broker,
and whoever reads is woken twice. An answer of a page is a few kilobytes, so both fit into one.

A connection that has begun a request must have sent its head within HEAD_MS, and gives way where the door is full
(admission.py).
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from ottla.broker.http.admission import Admission
from ottla.clock import Clock, Timer

HEAD_MS: Final = 10_000
GATHERED_BYTES_MAX: Final = 64 * 1024
"""More is sent at once: large answers come in pieces, and their writer waits for whoever reads."""


class GatheringTransport:
    """Another transport, whose writes are kept until the end of the turn; everything else is its own."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._kept: list[bytes] = []
        self._kept_bytes = 0

    def write(self, data: bytes) -> None:
        if not self._kept:
            self._loop.call_soon(self.flush)
        self._kept.append(data)
        self._kept_bytes += len(data)
        if self._kept_bytes > GATHERED_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        kept, self._kept, self._kept_bytes = self._kept, [], 0
        if kept:
            self._transport.write(kept[0] if len(kept) == 1 else b"".join(kept))

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)


class GatheringProtocol(H11Protocol):
    """uvicorn's own, over such a transport; a server makes its own kind of it (`gathering_for`)."""

    _admission: Admission
    _clock: Clock
    _head_timer: Timer | None = None

    @property
    def address(self) -> str:
        return self.client[0] if self.client is not None else ""

    @property
    def is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def give_way(self) -> None:
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        gathering = GatheringTransport(transport, asyncio.get_running_loop())
        super().connection_made(cast(asyncio.Transport, gathering))
        self._admission.came(self)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._admission.left(self)
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._expect_head()

    def _expect_head(self) -> None:
        if self.is_busy or self.transport.is_closing():
            self._expect_nothing()
        elif self._head_timer is None:
            self._head_timer = self._clock.call_later(HEAD_MS, self._head_is_late)

    def _expect_nothing(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if not self.is_busy:
            self.transport.abort()


def gathering_for(admission: Admission, clock: Clock) -> type[GatheringProtocol]:
    """The protocol of one server; uvicorn makes its objects."""
    return type("GatheringProtocol", (GatheringProtocol,), {"_admission": admission, "_clock": clock})
