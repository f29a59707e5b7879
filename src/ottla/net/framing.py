"""Bytes in, frames out. A frame is what one request or one answer fills on the wire.

    +----------------+------------------------+
    | size: int32 BE | size bytes: the frame  |   repeated; the size does not count itself
    +----------------+------------------------+

1. However the bytes are cut on their way, the same frames come out in the same order.
2. A size that is negative or above the limit is refused before a byte is allocated for it. Frames that stood
   before it are still handed out, and nothing after it is read: there is no way to find the next frame. A big frame may
   have a lower limit by its kind, the int16 it begins with, and is refused when that is known.
3. Memory follows the bytes that arrived, never the size that was claimed: beside its chunk a reader holds at most
   twice what it received of the unfinished frame plus GROWTH_BYTES, and never more than GROWTH_LIMIT_BYTES ahead. A
   chunk is small until a frame was cut by its end, so a connection that has little to say takes little, and more than
   CHUNK_BYTES only where that is allowed (`chunk_bytes`) and frames come of which CHUNK_BYTES hold few: frames that
   came together are handled together. What an unfinished big frame holds is told by `big_frame_bytes`, so that
   somebody can keep a budget.
4. A frame stays valid for as long as somebody holds it. Small frames are slices of a chunk, and a chunk is used
   again only when no slice of it is held; otherwise a new chunk is taken and the old one lives on in its slices.
   A frame that would fill half a chunk gets memory of its own, as large as itself or a spare that is larger, and the
   socket is read straight into it: these are the bytes that are written to the file later. What came before its size
   was known is copied; so after a big frame, which another one often follows, only PEEK_BYTES are lent to find out.
   Memory of that kind is used again by whoever needs some next (SPARES_LIMIT pieces and SPARES_LIMIT_BYTES are kept,
   for all readers), because fresh memory costs more than the bytes that go into it.

Made for asyncio.BufferedProtocol: `get_buffer` lends memory, `received` takes it back. The lender of the memory may
not resize it before the loop let go of it, and uvloop lets go only after `buffer_updated` has returned; so memory
grows and changes hands in `get_buffer`, never in `received`.

_framing.pyx is the native twin of the reader; framing_choice.py says which of them is used.
"""

from __future__ import annotations

import contextlib
import struct
from collections import deque
from collections.abc import Callable, Iterable, Sized
from typing import Final, TypeAlias

from ottla.errors import FrameTooLarge, MalformedMessage, OttlaError

Buffer: TypeAlias = bytes | bytearray | memoryview

SIZE: Final = struct.Struct(">i")
KIND: Final = struct.Struct(">h")
REQUEST_SIZE_LIMIT_BYTES: Final = 104_857_600
"""Kafka's socket.request.max.bytes; also what a client accepts as an answer unless told otherwise."""
CHUNK_BYTES: Final = 131_072
FIRST_CHUNK_BYTES: Final = 4_096
LARGE_CHUNK_BYTES: Final = 524_288
"""For who may take more: requests of 64 KiB, five at a time, as a producer with four partitions sends them."""
CHUNK_FRAMES: Final = 8
"""As many frames find room in a chunk that may grow."""
GROWTH_BYTES: Final = 65_536
GROWTH_LIMIT_BYTES: Final = 1_048_576
PEEK_BYTES: Final = 4_096
SPARES_LIMIT: Final = 8
SPARES_LIMIT_BYTES: Final = 33_554_432
SPARE_LIMIT_BYTES: Final = 16_777_216
"""The largest piece that is kept. An answer to a fetch has a megabyte for each partition."""
SPARE_EXCESS: Final = 4
"""How many times larger than a frame its memory may be: a small frame that is kept must not keep a large piece."""

# Big frames that were handed out; each may still be held by somebody, which is seen when it is taken.
_spares: Final[deque[bytearray]] = deque()
_ZEROS: Final = memoryview(bytes(GROWTH_BYTES))

# What strangers send first, read as a size. Naming them saves the user an hour.
_STRANGERS: Final = {
    b"HTTP": "an HTTP server answers on this port",
    b"GET ": "an HTTP client calls on this port",
    b"POST": "an HTTP client calls on this port",
    b"SSH-": "an SSH server answers on this port",
}
_TLS_RECORD_TYPES: Final = (0x15, 0x16)  # alert and handshake, both followed by a version that begins with 3


def frame_prefix(parts: Iterable[Sized]) -> bytes:
    """The size that goes before a frame made of these parts."""
    size = 0
    for part in parts:
        size += part.nbytes if type(part) is memoryview else len(part)
    return SIZE.pack(size)


def stranger_of(size: int) -> str | None:
    """Who speaks on the port, if these four bytes are no size but the beginning of another protocol."""
    start = SIZE.pack(size)
    if start[0] in _TLS_RECORD_TYPES and start[1] == 3:
        return "the other side speaks TLS and this side does not"
    return _STRANGERS.get(start)


