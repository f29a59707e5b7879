"""Which partition of an internal topic looks after a name: a group id in __consumer_offsets, a transactional id in
__transaction_state.

1. The answer is Java's String.hashCode modulo the number of partitions, because every broker of a cluster, Apache's
   too, must find the same coordinator for a name.
2. Java counts a character beyond 16 bits as two units of UTF-16, so the hash runs over units, not over characters.
3. The smallest hash has no positive twin in 32 bits; Kafka uses 0 for it, and so do we.
4. The same names come again with every heartbeat, so the last ones are remembered.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

REMEMBERED_NAMES: Final = 16_384
_HASH_MASK: Final = 0xFFFF_FFFF
_SIGN: Final = 0x8000_0000


def java_hash(text: str) -> int:
    """Java's String.hashCode, from -2**31 to 2**31 - 1."""
    # surrogatepass: a lone half of a pair is no valid text, but Java hashes it like any other unit.
    units = memoryview(text.encode("utf-16-le", "surrogatepass"))
    unsigned = 0
    for low, high in zip(units[::2], units[1::2], strict=True):
        unsigned = (31 * unsigned + (low | high << 8)) & _HASH_MASK
    return unsigned - (1 << 32) if unsigned & _SIGN else unsigned


@lru_cache(REMEMBERED_NAMES)
def partition_for_name(name: str, count: int) -> int:
    """The partition, of `count`, whose leader coordinates `name`."""
    if count < 1:
        raise ValueError(f"an internal topic has at least one partition, not {count}")
    hashed = java_hash(name)
    return 0 if hashed == -_SIGN else abs(hashed) % count
