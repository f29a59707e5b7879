"""The memory of those who have not logged in yet: what they have sent of a message that is not whole.

Anybody can connect and begin a message of the size that a login may have. So what all of them hold together is limited:

1. Before its login a connection has a small chunk (LOGIN_CHUNK_BYTES); a message that does not fit in gets memory as it
   arrives, and that is counted here.
2. When all of it is more than the limit, the connection that began its message first is closed: a login takes
   milliseconds, so whoever holds memory for the longest is the likeliest not to mean it.
3. After the login the memory of a connection is counted with that of the others (large_frames.py).
"""

from __future__ import annotations

import logging
from typing import Final

from ottla.broker.network.large_frames import ReceivingLink
from ottla.broker.observe.log_limit import LineLimit
from ottla.errors import ConnectionClosed
from ottla.net.link import FrameMemory

log = logging.getLogger(__name__)
log.addFilter(LineLimit())

LOGIN_MEMORY_BYTES: Final = 8 * 1024 * 1024
LOGIN_CHUNK_BYTES: Final = 4 * 1024


class LoginMemory:
    """FrameMemory of links with login; what is after the login goes to `behind`."""

    def __init__(self, behind: FrameMemory, limit_bytes: int = LOGIN_MEMORY_BYTES) -> None:
        self._behind = behind
        self._limit_bytes = limit_bytes
        self._before_login: set[object] = set()
        self._held: dict[object, tuple[ReceivingLink, int]] = {}  # in the order in which their messages began
        self.size_bytes = 0

    def enter(self, link: object) -> None:
        """A connection begins, and nobody knows whose it is."""
        self._before_login.add(link)

    def leave(self, link: object) -> None:
        """Its login is complete, or it is gone."""
        if link not in self._before_login:
            return
        self._before_login.discard(link)
        receiving = self._forget(link)
        if receiving is not None and receiving.big_frame_bytes:
            self._behind.receiving(receiving)

    def receiving(self, link: ReceivingLink) -> None:
        if link not in self._before_login:
            self._behind.receiving(link)
            return
        _, held_bytes = self._held.get(link, (link, 0))
        self.size_bytes += link.big_frame_bytes - held_bytes
        self._held[link] = link, link.big_frame_bytes
        while self.size_bytes > self._limit_bytes and self._held:
            self._close(next(iter(self._held.values()))[0])

    def received(self, link: ReceivingLink) -> None:
        if link in self._before_login:
            self._forget(link)
        else:
            self._behind.received(link)

    def _forget(self, link: object) -> ReceivingLink | None:
        """The link, if it held something."""
        receiving, held_bytes = self._held.pop(link, (None, 0))
        self.size_bytes -= held_bytes
        return receiving

    def _close(self, link: ReceivingLink) -> None:
        self._forget(link)
        reason = f"peers without a login hold more than {self._limit_bytes} bytes, and this one for the longest"
        log.warning("%s: closing the connection: %s", link.remote_address, reason)
        link.abort(ConnectionClosed(reason))
