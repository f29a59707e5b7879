"""However the bytes of a TLS connection are cut, both twins of the data path deliver the same and answer the same."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.net.test_transport import framed
from tests.unit.net.tls_files import TlsFiles
from tests.unit.net.tls_pair import STREAMS, Pair, each_stream
from tests.unit.net.tls_records import Records, records_of

from ottla.net.link import Link
from ottla.net.tls.data_path import DATA_LIMIT_BYTES
from ottla.net.tls.stream import TlsSession

RECORD_BYTES = 16_384
TURNS = 30  # of a loop: enough for six frames, each of which is followed by a rest
FALSE_ENDS = {
    "changed": None,
    "http": b"GET / HTTP/1.0\r\n\r\n",
    "too long": b"\x17\x03\x03" + (DATA_LIMIT_BYTES + 1).to_bytes(2, "big"),
    "another version": b"\x17\x07\x03\x00\x20" + bytes(32),
    "plain handshake": b"\x16\x03\x03\x00\x04\x18\x00\x00\x00",
    "not encrypted": b"\x17\x03\x03\x00\x20" + bytes(32),
}
UNREADABLE = ("DECRYPTION_FAILED_OR_BAD_RECORD_MAC",)
REASONS: dict[str | None, Sequence[str | None]] = {
    "changed": UNREADABLE,
    "http": ("HTTP_REQUEST", "WRONG_VERSION_NUMBER", "BAD_RECORD_TYPE"),
    "too long": ("ENCRYPTED_LENGTH_TOO_LONG", "PACKET_LENGTH_TOO_LONG", "DATA_LENGTH_TOO_LONG"),
    "another version": ("WRONG_VERSION_NUMBER",),
    "plain handshake": ("BAD_RECORD_TYPE",),
    "not encrypted": UNREADABLE,
}


@dataclass
class Seen:
    """What both sides saw of a connection."""

    frames: list[bytes]
    answers: bytes
    reason: str | None
    is_closed: bool
    was_aborted: bool


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls"))


def records_for(pair: Pair, key_log: Path) -> Records:
    cipher = pair.client.cipher()
    assert cipher is not None
    return records_of(key_log.read_text(), cipher[0])


def cut(encrypted: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Pieces of these sizes, again and again."""
    pieces, position, turn = [], 0, 0
    while position < len(encrypted):
        size = sizes[turn % len(sizes)]
        pieces.append(encrypted[position : position + size])
        position, turn = position + size, turn + 1
    return pieces


