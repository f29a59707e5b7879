"""A little DER: tag, length and content of a value, and the values inside a value. Bounded, and nothing is guessed."""

from __future__ import annotations


class DerError(ValueError):
    """These bytes are no DER."""


def read_value(content: bytes, position: int) -> tuple[int, bytes, int]:
    """Tag, content and end of the value that begins there."""
    if position + 2 > len(content):
        raise DerError("cut off")
    tag, length = content[position], content[position + 1]
    position += 2
    if tag & 0x1F == 0x1F:
        raise DerError("a tag of several bytes")
    if length & 0x80:
        count = length & 0x7F
        if not 1 <= count <= 4 or position + count > len(content):
            raise DerError("a length that cannot be")
        length = int.from_bytes(content[position : position + count], "big")
        position += count
    end = position + length
    if end > len(content):
        raise DerError("cut off")
    return tag, content[position:end], end


def children(content: bytes) -> list[tuple[int, bytes]]:
    """Tag and content of every value in the content of a sequence or a set."""
    found: list[tuple[int, bytes]] = []
    position = 0
    while position < len(content):
        tag, value, position = read_value(content, position)
        found.append((tag, value))
    return found
