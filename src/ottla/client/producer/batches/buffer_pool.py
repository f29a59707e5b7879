"""Bounded memory for batches: grants bytes or a place in the line; says wait, never waits itself.

Four things can happen to a wish for memory:
1. It has the size of a pooled buffer and one is free: that buffer is given.
2. Enough is free, perhaps after giving up pooled buffers: a new buffer is given.
3. Not enough is free, or others wait already: the wish gets a Place. What comes back goes to the first place in the
   line until it has all it asked for, so a big wish is not starved by small ones behind it.
4. It is larger than all memory there is: refused with an error, because no waiting would help.

The line is served once `serve_from_bytes` are free, not for every buffer that comes back: each time costs a change of
threads, and one for sixteen batches is enough. Whoever has waited a while asks with `serve` not to wait for that.

A Place that is granted holds its memory until it is taken, or given up with `leave`. What is given back without its
buffer counts as free bytes: the buffer itself may still be in somebody's hands and is not used again.
No lock inside: the accumulator's lock covers it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ottla.client.producer.values import RecordTooLargeToSend


class Place:
    """A place in the line for memory; whoever waits sets `notify` and is called once it is granted or over."""

    __slots__ = ("buffer", "gathered_bytes", "is_granted", "notify", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.gathered_bytes = 0
        self.buffer: bytearray | None = None
        self.is_granted = False
        self.notify: Callable[[], None] | None = None


class BufferPool:
    """`total_bytes` of memory, most of it in buffers of `buffer_bytes`."""

    def __init__(self, total_bytes: int, buffer_bytes: int, *, serve_from_bytes: int = 0) -> None:
        self.total_bytes = total_bytes
        self.buffer_bytes = buffer_bytes
        self._serve_from_bytes = serve_from_bytes
        self.free: list[bytearray] = []  # buffers of `buffer_bytes` that nobody uses
        self._loose_bytes = total_bytes
        self.line: deque[Place] = deque()

    @property
    def available_bytes(self) -> int:
        """Free bytes, pooled or not; what waiting places have gathered is not free."""
        return self._loose_bytes + len(self.free) * self.buffer_bytes

    @property
    def pooled_bytes(self) -> int:
        return len(self.free) * self.buffer_bytes

    @property
    def waiting_count(self) -> int:
        return len(self.line)

    def allocate(self, size_bytes: int) -> bytearray | Place:
        """A buffer of that size now, or a place in the line."""
        if size_bytes > self.total_bytes:
            raise RecordTooLargeToSend(f"it needs {size_bytes} bytes of memory and buffer.memory is {self.total_bytes}")
        if not self.line and (buffer := self._grant(size_bytes)) is not None:
            return buffer
        place = Place(size_bytes)
        self.line.append(place)
        self.serve()  # gathers what is free already
        return place

    def try_allocate(self, size_bytes: int) -> bytearray | None:
        """A buffer of that size if nobody waits and it is free."""
        return None if self.line else self._grant(size_bytes)

    def give_back(self, size_bytes: int, buffer: bytearray | None) -> list[Place]:
        """Memory is free again; returns the places that are granted by it, to be notified without a lock."""
        return self.give_back_all([(size_bytes, buffer)])

    def give_back_all(self, released: list[tuple[int, bytearray | None]]) -> list[Place]:
        """The same for the memory of several batches: (bytes, buffer) of each. The line is served once, for all."""
        for size_bytes, buffer in released:
            if buffer is not None and size_bytes == self.buffer_bytes == len(buffer):
                self.free.append(buffer)
            else:
                self._loose_bytes += size_bytes
        if not self.line or self.available_bytes + self.line[0].gathered_bytes < self._serve_from_bytes:
            return []
        return self.serve()

    def leave(self, place: Place) -> list[Place]:
        """Nobody waits here any more: what it gathered goes to those behind."""
        if place.is_granted:
            place.is_granted = False
            buffer, place.buffer = place.buffer, None
            return self.give_back(place.size_bytes, buffer)
        if place in self.line:
            self.line.remove(place)
        self._loose_bytes += place.gathered_bytes
        place.gathered_bytes = 0
        return self.serve()

    @staticmethod
    def take(place: Place) -> bytearray:
        """The memory of a place that was granted."""
        assert place.is_granted, "only a granted place has its memory"
        assert place.buffer is not None, "a granted place is taken once"
        place.is_granted = False
        buffer, place.buffer = place.buffer, None
        return buffer

    def _grant(self, size_bytes: int) -> bytearray | None:
        if size_bytes == self.buffer_bytes and self.free:
            return self.free.pop()
        if self.available_bytes < size_bytes:
            return None
        self._loosen(size_bytes)
        self._loose_bytes -= size_bytes
        return bytearray(size_bytes)

    def _loosen(self, size_bytes: int) -> None:
        while self._loose_bytes < size_bytes and self.free:
            self.free.pop()
            self._loose_bytes += self.buffer_bytes

    def serve(self) -> list[Place]:
        """Hand out what is free to those in line; returns the places that are granted by it."""
        granted = []
        while self.line:
            first = self.line[0]
            if not self._fill(first):
                break
            first.is_granted = True
            granted.append(self.line.popleft())
        return granted

    def _fill(self, place: Place) -> bool:
        if place.size_bytes == self.buffer_bytes and self.free:
            place.buffer = self.free.pop()
            self._loose_bytes += place.gathered_bytes
            place.gathered_bytes = 0
            return True
        missing = place.size_bytes - place.gathered_bytes
        self._loosen(missing)
        loose_bytes = min(missing, self._loose_bytes)
        self._loose_bytes -= loose_bytes
        place.gathered_bytes += loose_bytes
        if place.gathered_bytes < place.size_bytes:
            return False
        place.gathered_bytes = 0
        place.buffer = bytearray(place.size_bytes)
        return True
