"""What is written is read again, at every version, and both codecs agree on every byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import MalformedMessage
from ottla.protocol import codec, compiled
from ottla.protocol.schema import Message
from ottla.testing.strategies import messages


def test_every_message_comes_back_whole_or_not_at_all(message_class: type[Message], version: int) -> None:
    """One test for three promises, because drawing the messages takes most of the time."""

    @given(messages(message_class, version), st.integers(0, (1 << 32) - 1))
    def check(message: Message, anywhere: int) -> None:
        written = b"".join(codec.encode(message, version))
        assert b"".join(compiled.encode(message, version)) == written
        check_it_comes_back(message, version, written)
        if written:
            check_it_is_refused_when_cut_short(message_class, version, written[: anywhere % len(written)])
        check_it_is_refused_when_bytes_follow(message, version, written)

    check()


def check_it_comes_back(message: Message, version: int, written: bytes) -> None:
    assert codec.decode(type(message), version, written) == message
    assert compiled.decode(type(message), version, written) == message
    assert compiled.decode(type(message), version, memoryview(bytearray(written))) == message


def check_it_is_refused_when_cut_short(message_class: type[Message], version: int, short: bytes) -> None:
    for machine in (codec, compiled):
        with pytest.raises(MalformedMessage):
            machine.decode(message_class, version, short)


def check_it_is_refused_when_bytes_follow(message: Message, version: int, written: bytes) -> None:
    for machine in (codec, compiled):
        with pytest.raises(MalformedMessage, match="bytes follow"):
            machine.decode(type(message), version, written + b"\0")
        assert machine.decode_prefix(type(message), version, b"??" + written + b"??", 2) == (message, len(written) + 2)
