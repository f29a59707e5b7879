"""A message is walked while it is small and rare; a flat function is made of it when it comes often.

1. Making a flat function takes about two milliseconds, walking a small message a twentieth of one. A command sends five
   kinds of requests once each: it never gets back what making ten functions took.
2. So the first OFTEN messages of a kind and version are walked by codec.py; from then on, and for every message that is
   not small, compiled.py does it. Both give the same, byte for byte.
3. This is for clients, and for what is stored. A broker makes the functions of an API when it is first asked for.
"""

from typing import Final, TypeVar

from ottla.protocol import codec
from ottla.protocol.primitives import NO_ENTRIES_LIMIT
from ottla.protocol.schema import Buffer, Message

M = TypeVar("M", bound=Message)

OFTEN: Final = 16
SMALL_BYTES: Final = 2048
SMALL_ENTRIES: Final = 16

_reads: dict[tuple[type[Message], int], int] = {}
_writes: dict[tuple[type[Message], int], int] = {}


def decode(message_class: type[M], version: int, buffer: Buffer) -> M:
    """The whole buffer is one message, or MalformedMessage is raised."""
    message, end = decode_prefix(message_class, version, buffer)
    return message if end == len(buffer) else codec.decode(message_class, version, buffer)


def decode_prefix(
    message_class: type[M],
    version: int,
    buffer: Buffer,
    position: int = 0,
    entries_limit: int = NO_ENTRIES_LIMIT,
) -> tuple[M, int]:
    """Read a message that other things may follow; returns it and the position after it."""
    uses = _reads.get((message_class, version), 0)
    if uses < OFTEN and len(buffer) - position <= SMALL_BYTES:
        _reads[message_class, version] = uses + 1
        return codec.decode_prefix(message_class, version, buffer, position, entries_limit)
    from ottla.protocol import compiled

    return compiled.decode_prefix(message_class, version, buffer, position, entries_limit)


def encode(message: Message, version: int) -> list[Buffer]:
    """A list of buffers: packed bytes, and records as they came. Raises Unwritable, naming the field."""
    kind = type(message), version
    uses = _writes.get(kind, 0)
    if uses < OFTEN and _is_small(message):
        _writes[kind] = uses + 1
        return codec.encode(message, version)
    from ottla.protocol import compiled

    return compiled.encode(message, version)


def _is_small(message: Message) -> bool:
    """Whether it has few entries, as far as its first level tells: what is in them is not counted."""
    for field in message.fields:
        part = getattr(message, field.name)
        if isinstance(part, list) and len(part) > SMALL_ENTRIES:
            return False
    return True
