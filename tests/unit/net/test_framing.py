"""Any cut of a stream gives the same frames, a held frame keeps its bytes, and a lie about a size costs no memory."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import FrameTooLarge, MalformedMessage
from ottla.native import is_native
from ottla.net import framing
from ottla.net.framing import (
    CHUNK_BYTES,
    FIRST_CHUNK_BYTES,
    GROWTH_BYTES,
    LARGE_CHUNK_BYTES,
    PEEK_BYTES,
    SIZE,
    SPARE_LIMIT_BYTES,
    SPARES_LIMIT,
    SPARES_LIMIT_BYTES,
    _spares,
    frame_prefix,
    stranger_of,
)

TWINS: list[type[framing.FrameReader]] = [framing.FrameReader]
if is_native("ottla.net._framing"):
    from ottla.net._framing import FrameReader as NativeFrameReader

    TWINS.append(NativeFrameReader)

FrameReader = framing.FrameReader


@pytest.fixture(autouse=True, params=TWINS, ids=lambda each: each.__module__.rpartition(".")[2])
def each_twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test here is about the reader in Python and about the native one."""
    monkeypatch.setattr(sys.modules[__name__], "FrameReader", request.param)


def wire(*bodies: bytes) -> bytes:
    return b"".join(frame_prefix([body]) + body for body in bodies)


def feed(
    reader: framing.FrameReader, data: bytes, cuts: Sequence[int] = (), seen: list[memoryview] | None = None
) -> list[memoryview]:
    """What a socket would do: fill lent memory, one cut of the stream at a time, until the reader gives up."""
    frames = [] if seen is None else seen
    edges = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for start, stop in pairwise(edges):
        while start < stop:
            room = reader.get_buffer(-1)
            count = min(len(room), stop - start)
            room[:count] = data[start : start + count]
            del room
            frames += reader.received(count)
            start += count
    return frames


bodies = st.lists(
    st.one_of(st.binary(max_size=40), st.integers(0, 300).map(lambda n: bytes(i % 251 for i in range(n)))), max_size=12
)


@given(bodies, st.lists(st.integers(0, 2000), max_size=20), st.sampled_from([16, 17, 64, 100, 65536]))
def test_any_cut_of_the_stream_gives_the_same_frames(frames: list[bytes], cuts: list[int], chunk_bytes: int) -> None:
    reader = FrameReader(chunk_bytes=chunk_bytes)
    assert [bytes(frame) for frame in feed(reader, wire(*frames), cuts)] == frames
    assert reader.pending_bytes == 0


@given(bodies, st.data())
def test_frames_keep_their_bytes_while_somebody_holds_some_of_them(frames: list[bytes], data: st.DataObject) -> None:
    reader = FrameReader(chunk_bytes=64)
    held: list[tuple[memoryview, bytes]] = []
    for expected in frames:
        (frame,) = feed(reader, wire(expected))
        if data.draw(st.booleans()):
            held.append((frame, expected))
        del frame
        assert all(bytes(view) == body for view, body in held)


def test_an_empty_frame_is_a_frame() -> None:
    assert feed(FrameReader(), wire(b"", b"x")) == [b"", b"x"]


def test_one_byte_at_a_time_is_enough() -> None:
    data = wire(b"abc", b"defg" * 100)
    assert feed(FrameReader(chunk_bytes=32), data, list(range(len(data)))) == [b"abc", b"defg" * 100]


@given(bodies, st.lists(st.integers(0, 2000), max_size=20), st.sampled_from([-1, -(2**31), 301, 2**31 - 1]))
def test_frames_before_a_bad_size_come_out_and_nothing_after_it(before: list[bytes], cuts: list[int], bad: int) -> None:
    reader = FrameReader(size_limit_bytes=300, chunk_bytes=64)
    seen: list[memoryview] = []
    stream = wire(*before) + SIZE.pack(bad) + wire(bytes(100))
    with pytest.raises(MalformedMessage):
        feed(reader, stream, cuts, seen)
    assert [bytes(frame) for frame in seen] == before
    assert isinstance(reader.broken, MalformedMessage)
    with pytest.raises(MalformedMessage):
        reader.get_buffer()


@pytest.mark.parametrize(("size", "refused"), [(0, False), (99, False), (100, False), (101, True), (2**31 - 1, True)])
def test_the_limit_itself_is_allowed_and_one_more_is_not(size: int, refused: bool) -> None:
    reader = FrameReader(size_limit_bytes=100)
    if refused:
        with pytest.raises(FrameTooLarge, match="the limit is 100"):
            feed(reader, SIZE.pack(size))
    else:
        assert feed(reader, wire(bytes(size))) == [bytes(size)]


