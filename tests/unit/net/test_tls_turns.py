"""How often a TLS connection meets the socket: what came together is delivered together and answered by one write."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.net.test_transport import framed
from tests.unit.net.tls_files import TlsFiles
from tests.unit.net.tls_pair import Pair, each_stream, run

from ottla.net.framing import SIZE
from ottla.net.link import Link
from ottla.net.tls.data_path import HOLD_LIMIT_BYTES
from ottla.net.tls.stream import TlsSession

pytestmark = each_stream


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls"))


def echo(link: Link, frame: bytes) -> None:
    link.write(framed(frame))


def pair_of(files: TlsFiles, answer: Callable[[Link, bytes], None], stream: type[TlsSession]) -> Pair:
    pair = Pair(files, answer, stream)
    pair.finish_handshake()
    return pair


def test_answers_to_requests_that_came_together_leave_by_one_write(files: TlsFiles, stream: type[TlsSession]) -> None:
    bodies = [bytes([number]) * 3_000 for number in range(5)]  # more than fit into the first buffer of a link

    def test() -> None:
        pair = pair_of(files, echo, stream)
        pair.deliver(pair.encrypted(*bodies))
        assert pair.events.frames == bodies
        assert len(pair.below.writes) == 1
        assert pair.decrypted() == b"".join(framed(*bodies))

    run(test)


def test_a_part_of_a_record_waits_and_holds_no_answer_back(files: TlsFiles, stream: type[TlsSession]) -> None:
    def test() -> None:
        pair = pair_of(files, echo, stream)
        encrypted = pair.encrypted(b"first") + pair.encrypted(b"second")
        pair.deliver(encrypted[:-1])
        assert pair.decrypted() == b"".join(framed(b"first"))
        pair.deliver(encrypted[-1:])
        assert pair.decrypted() == b"".join(framed(b"second"))

    run(test)


def test_much_that_is_written_does_not_wait_for_what_is_still_to_be_delivered(
    files: TlsFiles, stream: type[TlsSession]
) -> None:
    seen: list[int] = []
    pairs: list[Pair] = []

    def answer(link: Link, frame: bytes) -> None:
        seen.append(len(pairs[0].below.writes))
        link.write(framed(bytes(HOLD_LIMIT_BYTES)))

    def test() -> None:
        pairs.append(pair_of(files, answer, stream))
        pairs[0].deliver(pairs[0].encrypted(b"a", b"b", b"c"))
        assert seen == [0, 1, 2]
        assert len(pairs[0].decrypted()) == 3 * (HOLD_LIMIT_BYTES + SIZE.size)

    run(test)


def test_what_is_held_counts_as_waiting(files: TlsFiles, stream: type[TlsSession]) -> None:
    seen: list[int] = []
    pairs: list[Pair] = []

    def answer(link: Link, frame: bytes) -> None:
        link.write(framed(bytes(5_000)))
        seen.append(pairs[0].stream.get_write_buffer_size())

    def test() -> None:
        pairs.append(pair_of(files, answer, stream))
        pairs[0].below.waiting_bytes = 7
        pairs[0].deliver(pairs[0].encrypted(b"a"))
        assert seen[0] > 5_007
        assert pairs[0].stream.get_write_buffer_size() == 7

    run(test)


@pytest.mark.parametrize("is_kind", [True, False], ids=["close", "abort"])
def test_who_closes_while_it_answers_loses_only_what_an_abort_loses(
    files: TlsFiles, stream: type[TlsSession], is_kind: bool
) -> None:
    def answer(link: Link, frame: bytes) -> None:
        link.write(framed(frame))
        if frame == b"last":
            link.close() if is_kind else link.abort()

    def test() -> None:
        pair = pair_of(files, answer, stream)
        pair.deliver(pair.encrypted(b"first", b"last", b"never"))
        assert pair.events.frames == [b"first", b"last"]
        assert pair.below.is_closed
        assert pair.decrypted() == (b"".join(framed(b"first", b"last")) if is_kind else b"")

    run(test)


def test_an_answer_that_comes_later_leaves_at_once(files: TlsFiles, stream: type[TlsSession]) -> None:
    def test() -> None:
        pair = pair_of(files, lambda link, frame: None, stream)
        pair.deliver(pair.encrypted(b"question"))
        assert pair.below.writes == []
        pair.events.link.write(framed(b"answer"))
        assert pair.decrypted() == b"".join(framed(b"answer"))

    run(test)
