"""Waking up once for much instead of often for little, while a large frame is on its way.

A frame of 4 MB comes in pieces of 64 KB to 200 KB, and each wakes the loop, which asks for the interpreter lock twice.
Nobody can use a part of a frame, so the kernel is asked to wait until more of it is there (SO_RCVLOWAT).

1. The kernel is never asked to wait for more than the frame still lacks: whatever comes after it may take for ever.
2. An end of the connection wakes the loop at once, and so does a kernel that has no memory for more.
3. It is a matter of speed only: where a system does not know it, everything works without.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from typing import Any, Final

LOW_WATER_BYTES: Final = 524_288
"""Half a second-level cache or so: what is copied out of the kernel should still be warm."""
LEAST_BYTES: Final = 131_072


def low_water_of(sock: Any, receive_buffer_bytes: int | None) -> LowWater | None:
    """None where it cannot be had: over no TCP, on other systems, or with a receive buffer that somebody chose and the
    kernel will not make larger."""
    if sys.platform != "linux" or sock is None or receive_buffer_bytes is not None:
        return None
    return LowWater(sock) if sock.family in (socket.AF_INET, socket.AF_INET6) else None


class LowWater:
    """How many bytes must be there before one socket is readable."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._set_bytes = 1

    def follow(self, missing_bytes: int) -> None:
        """The frame that is being received lacks so many bytes; 0 between frames."""
        wanted = min(missing_bytes, LOW_WATER_BYTES) if missing_bytes >= LEAST_BYTES else 1
        if wanted != self._set_bytes:
            self._set_bytes = wanted
            with contextlib.suppress(OSError):  # the socket is closed, and nobody waits for it
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)
