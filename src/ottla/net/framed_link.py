"""What a link does whatever carries it: frames out of bytes, small writes joined, turns, limits, fences.

The promises stand in link.py. Below a FramedLink is a socket (transport.py) or memory (testing, simulation); it says
which bytes came, and puts, stops, goes on and cuts when it is asked to.
"""

from __future__ import annotations

import abc
import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.errors import ConnectionClosed, OttlaError
from ottla.net.framing import Buffer
from ottla.net.framing_choice import FrameReader
from ottla.net.link import FrameMemory, Link, LinkEvents, LinkSettings

log = logging.getLogger(__name__)

JOIN_LIMIT_BYTES: Final = 16_384
GATHERED_LIMIT_BYTES: Final = 4_096  # where one call takes many buffers, larger ones are not worth a copy
HOLD_LIMIT_BYTES: Final = 2_048
TURN_FRAMES: Final = 64
SCRATCH_BYTES: Final = 4_096


def gathered(buffers: Sequence[Buffer], join_limit_bytes: int = JOIN_LIMIT_BYTES) -> list[Buffer]:
    """The same bytes in few pieces: runs of small buffers joined, big ones untouched."""
    if len(buffers) == 1:
        return list(buffers)
    pieces: list[Buffer] = []
    small: list[Buffer] = []
    for buffer in buffers:
        if len(buffer) <= join_limit_bytes:
            small.append(buffer)
            continue
        if small:
            pieces.append(b"".join(small))
            small = []
        pieces.append(buffer)
    if small:
        pieces.append(b"".join(small))
    return pieces


class _TurnedAway:
    """Events of a link that nobody wants."""

    def opened(self, link: Link) -> None:
        link.abort()

    def frame_received(self, frame: memoryview) -> None: ...
    def writable_changed(self, writable: bool) -> None: ...
    def closed(self, error: OttlaError | None) -> None: ...


def fenced(make_events: Callable[[], LinkEvents]) -> Callable[[], LinkEvents]:
    """The same factory, but its failure turns one link away instead of disturbing the loop."""

    def make() -> LinkEvents:
        try:
            return make_events()
        except Exception:
            log.exception("nobody could be found for a new connection; it is closed")
            return _TurnedAway()

    return make


