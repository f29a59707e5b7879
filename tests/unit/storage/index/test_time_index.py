"""The time index against a plain list, byte for byte, cut at every byte."""

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.index.sparse_index import CorruptIndex
from ottla.storage.index.time_index import NO_TIMESTAMP, TimeIndex, TimestampOffset
from ottla.testing.files import MemoryFiles

PATH = Path("/00000000000000001000.timeindex")
BASE = 1000
LIMIT_BYTES = 12 * 100 + 11
NONE = TimestampOffset(NO_TIMESTAMP, BASE)


def packed(entries: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">qi", timestamp_ms, offset - BASE) for timestamp_ms, offset in entries)


def new_index(files: MemoryFiles, limit_bytes: int = LIMIT_BYTES) -> TimeIndex:
    index = TimeIndex(files, PATH, BASE, limit_bytes)
    index.create()
    return index


def opened(content: bytes) -> TimeIndex:
    files = MemoryFiles()
    files.replace_bytes(PATH, content)
    return TimeIndex(files, PATH, BASE, LIMIT_BYTES)


def entries_of(index: TimeIndex) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    timestamp_ms = 2**63 - 1
    while (entry := index.lookup(timestamp_ms)) != NONE:
        found.append(entry)
        timestamp_ms = entry.timestamp_ms - 1
    return found[::-1]


def test_a_lookup_gives_the_last_entry_at_or_before_the_time() -> None:
    index = new_index(MemoryFiles())
    index.maybe_append(5_000, 1010)
    index.maybe_append(7_000, 1020)
    assert index.lookup(4_999) == NONE
    assert index.lookup(5_000) == index.lookup(6_999) == TimestampOffset(5_000, 1010)
    assert index.lookup(7_000) == index.lookup(2**63 - 1) == index.last_entry == TimestampOffset(7_000, 1020)


def test_a_time_that_is_not_later_adds_nothing() -> None:
    index = new_index(MemoryFiles())
    index.maybe_append(NO_TIMESTAMP, 1005)
    assert len(index) == 0
    index.maybe_append(5_000, 1010)
    index.maybe_append(5_000, 1010)
    index.maybe_append(5_000, 1050)
    assert entries_of(index) == [(5_000, 1010)]


@pytest.mark.parametrize(("timestamp_ms", "offset"), [(4_000, 1020), (6_000, 1009), (6_000, BASE + 2**31)])
def test_what_does_not_follow_or_fit_is_refused(timestamp_ms: int, offset: int) -> None:
    index = new_index(MemoryFiles())
    index.maybe_append(5_000, 1010)
    with pytest.raises(ValueError, match=r"does not follow|no room"):
        index.maybe_append(timestamp_ms, offset)
    assert entries_of(index) == [(5_000, 1010)]


def test_one_entry_is_kept_free_for_the_roll() -> None:
    index = new_index(MemoryFiles(), limit_bytes=3 * 12)
    index.maybe_append(1, 1001)
    index.maybe_append(2, 1002)
    assert index.is_full
    with pytest.raises(ValueError, match="full with 2 entries"):
        index.maybe_append(3, 1003)
    index.maybe_append(3, 1003, at_roll=True)
    assert entries_of(index) == [(1, 1001), (2, 1002), (3, 1003)]


def test_the_file_is_presized_while_it_grows_and_trimmed_when_closed() -> None:
    files = MemoryFiles()
    index = new_index(files)
    index.maybe_append(2**40 + 7, 1010)
    index.flush()
    assert files.read_bytes(PATH) == packed([(2**40 + 7, 1010)]) + bytes(1188)
    index.close()
    assert files.read_bytes(PATH) == packed([(2**40 + 7, 1010)])


def test_the_only_entry_may_be_all_zeros() -> None:
    assert opened(bytes(12)).last_entry == TimestampOffset(0, BASE)
    assert opened(bytes(24)).last_entry == NONE
    assert opened(bytes(12) + packed([(1, 1001)]) + bytes(120)).lookup(0) == TimestampOffset(0, BASE)


SOUND = [(7, 1003), (256, 1003 + 256), (65536, 70000), (1 << 41, 1 << 30), (2**63 - 1, BASE + 2**31 - 1)]


def test_every_byte_cut_is_refused_or_opens_as_the_right_prefix() -> None:
    content = packed(SOUND)
    for cut in range(len(content) + 1):
        index = opened(content[:cut])
        if cut % 12:
            with pytest.raises(CorruptIndex, match="no multiple of 12"):
                index.load()
        else:
            assert entries_of(index) == SOUND[: cut // 12]


def test_every_cut_that_was_filled_with_zeros_opens_as_the_prefix_and_at_most_one_torn_entry() -> None:
    content = packed(SOUND)
    for cut in range(len(content) + 1):
        whole = cut // 12
        try:
            found = entries_of(opened(content[:cut] + bytes(1200 - cut)))
        except CorruptIndex:
            assert cut % 12
        else:
            assert found[:whole] == SOUND[:whole]
            assert len(found) <= whole + bool(cut % 12)


@pytest.mark.parametrize(
    "entries", [[(5, 1010), (5, 1011)], [(5, 1010), (4, 1011)], [(5, 1010), (6, 1009)], [(5, 999)], [(-2, 1001)]]
)
def test_entries_out_of_order_are_refused(entries: list[tuple[int, int]]) -> None:
    with pytest.raises(CorruptIndex):
        opened(packed(entries)).sanity_check()


def test_an_offset_may_stand_twice() -> None:
    assert entries_of(opened(packed([(5, 1010), (6, 1010)]))) == [(5, 1010), (6, 1010)]


steps = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 50), st.integers(0, 40)),
    st.tuples(st.just("truncate"), st.integers(0, 300), st.just(0)),
    st.tuples(st.sampled_from(["reopen", "flush", "trim", "unload"]), st.just(0), st.just(0)),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(steps, max_size=40))
def test_it_behaves_as_a_plain_list(program: list[tuple[str, int, int]]) -> None:
    files = MemoryFiles()
    index = new_index(files)
    model: list[tuple[int, int]] = []
    for step, first, second in program:
        if step == "append":
            timestamp_ms, offset = model[-1] if model else (-1, BASE)
            index.make_ready()
            index.maybe_append(timestamp_ms + first, offset + second)
            if first:
                model.append((timestamp_ms + first, offset + second))
        elif step == "truncate":
            model = [entry for entry in model if entry[1] < BASE + first]
            index.truncate_to(BASE + first)
        elif step == "reopen":
            index.close()
            assert files.read_bytes(PATH) == packed(model)
            index = TimeIndex(files, PATH, BASE, LIMIT_BYTES)
        else:
            {"flush": index.flush, "trim": index.trim, "unload": index.unload}[step]()
        assert index.last_entry == (model[-1] if model else NONE)
    assert entries_of(index) == model
    for timestamp_ms in range(-1, 400):
        assert index.lookup(timestamp_ms) == max([NONE, *(entry for entry in model if entry[0] <= timestamp_ms)])