def test_a_negative_size_is_malformed_and_not_too_large() -> None:
    with pytest.raises(MalformedMessage) as caught:
        feed(FrameReader(), SIZE.pack(-1))
    assert not isinstance(caught.value, FrameTooLarge)


def test_the_limit_can_grow_after_authentication() -> None:
    reader = FrameReader(size_limit_bytes=10)
    assert feed(reader, wire(b"0123456789")) == [b"0123456789"]
    reader.size_limit_bytes = 20
    assert feed(reader, wire(b"0123456789ab")) == [b"0123456789ab"]


def test_a_claimed_size_allocates_nothing_until_bytes_arrive() -> None:
    reader = FrameReader()
    tracemalloc.start()
    try:
        feed(reader, SIZE.pack(104_857_600) + b"only this")
        lent = reader.get_buffer()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * GROWTH_BYTES
    assert 0 < len(lent) <= GROWTH_BYTES + 9


def test_a_big_frame_has_memory_of_its_own_and_exactly_its_size() -> None:
    body = bytes(range(256)) * 4096
    (frame,) = feed(FrameReader(), wire(body), [1000, 400_000])
    assert isinstance(frame.obj, bytearray)
    assert len(frame.obj) == len(body)
    assert frame == body


def test_the_socket_is_never_asked_to_read_past_a_big_frame() -> None:
    reader = FrameReader(chunk_bytes=64)
    feed(reader, SIZE.pack(1000) + bytes(900))
    assert len(reader.get_buffer()) == 100


def test_a_big_frame_that_is_still_held_does_not_disturb_the_next() -> None:
    reader = FrameReader(chunk_bytes=64)
    (first,) = feed(reader, wire(b"a" * 500))
    (second,) = feed(reader, wire(b"b" * 500))
    assert (first, second) == (b"a" * 500, b"b" * 500)


def test_a_chunk_nobody_holds_is_used_again_and_one_that_is_held_is_not() -> None:
    reader = FrameReader(chunk_bytes=64)
    (frame,) = feed(reader, wire(b"x" * 30))
    first = frame.obj
    del frame
    feed(reader, wire(b"y" * 20))  # uses up the room, so that the next read must move
    (third,) = feed(reader, wire(b"z" * 30))
    assert third.obj is first
    (fourth,) = feed(reader, wire(b"w" * 25))
    (fifth,) = feed(reader, wire(b"v" * 30))
    assert fifth.obj is not first
    assert (third, fourth, fifth) == (b"z" * 30, b"w" * 25, b"v" * 30)


def test_a_slice_of_a_slice_also_keeps_a_chunk() -> None:
    reader = FrameReader(chunk_bytes=64)
    (frame,) = feed(reader, wire(b"k" * 30))
    key = frame[3:7][1:]
    del frame
    for _ in range(5):
        feed(reader, wire(b"n" * 30))
    assert key == b"kkk"


def test_the_loop_may_hold_the_lent_memory_while_bytes_are_reported() -> None:
    # uvloop lets go of the buffer only after buffer_updated has returned.
    reader = FrameReader(chunk_bytes=64)
    data = wire(b"a" * 20, b"b" * 700, b"c" * 25)
    frames: list[bytes] = []
    while data:
        room = reader.get_buffer()
        count = min(len(room), 30, len(data))
        room[:count] = data[:count]
        frames += [bytes(frame) for frame in reader.received(count)]
        data = data[count:]
        del room
    assert frames == [b"a" * 20, b"b" * 700, b"c" * 25]


@pytest.mark.parametrize(
    ("first", "word"),
    [
        (b"HTTP", "HTTP server"),
        (b"GET ", "HTTP client"),
        (b"\x15\x03\x03\x00", "TLS"),
        (b"\x16\x03\x01\x02", "TLS"),
        (b"SSH-", "SSH"),
    ],
)
def test_other_protocols_are_called_by_their_names(first: bytes, word: str) -> None:
    assert word in str(stranger_of(SIZE.unpack(first)[0]))
    with pytest.raises(FrameTooLarge, match=word):
        feed(FrameReader(), first)


def test_an_ordinary_size_is_no_stranger() -> None:
    assert stranger_of(1000) is None


def test_the_prefix_counts_bytes_and_not_items() -> None:
    parts = [b"ab", bytearray(b"cde"), memoryview(b"fg"), memoryview(bytes(8)).cast("I")]
    assert frame_prefix(parts) == SIZE.pack(15)
    assert frame_prefix([]) == SIZE.pack(0)


@pytest.mark.parametrize("wrong", [{"size_limit_bytes": -1}, {"chunk_bytes": 3}])
def test_a_reader_without_room_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 16"):
        FrameReader(**wrong)


def test_a_chunk_is_small_until_a_frame_was_cut_by_its_end() -> None:
    reader = FrameReader()
    for _ in range(100):
        feed(reader, wire(b"little" * 20))
    assert len(reader.get_buffer()) <= FIRST_CHUNK_BYTES
    feed(reader, SIZE.pack(20_000) + bytes(1_000))
    assert len(reader.get_buffer()) > 20_000


