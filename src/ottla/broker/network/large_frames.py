"""The memory for large frames that are being received, of all connections: a part of queued.max.request.bytes.

A frame is large when it has memory of its own (net/framing.py: more than 64 KiB). Its memory grows with the bytes that
arrive, so nobody can claim much without sending it; but a hundred clients that send 100 MB each could fill the memory
without a single whole request. So what large frames hold is counted together with the requests that wait for their
answers (waiting_requests.py), and when both have used up the limit:

1. Large frames are not read any further, except for two: the one that began first, so that nobody waits for ever, and
   one of at most ORDINARY_BYTES, so that the requests of producers do not wait behind giants. When one of the two is
   whole, the next goes on. Even these wait while whole requests fill half of the limit.
2. Small frames of everybody are still read: heartbeats, fetches, commits, small batches.
3. When half of the limit is free, everybody goes on.
4. A client that sends nothing for STALL_LIMIT_MS in the middle of a large frame is closed. One of the two that go on
   while others wait has SLOW_LIMIT_MS, and a second for each megabyte that it still has to send.

So what is held is at most one and a half times the limit and two frames, and nobody waits for ever: whole requests have
deadlines, and large frames have them here.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

from ottla.broker.network.waiting_requests import WaitingRequests
from ottla.broker.observe.log_limit import LineLimit
from ottla.clock import Clock, Timer
from ottla.errors import ConnectionClosed, OttlaError
from ottla.light_dataclasses import dataclass

log = logging.getLogger(__name__)
log.addFilter(LineLimit())

ORDINARY_BYTES: Final = 4 * 1024 * 1024
STALL_LIMIT_MS: Final = 30_000
SLOW_LIMIT_MS: Final = 5_000
SLOW_BYTES_PER_MS: Final = 1_048
CHECK_INTERVAL_MS: Final = 1_000


class ReceivingLink(Protocol):
    """What this file needs of a link (net/framed_link.py)."""

    @property
    def big_frame_bytes(self) -> int: ...
    @property
    def big_frame_missing_bytes(self) -> int: ...
    @property
    def is_paused(self) -> bool: ...
    @property
    def remote_address(self) -> tuple[str, int] | None: ...
    def wait_for_memory(self, waits: bool) -> None: ...
    def abort(self, reason: OttlaError | None = None) -> None: ...


@dataclass(slots=True, eq=False)
class _Frame:
    """One large frame on its way."""

    link: ReceivingLink
    held_bytes: int
    missing_bytes: int  # as it was when last checked
    is_ordinary: bool
    progress_ms: float  # when it was last seen to grow, or was not to be read
    deadline_ms: float | None = None  # while others wait for it
    is_stopped: bool = False

    def stop(self) -> None:
        self.is_stopped = True
        self.deadline_ms = None
        self.link.wait_for_memory(True)

    def proceed(self, now_ms: float) -> None:
        if self.is_stopped:
            self.is_stopped = False
            self.progress_ms = now_ms
            self.link.wait_for_memory(False)


class LargeFrames:
    """FrameMemory of a broker's links."""

    def __init__(self, requests: WaitingRequests, limit_bytes: int, clock: Clock) -> None:
        """`requests` counts the bytes of both; a limit of 0 or less is none."""
        self.size_bytes = 0
        self._requests = requests
        self._limit_bytes = limit_bytes
        self._clock = clock
        self._frames: dict[ReceivingLink, _Frame] = {}  # in the order in which they began
        self._timer: Timer | None = None

    def receiving(self, link: ReceivingLink) -> None:
        frame = self._frames.get(link)
        if frame is None:
            frame = self._frames[link] = self._begin(link)
            self._count(frame.held_bytes)
            if self._requests.is_full:
                self.schedule()
            return
        grown_bytes = link.big_frame_bytes - frame.held_bytes
        if grown_bytes:
            frame.held_bytes += grown_bytes
            self._count(grown_bytes)

    def received(self, link: ReceivingLink) -> None:
        frame = self._frames.pop(link)
        frame.proceed(self._clock.monotonic_ms())
        self._count(-frame.held_bytes)
        if self._requests.is_full:
            self.schedule()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def schedule(self) -> None:
        """Decide who is read. Called when the memory became full or free again, and when a frame came or went."""
        now_ms = self._clock.monotonic_ms()
        if not self._requests.is_full:
            for frame in self._frames.values():
                frame.deadline_ms = None
                frame.proceed(now_ms)
            return
        proceeding = self._chosen()
        for frame in self._frames.values():
            if frame not in proceeding:
                frame.stop()
                continue
            frame.proceed(now_ms)
            if frame.deadline_ms is None:
                missing_bytes = frame.link.big_frame_missing_bytes
                frame.deadline_ms = now_ms + SLOW_LIMIT_MS + missing_bytes / SLOW_BYTES_PER_MS

    def check(self) -> None:
        """Close who takes too long, and let the next one go on."""
        now_ms = self._clock.monotonic_ms()
        for frame in list(self._frames.values()):
            if reason := self._reason_to_close(frame, now_ms):
                log.info("%s: closing the connection: %s", frame.link.remote_address, reason)
                frame.link.abort(ConnectionClosed(reason))
        if self._requests.is_full:
            self.schedule()

    def _begin(self, link: ReceivingLink) -> _Frame:
        if self._timer is None:
            self._timer = self._clock.call_later(CHECK_INTERVAL_MS, self._check_and_repeat)
        missing_bytes = link.big_frame_missing_bytes
        return _Frame(
            link,
            held_bytes=link.big_frame_bytes,
            missing_bytes=missing_bytes,
            is_ordinary=missing_bytes <= ORDINARY_BYTES,
            progress_ms=self._clock.monotonic_ms(),
        )

    def _check_and_repeat(self) -> None:
        self._timer = None
        self.check()
        if self._frames and self._timer is None:
            self._timer = self._clock.call_later(CHECK_INTERVAL_MS, self._check_and_repeat)

    def _count(self, by_bytes: int) -> None:
        self.size_bytes += by_bytes
        self._requests.change(by_bytes)

    def _chosen(self) -> list[_Frame]:
        """The two that go on although the memory is full."""
        if self._requests.size_bytes - self.size_bytes >= self._limit_bytes // 2:
            return []
        readable = [frame for frame in self._frames.values() if not frame.link.is_paused]
        first, others = readable[:1], [frame for frame in readable[1:] if frame.is_ordinary]
        running = [frame for frame in others if frame.deadline_ms is not None]
        return first + (running or sorted(others, key=lambda frame: frame.link.big_frame_missing_bytes))[:1]

    def _reason_to_close(self, frame: _Frame, now_ms: float) -> str | None:
        missing_bytes = frame.link.big_frame_missing_bytes
        if frame.is_stopped or frame.link.is_paused or missing_bytes < frame.missing_bytes:
            frame.missing_bytes = missing_bytes
            frame.progress_ms = now_ms
        if now_ms - frame.progress_ms >= STALL_LIMIT_MS:
            return f"nothing came for {STALL_LIMIT_MS} ms in the middle of a request"
        if frame.deadline_ms is not None and now_ms >= frame.deadline_ms and not frame.link.is_paused:
            return "it sends a large request too slowly while others wait for memory (queued.max.request.bytes)"
        return None
