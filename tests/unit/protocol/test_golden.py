"""Frames of real clients and real brokers (tests/golden/README.md): we read every one, and write the same bytes.

This is the judge that does not share our mistakes: a field misread in the field tables would be misread the same way
in a round trip of our own making, but not here.

Apache Kafka ignores bytes after the end of a request, and librdkafka sends some: such frames say how many in
`left_over`, and a broker must serve them like any other.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla.protocol import codec, compiled
from ottla.protocol.api import APIS
from ottla.protocol.header import (
    RequestHeader,
    ResponseHeader,
    decode_request,
    request_header_version,
    response_header_version,
)

FRAMES = Path(__file__).parents[2] / "golden" / "frames"
CLIENTS = sorted(path.stem for path in FRAMES.glob("*.jsonl"))
PROGRAMS = {"java", "librdkafka", "kafka-python", "aiokafka", "broker"}


class Frame(NamedTuple):
    client: str
    api: str
    key: int
    version: int
    kind: str
    hex: str
    left_over: int = 0

    @property
    def bytes(self) -> bytes:
        return bytes.fromhex(self.hex)

    @property
    def message(self) -> bytes:
        """The frame without what is left over."""
        return self.bytes[: len(self.bytes) - self.left_over]

    def __repr__(self) -> str:
        return f"{self.client} {self.api} v{self.version} {self.kind}: {self.hex[:64]}…"


def frames_of(client: str) -> list[Frame]:
    return [Frame(**json.loads(line)) for line in (FRAMES / f"{client}.jsonl").read_text().splitlines()]


def by_api() -> list[Any]:
    found = defaultdict(list)
    for client in CLIENTS:
        for frame in frames_of(client):
            found[client, frame.api].append(frame)
    return [pytest.param(frames, id=f"{client}-{api}") for (client, api), frames in found.items()]


def parts(frame: Frame) -> list[tuple[type, int]]:
    """The two messages in a frame, header and body, with the version of each."""
    api = APIS[frame.key]
    if frame.kind == "request":
        return [(RequestHeader, request_header_version(frame.key, frame.version)), (api.request, frame.version)]
    return [(ResponseHeader, response_header_version(frame.key, frame.version)), (api.response, frame.version)]


def read(machine: Any, frame: Frame) -> tuple[Any, Any]:
    (header_class, header_version), (body_class, body_version) = parts(frame)
    header, position = machine.decode_prefix(header_class, header_version, frame.bytes, 0)
    return header, machine.decode(body_class, body_version, memoryview(frame.message)[position:])


def write(machine: Any, frame: Frame, messages: tuple[Any, Any]) -> bytes:
    (_, header_version), (_, body_version) = parts(frame)
    header, body = messages
    return b"".join([*machine.encode(header, header_version), *machine.encode(body, body_version)])


@pytest.mark.parametrize("frames", by_api())
def test_real_frames_are_read_alike_by_both_codecs_and_written_back_byte_for_byte(frames: list[Frame]) -> None:
    for frame in frames:
        reference, fast = read(codec, frame), read(compiled, frame)
        assert reference == fast, frame
        assert write(codec, frame, reference) == frame.message, frame
        assert write(compiled, frame, fast) == frame.message, frame


@pytest.mark.parametrize("client", CLIENTS)
def test_request_headers_say_what_the_recording_says(client: str) -> None:
    for frame in frames_of(client):
        if frame.kind == "request":
            header, _ = read(compiled, frame)
            assert (header.request_api_key, header.request_api_version) == (frame.key, frame.version), frame
            assert header.client_id is None or header.client_id.isascii(), frame


@pytest.mark.parametrize("client", CLIENTS)
def test_real_frames_carry_no_tags_we_do_not_know(client: str) -> None:
    for frame in frames_of(client):
        if frame.left_over:
            continue  # bytes in wrong places make tags that nobody meant
        assert [found for message in read(codec, frame) for found in unknown_tags(message)] == [], frame


def unknown_tags(value: Any) -> list[Any]:
    """Tags nobody declared, anywhere in a message: against Kafka 4.3 that would be a field we forgot."""
    if isinstance(value, list):
        return [found for element in value for found in unknown_tags(element)]
    if not hasattr(value, "unknown_tags"):
        return []
    inside = [found for field in type(value).fields for found in unknown_tags(getattr(value, field.name))]
    return [*(value.unknown_tags or []), *inside]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_broker_reads_every_real_request(client: str) -> None:
    for frame in frames_of(client):
        if frame.kind == "request" and not frame.left_over:
            assert decode_request(frame.bytes) == read(codec, frame), frame


def test_a_broker_ignores_what_is_left_over_after_a_request() -> None:
    odd = [frame for client in CLIENTS for frame in frames_of(client) if frame.left_over]
    assert odd
    for frame in odd:
        assert decode_request(frame.bytes) == read(codec, frame), frame


def test_the_clients_we_care_about_were_all_heard() -> None:
    assert {client.rpartition("-")[0] for client in CLIENTS} >= PROGRAMS