class FrameReader:
    """Cuts one stream of bytes into frames. One reader per connection; not shared between threads."""

    __slots__ = (
        "_big",
        "_big_filled",
        "_big_size",
        "_big_was_last",
        "_chunk",
        "_end",
        "_kind_limit_bytes",
        "_start",
        "_view",
        "broken",
        "chunk_bytes",
        "size_limit_bytes",
    )

    def __init__(
        self,
        *,
        size_limit_bytes: int = REQUEST_SIZE_LIMIT_BYTES,
        chunk_bytes: int = CHUNK_BYTES,
        kind_limit_bytes: Callable[[int], int] | None = None,
    ) -> None:
        check_limits(size_limit_bytes, chunk_bytes)
        self.size_limit_bytes = size_limit_bytes  # may change between frames, when a peer has authenticated
        self.chunk_bytes = chunk_bytes  # and so may this: a stranger gets little
        self._kind_limit_bytes = kind_limit_bytes
        # One byte more than is used: giving it back and taking it again is how `is_lent` asks.
        self._chunk = bytearray(min(chunk_bytes, FIRST_CHUNK_BYTES) + 1)
        self._view = memoryview(self._chunk)
        self._start = 0  # first byte that is not part of a frame handed out
        self._end = 0  # behind the last byte received
        self._big: bytearray | None = None
        self._big_filled = 0
        self._big_size = 0
        self._big_was_last = False
        self.broken: OttlaError | None = None
        """Why this stream cannot be read any further, once a bad size was met."""

    @property
    def pending_bytes(self) -> int:
        """Bytes received that do not make a whole frame yet."""
        return self._big_filled + SIZE.size if self._big is not None else self._end - self._start

    @property
    def big_frame_bytes(self) -> int:
        """The memory that an unfinished big frame holds; 0 when there is none."""
        return 0 if self._big is None else len(self._big)

    @property
    def big_frame_missing_bytes(self) -> int:
        """How many bytes of the unfinished big frame have not arrived yet."""
        return 0 if self._big is None else self._big_size - self._big_filled

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Memory for the next bytes, never empty; valid until the call of `received` that reports them."""
        if self.broken is not None:
            raise self.broken
        if self._big is not None:
            return self._big_room(self._big)
        if self._must_move():
            self._take_chunk()
        elif self._start == self._end > min(len(self._view), CHUNK_BYTES) // 2:
            self._begin_again()
        if self._big_was_last and self._start == self._end:
            return self._view[self._end : -1][:PEEK_BYTES]
        return self._view[self._end : -1]

    def received(self, nbytes: int) -> list[memoryview]:
        """`nbytes` are now in the lent memory; the frames they complete, oldest first."""
        if self.broken is not None:
            raise self.broken
        if self._big is not None:
            return self._big_received(self._big, nbytes)
        self._end += nbytes
        frames = self._cut()
        if not frames and self.broken is not None:
            raise self.broken
        return frames

    def _cut(self) -> list[memoryview]:
        frames: list[memoryview] = []
        view, start, end = self._view, self._start, self._end
        while end - start >= SIZE.size:
            (size,) = SIZE.unpack_from(view, start)
            if not 0 <= size <= self.size_limit_bytes:
                self.broken = bad_size(size, self.size_limit_bytes)
                break
            stop = start + SIZE.size + size
            if stop > end:
                if size > self.chunk_bytes // 2:
                    self._begin_big(size, start + SIZE.size)
                    return frames
                break
            frames.append(view[start + SIZE.size : stop])
            start = stop
        self._start = start
        self._big_was_last = False
        return frames

    # --- the chunk, for small frames ---

    def _must_move(self) -> bool:
        """Whether what comes next does not fit behind what is here."""
        room = len(self._view) - 1 - self._end
        if self._end - self._start < SIZE.size:
            return room < (len(self._view) - 1) // 4
        usable, size = len(self._view) - 1, int(SIZE.unpack_from(self._view, self._start)[0])
        return self._start + SIZE.size + size > usable or CHUNK_BYTES <= usable < self._chunk_bytes_for(size)

    def _chunk_bytes_for(self, size: int) -> int:
        """How large a chunk is to be where frames of this size come."""
        return min(self.chunk_bytes, max(CHUNK_BYTES, size * CHUNK_FRAMES))

    def _take_chunk(self) -> None:
        """Move the unfinished frame to the front: of this chunk if nobody holds a slice, else of a new one."""
        unfinished = bytes(self._view[self._start : self._end])
        self._view.release()
        size = SIZE.unpack_from(unfinished)[0] if len(unfinished) >= SIZE.size else 0
        wanted_bytes = self._chunk_bytes_for(size) + 1 if unfinished else len(self._chunk)
        if len(self._chunk) < wanted_bytes or is_lent(self._chunk):
            self._chunk = bytearray(wanted_bytes)
        self._view = memoryview(self._chunk)
        self._view[: len(unfinished)] = unfinished
        self._start, self._end = 0, len(unfinished)

    def _begin_again(self) -> None:
        """All frames are handed out: use the chunk from its front, unless somebody holds one of them. So what comes
        together is read together, into memory that the processor still has at hand."""
        self._view.release()
        if not is_lent(self._chunk):
            self._start = self._end = 0
        self._view = memoryview(self._chunk)

    # --- memory of its own, for big frames ---

    def _begin_big(self, size: int, position: int) -> None:
        here = self._end - position
        big = take_spare(size) or bytearray(min(size, here * 2 + GROWTH_BYTES))
        memoryview(big)[:here] = self._view[position : self._end]
        self._big, self._big_filled, self._big_size = big, here, size
        self._start = self._end
        if here >= KIND.size:
            self._check_kind(big)

    def _big_room(self, big: bytearray) -> memoryview:
        if self._big_filled == len(big):
            ahead_bytes = min(self._big_filled + GROWTH_BYTES, GROWTH_LIMIT_BYTES)
            grow(big, min(self._big_size, self._big_filled + ahead_bytes))
        return memoryview(big)[self._big_filled : self._big_size]

    def _check_kind(self, big: bytearray) -> None:
        limit_bytes = self._kind_limit_bytes and self._kind_limit_bytes(KIND.unpack_from(big)[0])
        if limit_bytes is not None and self._big_size > limit_bytes:
            self.broken = FrameTooLarge(f"{self._big_size} bytes, the limit is {limit_bytes} for its kind")
            self._big, self._big_filled = None, 0

    def _big_received(self, big: bytearray, nbytes: int) -> list[memoryview]:
        is_new_kind = self._big_filled < KIND.size
        self._big_filled += nbytes
        if is_new_kind and self._big_filled >= KIND.size:
            self._check_kind(big)
            if self.broken is not None:
                raise self.broken
        if self._big_filled < self._big_size:
            return []
        self._big, self._big_filled, self._big_was_last = None, 0, True
        keep_spare(big)
        return [memoryview(big)[: self._big_size]]


def check_limits(size_limit_bytes: int, chunk_bytes: int) -> None:
    if size_limit_bytes < 0 or chunk_bytes < 16:
        raise ValueError("the size limit must not be negative and a chunk needs at least 16 bytes")


def bad_size(size: int, limit_bytes: int) -> OttlaError:
    """Why a frame of this size is refused."""
    stranger = stranger_of(size)
    hint = f"; {stranger}" if stranger else ""
    if size < 0:
        return MalformedMessage(f"a frame announces {size} bytes{hint}")
    return FrameTooLarge(f"{size} bytes, the limit is {limit_bytes}{hint}")


def is_lent(memory: bytearray) -> bool:
    """Whether somebody holds a view of it."""
    # Python refuses to resize a bytearray while any view of it exists; nothing else tells us about slices
    # of slices. Neither step copies: shrinking by a byte keeps the memory, growing again fits into it.
    try:
        memory.pop()
    except BufferError:
        return True
    memory.append(0)
    return False


def grow(memory: bytearray, size: int) -> None:
    """Make it longer, by little pieces: one large piece of zeros would be fresh memory, too."""
    while (missing := size - len(memory)) > 0:
        memory.extend(_ZEROS[:missing])


def keep_spare(memory: bytearray) -> None:
    """Remember it for whoever needs memory next; the oldest ones are forgotten beyond the limits."""
    if len(memory) > SPARE_LIMIT_BYTES:
        return
    _spares.append(memory)
    while len(_spares) > SPARES_LIMIT or sum(map(len, list(_spares))) > SPARES_LIMIT_BYTES:
        with contextlib.suppress(IndexError):  # readers of other threads take some, too
            _spares.popleft()


def take_spare(size: int) -> bytearray | None:
    """Memory which nobody holds any more: the newest that is large enough, because the processor may still have it at
    hand, else the oldest made longer; None without any."""
    if size > SPARE_LIMIT_BYTES:
        return None
    passed: deque[bytearray] = deque()  # in their order
    found = None
    with contextlib.suppress(IndexError):  # that was the last; readers of other threads take some, too
        while found is None:
            spare = _spares.pop()
            if size <= len(spare) <= size * SPARE_EXCESS and not is_lent(spare):
                found = spare
            else:
                passed.appendleft(spare)
    if found is None:
        found = _made_longer(passed, size)
    _spares.extend(passed)
    return found


def _made_longer(spares: deque[bytearray], size: int) -> bytearray | None:
    """The first that nobody holds, taken out of them and made as long as it must be."""
    for index, spare in enumerate(spares):
        if not is_lent(spare):
            del spares[index]
            grow(spare, size)
            del spare[size:]
            return spare
    return None