def test_the_memory_of_a_big_frame_is_used_again_once_nobody_holds_it() -> None:
    _spares.clear()
    (first,) = feed(FrameReader(chunk_bytes=64), wire(b"a" * 500))
    memory = first.obj
    (second,) = feed(FrameReader(chunk_bytes=64), wire(b"b" * 400))
    assert second.obj is not memory
    del first
    (third,) = feed(FrameReader(chunk_bytes=64), wire(b"c" * 600))
    assert third.obj is memory
    assert (second, third) == (b"b" * 400, b"c" * 600)


def test_of_several_spares_that_nobody_holds_the_newest_is_used_first() -> None:
    _spares.clear()
    held = [feed(FrameReader(chunk_bytes=64), wire(bytes([number]) * 500))[0] for number in range(4)]
    memory = [frame.obj for frame in held]
    del held[1:3]  # the second and the third are free, the newest is held
    (next_frame,) = feed(FrameReader(chunk_bytes=64), wire(b"n" * 500))
    assert next_frame.obj is memory[2]
    (after_it,) = feed(FrameReader(chunk_bytes=64), wire(b"a" * 500))
    assert after_it.obj is memory[1]
    assert (held[0], held[1]) == (bytes([0]) * 500, bytes([3]) * 500)
    _spares.clear()


def test_a_frame_may_live_in_memory_that_is_somewhat_larger_but_not_in_far_too_much() -> None:
    _spares.clear()
    (first,) = feed(FrameReader(chunk_bytes=64), wire(b"a" * 1_000))
    memory = first.obj
    del first
    (smaller,) = feed(FrameReader(chunk_bytes=64), wire(b"b" * 300, b"c"), cuts=(5, 100))[:1]
    assert smaller.obj is memory
    assert smaller == b"b" * 300
    assert len(memory) == 1_000
    del smaller
    (tiny,) = feed(FrameReader(chunk_bytes=64), wire(b"d" * 100))
    assert tiny == b"d" * 100
    assert len(tiny.obj) < 1_000
    _spares.clear()


def test_memory_that_is_kept_for_later_has_a_limit() -> None:
    _spares.clear()
    held = [feed(FrameReader(chunk_bytes=64), wire(bytes([number]) * 9_000_000)) for number in range(5)]
    assert sum(map(len, _spares)) <= SPARES_LIMIT_BYTES
    assert [bytes(frame[:1])[0] for (frame,) in held] == [0, 1, 2, 3, 4]
    feed(FrameReader(chunk_bytes=64), wire(bytes(SPARE_LIMIT_BYTES + 1)))
    assert max(map(len, _spares)) <= SPARE_LIMIT_BYTES
    for number in range(20):
        held.append(feed(FrameReader(chunk_bytes=64), wire(bytes([number]) * 100)))
    assert len(_spares) <= SPARES_LIMIT
    _spares.clear()


def test_after_a_big_frame_little_is_lent_until_the_next_size_is_known():
    reader = FrameReader(chunk_bytes=64_000)

    def feed(data):
        frames = []
        while data:
            room = reader.get_buffer()
            taken = min(len(room), len(data))
            room[:taken] = data[:taken]
            room.release()
            frames += [bytes(each) for each in reader.received(taken)]
            data = data[taken:]
        return frames

    big, small = bytes(50_000), b"small"
    assert feed(wire(big)) == [big]
    assert len(reader.get_buffer()) <= PEEK_BYTES
    assert feed(wire(big, small)) == [big, small]
    assert feed(wire(small)) == [small]


# --- limits by kind ---


def by_kind(key: int) -> int:
    return 1 << 20 if key == 0 else 1000


@pytest.mark.parametrize("cut", [4, 5, 6, 100])
def test_a_big_frame_is_refused_as_soon_as_its_kind_is_known(cut: int) -> None:
    reader = FrameReader(chunk_bytes=256, kind_limit_bytes=by_kind)
    stream = SIZE.pack(5000) + b"\0\3" + bytes(4998)
    with pytest.raises(FrameTooLarge, match="the limit is 1000 for its kind"):
        feed(reader, stream[:100], [cut])
    assert reader.pending_bytes < 100


def test_a_big_frame_of_a_kind_that_may_be_large_comes_through() -> None:
    frame = b"\0\0" + bytes(4998)
    assert feed(FrameReader(chunk_bytes=256, kind_limit_bytes=by_kind), SIZE.pack(5000) + frame) == [frame]


