"""Lists of large values, without their memory going to the system and back with every poll.

Values above 512 bytes come from the C library's heap. glibc returns the top of the heap to the system as soon as 128 KB
of it are free: when a list of 1,000 values of 1 KB is forgotten that is all of it, and the next list gets fresh pages,
each with a fault. That made 0.4 of 1.4 us per record.

glibc raises its limit by itself, to twice the size of the largest block (up to 32 MB) that was ever returned. So one
such block is taken and returned at once; nobody touches it, so it costs no memory.
"""

from __future__ import annotations

import functools
from typing import Final

BLOCK_BYTES: Final = 8_388_608
"""At most twice this much free memory stays with the process."""


@functools.cache
def keep_heap() -> None:
    """Once in a process."""
    bytearray(BLOCK_BYTES)
