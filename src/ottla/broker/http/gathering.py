"""An answer goes out in one piece: what is written in one turn of the loop is sent at its end, with one system call.

uvicorn writes the head of an answer and then its body, and asyncio sends each at once: two system calls of the broker,
and whoever reads is woken twice. An answer of a page is a few kilobytes, so both fit into one.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

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
    """uvicorn's own, over such a transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        gathering = GatheringTransport(transport, asyncio.get_running_loop())
        super().connection_made(cast(asyncio.Transport, gathering))
