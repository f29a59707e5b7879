"""Whether somebody listens at an address: a connection that is made and closed again, without a word.

    if await nothing_listens(transport, clock, "10.0.0.7", 9092, limit_ms=1_000): ...

True is certain: the machine itself says so, because the process has ended. False is anything else: somebody listens,
the machine does not answer in time, the name is not known.
"""

from __future__ import annotations

from ottla.clock import Clock
from ottla.errors import ConnectionRefused, OttlaError
from ottla.net.link import Link, Transport


class _Ignored:
    """Events of a link that only had to be made."""

    def opened(self, link: Link) -> None:
        link.abort()

    def frame_received(self, frame: memoryview) -> None:
        """Nothing was asked."""

    def writable_changed(self, writable: bool) -> None:
        """Nothing is written."""

    def closed(self, error: OttlaError | None) -> None:
        """By us."""


async def nothing_listens(transport: Transport, clock: Clock, host: str, port: int, *, limit_ms: float) -> bool:
    """See above."""
    try:
        async with clock.timeout(limit_ms):
            await transport.connect(host, port, _Ignored())
    except ConnectionRefused:
        return True
    except (OttlaError, TimeoutError):
        return False
    return False
