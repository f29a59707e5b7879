"""Bytes of a file from the kernel to a socket, without passing through our memory: for plain TCP on Linux.

An asyncio transport owns its socket and knows nothing of files, uvloop's least of all. A door goes past it, which is
right only while the transport has nothing to write itself; the link looks after that.

1. Nothing blocks on the socket: what it does not take is said, and tried again when it has room.
2. A loop does not watch a socket that a transport owns. A second number for the same socket is watched instead, only
   while somebody waits, and it is closed whatever happens.
3. What goes wrong is not told here: the caller sends in another way, and meets the error where it is understood.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ottla.net.framing import Buffer


class SendfileDoor:
    """Past the transport of one socket."""

    __slots__ = ("_call", "_family", "_loop", "_number", "_watched")

    def __init__(self, number: int, family: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        self._family = family
        self._loop = loop
        self._watched: int | None = None
        self._call: Callable[[], None] | None = None

    def send(self, before: Sequence[Buffer], number: int, position: int, size_bytes: int) -> int | bytes | None:
        """How many bytes of the file the socket took; the rest of `before`, if it had no room even for that; None
        when this cannot be done."""
        try:
            if before:
                joined = b"".join(before)
                sent_bytes = self._send_more_to_come(joined)
                if sent_bytes < len(joined):
                    return joined[sent_bytes:]
        except OSError:
            return None
        try:
            return os.sendfile(self._number, number, position, size_bytes) or self._nothing(before)
        except BlockingIOError:
            return 0
        except OSError:
            return self._nothing(before)

    def _send_more_to_come(self, content: bytes) -> int:
        """Without a packet of its own: the reader would be woken for it, only to find that the rest is not there."""
        passing = socket.SocketType(self._family, socket.SOCK_STREAM, 0, self._number)
        try:
            return passing.send(content, socket.MSG_MORE | socket.MSG_DONTWAIT)
        finally:
            passing.detach()  # the number is the transport's

    @staticmethod
    def _nothing(before: Sequence[Buffer]) -> int | None:
        """The file gave nothing. Who sent the buffers cannot take them back: that file is tried once more alone."""
        return 0 if before else None

    def when_sendable(self, call: Callable[[], None]) -> None:
        """Call once, when the socket has room; at once when it cannot be watched."""
        self._call = call
        try:
            self._watched = os.dup(self._number)
        except OSError:
            self._loop.call_soon(self._sendable)
            return
        self._loop.add_writer(self._watched, self._sendable)

    def close(self) -> None:
        """The socket is gone; nobody is called any more."""
        self._call = None
        self._number = -1
        self._unwatch()

    def _sendable(self) -> None:
        self._unwatch()
        call, self._call = self._call, None
        if call is not None:
            call()

    def _unwatch(self) -> None:
        watched, self._watched = self._watched, None
        if watched is not None:
            self._loop.remove_writer(watched)
            os.close(watched)


def door_of(transport: Any) -> SendfileDoor | None:
    """The door past a transport, where there is one: plain TCP, on a system whose sendfile we know."""
    sock = transport.get_extra_info("socket")
    if sock is None or sys.platform != "linux" or transport.get_extra_info("sslcontext") is not None:
        return None
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    return SendfileDoor(sock.fileno(), sock.family, asyncio.get_running_loop())
