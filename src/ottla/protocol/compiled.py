"""Encode and decode by flat functions, made per (message, version) on first use.

1. Same answers as codec.py, byte for byte; the tests hold the two together.
2. A function that fails says nothing itself: the reference codec repeats the work and names the field. So there is one
   place for sentences, and the fast path pays nothing for them.
3. Making a function costs about a millisecond, once per process and version in use.

`encoder(...)` and `decoder(...)` give the functions themselves to those who call them in a loop; `source(...)` shows
how one looks.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from ottla.protocol import codec
from ottla.protocol.compile_decode import FAILURES as DECODE_FAILURES
from ottla.protocol.compile_decode import compile_decoder
from ottla.protocol.compile_encode import FAILURES as ENCODE_FAILURES
from ottla.protocol.compile_encode import compile_encoder
from ottla.protocol.primitives import NO_ENTRIES_LIMIT
from ottla.protocol.schema import Buffer, Message

M = TypeVar("M", bound=Message)

_DECODERS: dict[tuple[type[Message], int], Any] = {}
_ENCODERS: dict[tuple[type[Message], int], Any] = {}


def decode(message_class: type[M], version: int, buffer: Buffer) -> M:
    """The whole buffer is one message, or MalformedMessage is raised."""
    try:
        message, end = decoder(message_class, version)(buffer, 0)
        if end == len(buffer):
            return message
    except DECODE_FAILURES as error:
        codec.decode(message_class, version, buffer)
        raise AssertionError(f"only the compiled decoder refuses this {message_class.__name__}") from error
    return codec.decode(message_class, version, buffer)


def decode_prefix(
    message_class: type[M],
    version: int,
    buffer: Buffer,
    position: int = 0,
    entries_limit: int = NO_ENTRIES_LIMIT,
) -> tuple[M, int]:
    """Read a message that other things follow; returns it and the position after it."""
    try:
        return decoder(message_class, version)(buffer, position, entries_limit)
    except DECODE_FAILURES as error:
        codec.decode_prefix(message_class, version, buffer, position, entries_limit)
        raise AssertionError(f"only the compiled decoder refuses this {message_class.__name__}") from error


def encode(message: Message, version: int) -> list[Buffer]:
    """A list of buffers: packed bytes, and records as they came. Raises Unwritable, naming the field."""
    try:
        return encoder(type(message), version)(message)
    except ENCODE_FAILURES as error:
        codec.encode(message, version)
        raise AssertionError(f"only the compiled encoder refuses this {type(message).__name__}") from error


def decoder(message_class: type[M], version: int) -> Callable[..., tuple[M, int]]:
    """The function of (buffer, position, limit of entries), which may be left out."""
    found = _DECODERS.get((message_class, version))
    if found is None:
        codec.check_version(message_class, version)
        found = _DECODERS[message_class, version] = compile_decoder(message_class, version)
    made: Callable[..., tuple[M, int]] = found
    return made


def encoder(message_class: type[M], version: int) -> Callable[[M], list[Buffer]]:
    found = _ENCODERS.get((message_class, version))
    if found is None:
        codec.check_version(message_class, version)
        found = _ENCODERS[message_class, version] = compile_encoder(message_class, version)
    made: Callable[[M], list[Buffer]] = found
    return made


def source(message_class: type[Message], version: int) -> str:
    """The two functions as text, for the curious."""
    made: Any = decoder(message_class, version), encoder(message_class, version)
    return f"{made[0].source}\n\n{made[1].source}"