async def turn(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


async def conversation(
    files: TlsFiles,
    stream: type[TlsSession],
    encrypt: Callable[[Pair, Path], bytes],
    sizes: Sequence[int],
    rests_after: int,
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
) -> Seen:
    """Every frame is echoed; after each `rests_after` of them nobody reads until the loop has turned."""

    def echo(link: Link, frame: bytes) -> None:
        link.write(framed(frame))
        if rests_after and len(pair.events.frames) % rests_after == 0:
            link.pause_reading()
            asyncio.get_running_loop().call_soon(link.resume_reading)

    key_log = files.directory / "keys.log"
    key_log.unlink(missing_ok=True)

    def adapt(context: ssl.SSLContext) -> None:
        context.maximum_version = version
        if version is ssl.TLSVersion.TLSv1_3:
            context.keylog_filename = str(key_log)

    pair = Pair(files, echo, stream, adapt)
    encrypted = encrypt(pair, key_log)
    answers = b""
    for piece in cut(pair.kept + encrypted, sizes):
        await turn(0 if pair.below.is_reading else TURNS)
        pair.deliver(piece)
        answers += pair.decrypted()
    await turn(TURNS)
    answers += pair.decrypted()
    failure: Any = pair.stream._failure
    below = pair.below
    return Seen(pair.events.frames, answers, getattr(failure, "reason", None), below.is_closed, below.was_aborted)


def seen_by_all(files: TlsFiles, encrypt: Callable[[Pair, Path], bytes], *how: Any) -> Seen:
    """The same by every twin."""
    found = [asyncio.run(conversation(files, stream, encrypt, *how)) for stream in STREAMS.values()]
    assert all(one == found[0] for one in found)
    return found[0]


bodies = st.lists(st.integers(0, 3 * RECORD_BYTES).map(lambda size: bytes((size % 251,)) * size), max_size=6)
sizes = st.lists(st.integers(1, 70_000), min_size=1, max_size=8)
small_sizes = st.lists(st.integers(1, 40), min_size=1, max_size=8)
rests = st.integers(0, 3)
record_sizes = st.lists(st.one_of(st.integers(0, 40), st.just(RECORD_BYTES)), min_size=1, max_size=8).filter(any)
oddities = st.lists(st.sampled_from(["keys", "keys, asks", "nothing", "padding"]), max_size=6)
ends = st.sampled_from([None, "goodbye", *FALSE_ENDS])


def script(
    bodies: list[bytes], record_sizes: list[int], oddities: list[str], end: str | None
) -> Callable[[Pair, Path], bytes]:
    """Frames in records of these sizes, with something between them, and an end after which a frame comes too late."""

    def encrypt(pair: Pair, key_log: Path) -> bytes:
        records = records_for(pair, key_log)
        # Tiny records of a large frame would be thousands.
        plain, parts = b"".join(framed(*bodies)), []
        turns = 0
        while plain:
            size = record_sizes[turns % len(record_sizes)] if turns < 64 else RECORD_BYTES
            parts.append(records.data(plain[:size]))
            plain = plain[size:]
            if turns < len(oddities):
                parts.append(odd(records, oddities[turns]))
            turns += 1
        if end == "goodbye":
            parts.append(records.goodbye())
        elif end == "changed":
            parts.append(changed(records.data(b"never")))
        elif end is not None:
            parts.append(FALSE_ENDS[end] or b"")
        return b"".join(parts) + (records.data(b"".join(framed(b"too late"))) if end is not None else b"")

    return encrypt


def in_time(sizes: list[int], bodies: list[bytes]) -> list[int]:
    """Larger pieces where these would be hundreds."""
    while sum(map(len, bodies)) // max(sizes) > 300:
        sizes = [size * 10 for size in sizes]
    return sizes


def odd(records: Records, what: str) -> bytes:
    if what.startswith("keys"):
        return records.change_of_keys(asks=what.endswith("asks"))
    return records.data(b"", padding=100 if what == "padding" else 0)


def changed(record: bytes) -> bytes:
    return record[:-1] + bytes((record[-1] ^ 1,))


@given(bodies, record_sizes, oddities, ends, st.one_of(sizes, small_sizes), rests)
def test_twins_see_the_same_however_records_and_reads_are_cut(
    files: TlsFiles,
    bodies: list[bytes],
    record_sizes: list[int],
    oddities: list[str],
    end: str | None,
    sizes: list[int],
    rests_after: int,
) -> None:
    seen = seen_by_all(files, script(bodies, record_sizes, oddities, end), in_time(sizes, bodies), rests_after)
    assert_answered(seen, bodies, is_kind=end in (None, "goodbye"), rests=rests_after > 0)
    assert seen.is_closed is (end is not None)
    assert seen.reason in REASONS.get(end, (None,))
    assert not seen.was_aborted


def assert_answered(seen: Seen, bodies: list[bytes], *, is_kind: bool, rests: bool) -> None:
    """All were; but who comes together with a record that cannot be read gets no answer, and who must wait with it is
    not delivered."""
    expected = b"".join(framed(*bodies))
    assert seen.answers == expected if is_kind else expected.startswith(seen.answers)
    assert seen.frames == bodies if is_kind or not rests else seen.frames == bodies[: len(seen.frames)]


@given(bodies, sizes, rests, st.booleans())
def test_twins_see_the_same_in_tls_1_2(
    files: TlsFiles, bodies: list[bytes], sizes: list[int], rests_after: int, is_kind: bool
) -> None:
    def encrypt(pair: Pair, key_log: Path) -> bytes:
        good = b"".join(pair.encrypted(body) for body in bodies)
        return good + (pair.goodbye() if is_kind else changed(pair.encrypted(b"never")))

    seen = seen_by_all(files, encrypt, in_time(sizes, bodies), rests_after, ssl.TLSVersion.TLSv1_2)
    assert_answered(seen, bodies, is_kind=is_kind, rests=rests_after > 0)
    assert seen.is_closed
    assert seen.reason == (None if is_kind else "DECRYPTION_FAILED_OR_BAD_RECORD_MAC")


@each_stream
@pytest.mark.parametrize("end", FALSE_ENDS)
def test_the_other_side_hears_by_an_alert_that_it_was_not_understood(
    files: TlsFiles, stream: type[TlsSession], end: str
) -> None:
    async def scenario() -> None:
        key_log = files.directory / "keys.log"
        key_log.unlink(missing_ok=True)
        pair = Pair(files, lambda link, frame: None, stream, lambda c: setattr(c, "keylog_filename", str(key_log)))
        pair.finish_handshake()
        pair.deliver(script([b"x"], [RECORD_BYTES], [], end)(pair, key_log))
        assert pair.decrypted() == b""
        assert pair.alert is not None
        assert "ALERT" in pair.alert

    asyncio.run(scenario())


@each_stream
def test_a_record_that_is_not_whole_is_not_given_to_openssl_to_read(files: TlsFiles, stream: type[TlsSession]) -> None:
    async def scenario() -> None:
        pair = Pair(files, lambda link, frame: None, stream)
        pair.finish_handshake()
        counting = Counting(pair.stream._object)
        pair.stream._object = counting
        encrypted = pair.encrypted(b"a" * 100) + pair.encrypted(b"b" * 100)
        for position in range(len(encrypted)):
            pair.deliver(encrypted[position : position + 1])
        assert len(pair.events.frames) == 2
        assert counting.reads == 2

    asyncio.run(scenario())


class Counting:
    """An SSL object whose reads are counted."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.reads = 0
        self.pending, self.write = real.pending, real.write

    def read(self, size: int, buffer: memoryview) -> int:
        self.reads += 1
        count: int = self._real.read(size, buffer)
        return count
