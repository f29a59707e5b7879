"""Reads portions of files into memory that is used again once the socket has taken it.

A fetch of a megabyte is eight portions. Taking fresh memory for each costs as much as reading it: the allocator gives
such sizes back to the system at once, and the system clears every page it hands out.

1. A portion stays as it is for as long as somebody holds it; only memory that nobody holds is used again.
2. At most SPARES_LIMIT pieces are kept.
3. A portion that cannot be read this way (no kernel file, a short read, an error) is read by the file itself, which
   knows what to say about it.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Final

from ottla.net.framing import Buffer, is_lent
from ottla.storage.segment.records_file import FileSlice

PORTION_BYTES: Final = 131_072
SPARES_LIMIT: Final = 16

_spares: Final[deque[bytearray]] = deque(maxlen=SPARES_LIMIT)


def read_portion(piece: FileSlice, offset: int, size_bytes: int) -> Buffer:
    """So many bytes (PORTION_BYTES at most) of the slice from `offset` on; fewer only where the file ends."""
    number = piece.file.fileno()
    position = piece.position + offset
    if number is not None:
        memory = _spares.popleft() if _spares and not is_lent(_spares[0]) else bytearray(PORTION_BYTES)
        _spares.append(memory)
        portion = memoryview(memory)[:size_bytes]
        try:
            if os.preadv(number, [portion], position) == size_bytes:
                return portion
        except OSError:
            pass
    return piece.file.read_at(position, size_bytes)
