"""One end of a simulated connection: what it wrote and is under way, what arrived and is not read.

    near.write ─► outgoing (held while blocked) ─ passage ─► far.arrived (kept while it does not read) ─► frames

The bytes of both queues count as unwritten for the near end, so that a peer that does not read stops it. Everything
that happens to an end happens in a step of its own process; a process that is paused finds its bytes later.
"""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.errors import ConnectionClosed, OttlaError
from ottla.net.framed_link import FramedLink
from ottla.net.framing import Buffer
from ottla.net.link import Address, LinkEvents, LinkSettings

if TYPE_CHECKING:
    from ottla.simulation.network import SimulatedNetwork


class _NoEvents:
    """Until the process has accepted the connection nobody hears of it."""

    def opened(self, link: object) -> None: ...
    def frame_received(self, frame: memoryview) -> None: ...
    def writable_changed(self, writable: bool) -> None: ...
    def closed(self, error: OttlaError | None) -> None: ...


class SimulatedLink(FramedLink):
    """See the module."""

    def __init__(
        self,
        network: SimulatedNetwork,
        local: Address,
        remote: Address,
        settings: LinkSettings,
        context: contextvars.Context,
    ) -> None:
        super().__init__(_NoEvents(), settings)
        self._network = network
        self._loop = network.loop
        self._context = context
        self.local_address = local
        self.remote_address = remote
        self.host = local[0]
        self.other: SimulatedLink = self
        self._outgoing: deque[bytes | None] = deque()  # None is the end
        self._unread_bytes = 0  # written here, and not read by the other side
        self._is_travelling = False  # the first of them is under way
        self._last_arrival_s = 0.0
        self._arrived: deque[bytes] = deque()
        self._reads = False
        self._is_accepted = False
        self._other_ended = False
        self._broken: OttlaError | None = None  # what the process has not heard yet
        self._is_gone = False  # no packet comes from here any more
        self.is_held = False  # what it writes stays here, while other connections of the machine work

    @property
    def is_finished(self) -> bool:
        return (self._finished or self._is_gone) and not self._outgoing

    def join(self, other: SimulatedLink) -> None:
        self.other, other.other = other, self

    def accept(self, make_events: Callable[[], LinkEvents]) -> None:
        """The process takes the connection; what happened before happens now."""
        if self._is_gone:
            return
        self._events = make_events()
        self._is_accepted = True
        self._reads = True
        self._notify(self._events.opened, self)
        if self._broken is not None:
            self._hear_break(self._broken)
        self._read()

    # --- writing ---

    def _put(self, pieces: list[Buffer]) -> None:
        data = b"".join(pieces)
        start = 0
        while start < len(data):
            end = start + self._network.piece_bytes(self.host, self.other.host)
            self._outgoing.append(data[start:end])
            start = end
        self._unread_bytes += len(data)
        self.go_on()
        self._check_room()

    def _waiting_bytes(self) -> int:
        return self._unread_bytes

    def _check_room(self) -> None:
        pause_bytes = self._settings.write_pause_bytes
        if self._unread_bytes > pause_bytes:
            self._writable_is(False)
        elif self._unread_bytes <= pause_bytes // 4:
            self._writable_is(True)

    def go_on(self) -> None:
        """Send the next piece, unless one is under way or the way is blocked."""
        network, there = self._network, self.other.host
        if self._is_travelling or not self._outgoing or self._is_gone or self.is_held:
            return
        if network.is_blocked(self.host, there):
            return
        self._is_travelling = True
        piece = self._outgoing[0]
        arrival_s = self._loop.now_s + network.passage_s(self.host, there, len(piece or b""))
        self._last_arrival_s = max(self._last_arrival_s, arrival_s)
        self._loop.call_at(self._last_arrival_s, self._arrive, context=self._loop.outside.context)

    def _arrive(self) -> None:
        """The first piece is at the other machine; called outside of both processes."""
        self._is_travelling = False
        if not self._outgoing:
            return
        other, network = self.other, self._network
        if self.is_held or network.is_blocked(self.host, other.host):
            return  # it is repeated when the way is open again
        piece = self._outgoing.popleft()
        if other._is_gone or other._finished:
            self._outgoing.clear()
            self.break_here("nobody is there any more")
            return
        if piece is None:
            other._other_ended = True
        else:
            self._loop.note(piece)
            other._arrived.append(piece)
        self._loop.call_soon(other._read, context=other._context)
        self.go_on()

    # --- reading, in the process of this end ---

    def _read(self) -> None:
        while self._arrived and self._reads and not self._ending:
            piece = self._arrived.popleft()
            self._take_in(piece)
            self.other._was_read(len(piece))
        if self._other_ended and not self._arrived and not self._finished and self._is_accepted:
            self._hear_end()

    def _take_in(self, piece: bytes) -> None:
        position = 0
        while position < len(piece) and not self._ending:
            room = self._lend(-1)
            count = min(len(room), len(piece) - position)
            room[:count] = piece[position : position + count]
            del room
            self._received(count)
            position += count

    def _was_read(self, size_bytes: int) -> None:
        self._unread_bytes -= size_bytes
        if not self.writable and not self._ending:
            self._loop.call_soon(self._check_room, context=self._context)

    def _stop_reading(self) -> None:
        self._reads = False

    def _go_on_reading(self) -> None:
        if not self._reads:
            self._reads = True
            if self._arrived or self._other_ended:
                self._loop.call_soon(self._read)

    # --- ending ---

    def close(self) -> None:
        if self._ending:
            return
        self._write_held()
        self._ending = True
        self._outgoing.append(None)
        self.go_on()
        self._loop.call_soon(self._finish, None)

    def _hear_end(self) -> None:
        """The other side closed after its last byte."""
        if self._yielding:  # frames that came before still wait for their turn
            self._loop.call_soon(self._hear_end)
            return
        self._finish(None)
        self._is_gone = True

    def _cut(self) -> None:
        self._arrived.clear()
        self._outgoing.clear()
        self._loop.call_soon(self._finish, None)
        self._is_gone = True
        self.other.break_here("the other side broke the connection")

    def vanish(self) -> None:
        """The process is gone, and does not hear of anything. What it wrote may have left the machine."""
        self.cut_outgoing()
        self._is_gone = True
        self._arrived.clear()

    def cut_outgoing(self) -> None:
        """Of what is under way a drawn part arrives, up to any byte; the rest never will."""
        data = b"".join(piece for piece in self._outgoing if piece is not None)
        self._outgoing.clear()
        kept = data[: self._network.random.randint(0, len(data))]
        if kept and not self._network.is_blocked(self.host, self.other.host):
            self._loop.note(kept)
            self.other._arrived.append(kept)
            self._loop.call_soon(self.other._read, context=self.other._context)

    def break_here(self, reason: str) -> None:
        """This end learns, a little later, that the connection is broken; what arrived before is still there."""
        if self._is_gone or self._finished:
            return
        network = self._network
        if network.is_blocked(self.other.host, self.host):
            return  # it learns when it writes
        delay_s = network.passage_s(self.other.host, self.host, 0)
        self._loop.call_later(delay_s, self._hear_break, ConnectionClosed(reason), context=self._context)

    def _hear_break(self, error: OttlaError) -> None:
        if not self._is_accepted:
            self._broken = error
            return
        if not self._finished:
            self._arrived.clear()
            self._outgoing.clear()
            self._ending = True
            self._is_gone = True
            self._reason = self._reason or error
            self._finish(error)
