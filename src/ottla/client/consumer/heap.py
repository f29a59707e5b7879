"""Lists of large values, without their memory going to the system and back with every poll; and no more kept than that.

Values above 512 bytes come from the C library's heap. glibc returns the top of a heap to the system as soon as 128 KB
of it are free: when a list of 1,000 values of 1 KB is forgotten that is all of it, and the next list gets fresh pages,
each with a fault. That made 0.4 of 1.4 us per record.

1. glibc raises this limit by itself, to twice the size of the largest block (up to 32 MB) that was ever returned, and
   takes blocks of that size from its heaps from then on. But it has a heap for each thread, eight for each core, and
   each keeps as much: a process with many clients held 99 MB of free memory in 16 heaps and went on growing for an
   hour (docs/decisions/0135). So both limits are set here, and stay.
2. Blocks from MAPPED_BYTES on, which are answers to fetches, come from the system and go back to it. They are used
   again by whoever needs one next (net/framing.py), so that does not happen often.
3. Whoever has chosen limits in the environment keeps them. Where the C library is another one, nothing is done.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Final

KEPT_BYTES: Final = 4_194_304
"""At most so much free memory stays at the top of each of glibc's heaps: a list of a few thousand values of 1 KB."""
MAPPED_BYTES: Final = 262_144

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


@functools.cache
def keep_heap() -> None:
    """Once in a process."""
    if sys.platform != "linux" or _is_chosen():
        return
    try:
        import ctypes

        mallopt = ctypes.CDLL(None).mallopt
    except (ImportError, OSError, AttributeError):
        return
    mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
    mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)


def _is_chosen() -> bool:
    """Whether somebody has set these limits for the whole process."""
    names = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
    return any(name in os.environ for name in names) or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