class FramedLink(abc.ABC):
    """What the link over sockets and its twin in memory have in common: frames, fences, limits."""

    def __init__(self, events: LinkEvents, settings: LinkSettings) -> None:
        self._events = events
        self._settings = settings
        self._reader = FrameReader(
            size_limit_bytes=settings.frame_limit_bytes, kind_limit_bytes=settings.kind_limit_bytes
        )
        self.following: deque[memoryview] = deque()
        self._frame_memory = settings.frame_memory
        self._is_in_budget = False  # the frame memory counts a frame of this link
        self._waits_for_memory = False
        self._paused = False
        self._delivering = False
        self._yielding = False  # the frames kept back wait for the next turn of the loop
        self._held: list[Buffer] = []
        self._held_bytes = 0
        self._join_limit_bytes = JOIN_LIMIT_BYTES
        self._ending = False
        self._finished = False
        self._reason: OttlaError | None = None
        self.writable = True

    @property
    def frame_limit_bytes(self) -> int:
        return self._reader.size_limit_bytes

    @frame_limit_bytes.setter
    def frame_limit_bytes(self, limit: int) -> None:
        self._reader.size_limit_bytes = limit

    @property
    def chunk_bytes(self) -> int:
        return self._reader.chunk_bytes

    @chunk_bytes.setter
    def chunk_bytes(self, size: int) -> None:
        self._reader.chunk_bytes = size

    @property
    def big_frame_bytes(self) -> int:
        return self._reader.big_frame_bytes

    @property
    def big_frame_missing_bytes(self) -> int:
        return self._reader.big_frame_missing_bytes

    @property
    def peer_certificate(self) -> bytes | None:
        return None

    @property
    def is_paused(self) -> bool:
        """Whether the owner of this link does not want to read now."""
        return self._paused

    def wait_for_memory(self, waits: bool) -> None:
        """Stop reading because there is no memory for more, or go on."""
        if waits is self._waits_for_memory:
            return
        self._waits_for_memory = waits
        if waits:
            self._stop_reading()
        else:
            self._read_unless_stopped()

    def write(self, buffers: Sequence[Buffer]) -> None:
        if self._ending:
            return
        if self._delivering:
            self._held.extend(buffers)
            self._held_bytes += sum(map(len, buffers))
            if self._held_bytes >= HOLD_LIMIT_BYTES:
                self._write_held()
            return
        self._write_now(buffers)

    def write_gathered(self, buffers: list[Buffer]) -> None:
        self.write(buffers)

    def _write_held(self) -> None:
        if self._held:
            buffers, self._held, self._held_bytes = self._held, [], 0
            self._write_now(buffers)

    def _write_now(self, buffers: Sequence[Buffer]) -> None:
        waiting_bytes = self._waiting_bytes()
        if waiting_bytes >= self._settings.write_limit_bytes:
            self.abort(ConnectionClosed(f"the other side does not read: {waiting_bytes} bytes wait to be written"))
            return
        self._put(gathered(buffers, self._join_limit_bytes))

    def send_file(self, before: Sequence[Buffer], number: int, position: int, size_bytes: int) -> int | None:
        return None

    def when_sendable(self, call: Callable[[], None]) -> None:
        raise NotImplementedError("only who sends files has to wait for room")

    def pause_reading(self) -> None:
        if not self._paused:
            self._paused = True
            self._stop_reading()

    def resume_reading(self) -> None:
        if not self._paused:
            return
        self._paused = False
        self._deliver()
        self._read_unless_stopped()

    def _read_unless_stopped(self) -> None:
        if not (self._paused or self._yielding or self._waits_for_memory or self._ending):
            self._go_on_reading()

    def abort(self, reason: OttlaError | None = None) -> None:
        if not self._finished:
            self._ending = True
            self._reason = self._reason or reason
            self._cut()

    @abc.abstractmethod
    def close(self) -> None: ...
    @abc.abstractmethod
    def _put(self, pieces: list[Buffer]) -> None: ...
    @abc.abstractmethod
    def _waiting_bytes(self) -> int: ...
    @abc.abstractmethod
    def _stop_reading(self) -> None: ...
    @abc.abstractmethod
    def _go_on_reading(self) -> None: ...
    @abc.abstractmethod
    def _cut(self) -> None:
        """Close now; `_finish` must be called later, not from here."""

    def _lend(self, sizehint: int) -> memoryview:
        # A loop may ask once more after the link was given up; those bytes are read and forgotten.
        if self._ending or self._reader.broken is not None:
            return memoryview(bytearray(SCRATCH_BYTES))
        return self._reader.get_buffer(sizehint)

    def _received(self, nbytes: int) -> None:
        if self._ending or self._reader.broken is not None:
            return
        try:
            frames = self._reader.received(nbytes)
        except OttlaError as error:
            self.abort(error)
            return
        if self._frame_memory is not None and (self._is_in_budget or self._reader.big_frame_bytes):
            self._count_memory(self._frame_memory)
        if not frames:
            return  # a part of a big one; there will be many
        self.following.extend(frames)
        self._deliver()
        self._end_if_broken()

    def _count_memory(self, frame_memory: FrameMemory) -> None:
        if self._reader.big_frame_bytes:
            self._is_in_budget = True
            frame_memory.receiving(self)
        elif self._is_in_budget:
            self._is_in_budget = False
            frame_memory.received(self)

    def _end_if_broken(self) -> None:
        if self._reader.broken is not None and not self._yielding:
            self.abort(self._reader.broken)

    def _deliver(self) -> None:
        # A handler may pause and resume while it has its frame; the loop that called it goes on with the next.
        if self._delivering or self._yielding:
            return
        self._delivering = True
        left = TURN_FRAMES
        while self.following and left > 0 and not self._paused and not self._ending:
            left -= len(self.following)
            frame = self.following.popleft()
            try:  # as in _notify: every request comes here, and a call less is seen
                self._events.frame_received(frame)
            except Exception as error:
                self._listener_failed(error)
            left += len(self.following)
        self._delivering = False
        if self._ending:
            return
        if self._held:
            self._write_held()
        if self.following and not self._paused:
            self._yielding = True
            self._stop_reading()
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._yielding = False
        if self._ending:
            return
        self._deliver()
        self._end_if_broken()
        self._read_unless_stopped()

    def _writable_is(self, writable: bool) -> None:
        if self.writable != writable and not self._ending:
            self.writable = writable
            self._notify(self._events.writable_changed, writable)

    def _finish(self, error: OttlaError | None) -> None:
        if self._finished:
            return
        if error is None and not self._ending and self._reader.pending_bytes:
            error = ConnectionClosed("the other side closed it in the middle of a frame")
        self._finished = self._ending = True
        self.following.clear()
        if self._frame_memory is not None and self._is_in_budget:
            self._is_in_budget = False
            self._frame_memory.received(self)
        self._notify(self._events.closed, self._reason or error)

    def _notify(self, event: Callable[..., None], *arguments: Any) -> None:
        """The fence: a fault of whoever listens costs this link and nothing else."""
        try:
            event(*arguments)
        except Exception as error:
            self._listener_failed(error)

    def _listener_failed(self, error: Exception) -> None:
        log.exception("a handler of network events failed; its connection is closed")
        self.abort(ConnectionClosed(f"this side failed while handling it: {type(error).__name__}: {error}"))