def test_frames_before_one_that_is_too_large_for_its_kind_come_out() -> None:
    reader = FrameReader(chunk_bytes=256, kind_limit_bytes=by_kind)
    assert feed(reader, SIZE.pack(2) + b"ok" + SIZE.pack(5000) + b"\0\3") == [b"ok"]
    assert isinstance(reader.broken, FrameTooLarge)


def test_a_chunk_is_used_from_its_front_once_its_frames_are_done_with() -> None:
    reader = FrameReader(chunk_bytes=65_536)
    feed(reader, wire(bytes(10_000)))  # cut by the end of the first chunk
    for _ in range(5):
        room_bytes = len(reader.get_buffer())
        frames = feed(reader, wire(*[bytes(9_000)] * 4))
        assert len(frames) == 4
        del frames
        assert len(reader.get_buffer()) >= min(room_bytes, 65_536)
    held = feed(reader, wire(b"x" * 9_000, b"y" * 9_000, b"z" * 20_000))
    assert len(reader.get_buffer()) < 65_536
    feed(reader, wire(b"new" * 9_000))
    assert [bytes(frame[:1]) for frame in held] == [b"x", b"y", b"z"]
    assert all(len(set(frame)) == 1 for frame in held)


def test_frames_of_64_kib_that_came_together_are_read_together_where_a_chunk_may_be_large() -> None:
    reader = FrameReader(chunk_bytes=LARGE_CHUNK_BYTES)
    body = bytes(66_000)
    feed(reader, wire(body))
    for _ in range(3):
        room = reader.get_buffer()
        content = wire(*[body] * 5)
        assert len(room) >= len(content)
        room[: len(content)] = content
        del room
        assert len(reader.received(len(content))) == 5
    assert reader.big_frame_bytes == 0


def test_a_chunk_that_may_be_large_is_so_only_for_frames_that_need_it() -> None:
    reader = FrameReader(chunk_bytes=LARGE_CHUNK_BYTES)
    feed(reader, wire(bytes(9_000)))
    for _ in range(100):
        feed(reader, wire(*[bytes(9_000)] * 5))
        assert len(reader.get_buffer()) <= CHUNK_BYTES


def steps_of(
    twin: type[framing.FrameReader], data: bytes, reads: list[int], held: list[bool], chunk: int, limit: int = 400
) -> list[object]:
    """All that can be seen of a reader while it reads, until it refuses to."""
    _spares.clear()
    reader = twin(size_limit_bytes=limit, chunk_bytes=chunk, kind_limit_bytes=lambda kind: 300 if kind < 0 else limit)
    seen: list[object] = []
    kept: list[memoryview] = []
    for read, is_held in zip(reads, held, strict=True):
        try:
            room = reader.get_buffer(-1)
            count = min(read, len(room), len(data))
            room[:count], data = data[:count], data[count:]
            lent = len(room)
            del room
            frames = reader.received(count)
        except (MalformedMessage, FrameTooLarge) as error:
            return [*seen, type(error), str(error)]
        kept += frames if is_held else []
        seen += [lent, [bytes(each) for each in frames], [bytes(each) for each in kept]]
        seen += [reader.pending_bytes, reader.big_frame_bytes, reader.big_frame_missing_bytes, str(reader.broken)]
        del frames
    return seen


@given(
    st.lists(st.one_of(st.integers(0, 420), st.sampled_from([-1, 2**31 - 1])), max_size=12),
    st.lists(st.tuples(st.integers(0, 200), st.booleans()), min_size=1, max_size=60),
    st.sampled_from([16, 64, 100, 4096]),
    st.binary(min_size=1, max_size=30),
)
def test_both_twins_do_the_same_at_every_step(
    sizes: list[int], steps: list[tuple[int, bool]], chunk: int, content: bytes
) -> None:
    data = b"".join(SIZE.pack(size) + (content * 420)[: max(0, min(size, 420))] for size in sizes)
    reads, held = [each for each, _ in steps], [each for _, each in steps]
    told = [steps_of(twin, data, reads, held, chunk) for twin in TWINS]
    assert all(each == told[0] for each in told)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from([10, 9_000, 17_000, 40_000, 66_000, 140_000, 300_000]), max_size=8),
    st.lists(st.tuples(st.sampled_from([3, 5_000, 70_000, 600_000]), st.booleans()), min_size=1, max_size=20),
    st.sampled_from([CHUNK_BYTES, LARGE_CHUNK_BYTES]),
)
def test_both_twins_do_the_same_with_frames_for_which_a_chunk_grows(
    sizes: list[int], steps: list[tuple[int, bool]], chunk: int
) -> None:
    data = b"".join(SIZE.pack(size) + bytes([number]) * size for number, size in enumerate(sizes))
    reads, held = [each for each, _ in steps], [each for _, each in steps]
    told = [steps_of(twin, data, reads, held, chunk, 1 << 20) for twin in TWINS]
    assert all(each == told[0] for each in told)
