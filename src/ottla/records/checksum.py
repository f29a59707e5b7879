"""CRC-32C (Castagnoli), the checksum of a record batch.

1. `crc32c(data, value)` is what everybody calls: the `crc32c` wheel (hardware instructions, releases the
   interpreter lock) when it can be imported, otherwise the table twin below. Same answer either way.
2. `crc32c_python` is the readable twin. It is some thousand times slower and exists to explain the fast one.
3. A checksum can be continued: crc32c(a + b) == crc32c(b, crc32c(a)).

The polynomial is 0x1EDC6F41, used with its bits mirrored (0x82F63B78) because bytes enter low bit first; the
register starts as all ones and is inverted at the end. Message sets v0 and v1 use zlib's CRC-32 instead: the
same machine with another polynomial, see legacy.py.
"""

from collections.abc import Callable

__all__ = ["crc32c", "crc32c_python"]

MIRRORED_POLYNOMIAL = 0x82F63B78
ALL_ONES = 0xFFFFFFFF


def _after_eight_shifts(byte: int) -> int:
    register = byte
    for _ in range(8):
        low_bit = register & 1
        register >>= 1
        if low_bit:
            register ^= MIRRORED_POLYNOMIAL
    return register


# What eight steps of the shift register do to each possible low byte: one look-up replaces eight shifts.
_TABLE = tuple(_after_eight_shifts(byte) for byte in range(256))


def crc32c_python(data: bytes | bytearray | memoryview, value: int = 0) -> int:
    """CRC-32C of `data`, continuing from `value`, in plain Python."""
    register = value ^ ALL_ONES
    for byte in memoryview(data).cast("B"):
        register = (register >> 8) ^ _TABLE[(register ^ byte) & 0xFF]
    return register ^ ALL_ONES


def _first_call(data: bytes | bytearray | memoryview, value: int = 0) -> int:
    global _chosen
    try:
        # Importing the wheel takes 30 ms (it reads its own package metadata), so nobody pays before the first batch.
        from crc32c import crc32c as wheel

        _chosen = wheel
    except ImportError:  # a platform without the wheel still gets right answers
        _chosen = crc32c_python
    return _chosen(data, value)


_chosen: Callable[[bytes | bytearray | memoryview, int], int] = _first_call


def crc32c(data: bytes | bytearray | memoryview, value: int = 0) -> int:
    """CRC-32C of `data`, continuing from `value`."""
    return _chosen(data, value)
