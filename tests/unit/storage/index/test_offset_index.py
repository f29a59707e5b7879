"""The offset index against a plain list, byte for byte, cut at every byte."""

import struct
from array import array
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.files import DiskFiles, Files
from ottla.storage.index.offset_index import CorruptIndex, OffsetIndex, OffsetPosition
from ottla.storage.index.sparse_index import WRITE_BEHIND_ENTRIES, grows
from ottla.testing.files import MemoryFiles

PATH = Path("/00000000000000001000.index")
BASE = 1000
LIMIT_BYTES = 8 * 200 + 5


def packed(entries: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">ii", offset - BASE, position) for offset, position in entries)


def new_index(files: Files, *, limit_bytes: int = LIMIT_BYTES, path: Path = PATH) -> OffsetIndex:
    index = OffsetIndex(files, path, BASE, limit_bytes)
    index.create()
    return index


def opened(content: bytes, *, limit_bytes: int = LIMIT_BYTES) -> OffsetIndex:
    files = MemoryFiles()
    files.replace_bytes(PATH, content)
    return OffsetIndex(files, PATH, BASE, limit_bytes)


def entries_of(index: OffsetIndex) -> list[tuple[int, int]]:
    """All entries, asked for one by one from the end."""
    found: list[tuple[int, int]] = []
    offset = BASE + 2**31 - 1
    while (entry := index.lookup(offset)) != (BASE, 0):
        found.append(entry)
        offset = entry.offset - 1
    return found[::-1]


@pytest.fixture(params=["disk", "memory"])
def files_and_path(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, Path]:
    return (DiskFiles(), tmp_path / PATH.name) if request.param == "disk" else (MemoryFiles(), PATH)


def test_a_lookup_gives_the_last_entry_at_or_below_the_offset() -> None:
    index = new_index(MemoryFiles())
    index.append(1010, 4100)
    index.append(1020, 8300)
    assert index.lookup(1009) == OffsetPosition(BASE, 0)
    assert index.lookup(1010) == OffsetPosition(1010, 4100)
    assert index.lookup(1019) == OffsetPosition(1010, 4100)
    assert index.lookup(1020) == index.lookup(2**40) == index.last_entry == OffsetPosition(1020, 8300)


def test_an_empty_index_sends_everybody_to_the_start() -> None:
    index = new_index(MemoryFiles())
    assert index.lookup(5000) == index.last_entry == OffsetPosition(BASE, 0)
    assert len(index) == 0


def test_the_upper_bound_of_a_position_is_the_first_entry_there_or_behind() -> None:
    index = new_index(MemoryFiles())
    index.append(1010, 4100)
    index.append(1020, 8300)
    assert index.first_at_or_after_position(4100) == OffsetPosition(1010, 4100)
    assert index.first_at_or_after_position(4101) == OffsetPosition(1020, 8300)
    assert index.first_at_or_after_position(8301) is None


def test_the_file_is_presized_while_it_grows_and_trimmed_when_closed(files_and_path: tuple[Files, Path]) -> None:
    files, path = files_and_path
    index = new_index(files, path=path)
    assert files.read_bytes(path) == bytes(1600)
    index.append(1010, 4100)
    index.flush()
    assert files.read_bytes(path) == packed([(1010, 4100)]) + bytes(1592)
    index.close()
    assert files.read_bytes(path) == packed([(1010, 4100)])
    again = OffsetIndex(files, path, BASE, LIMIT_BYTES)
    again.make_ready()
    again.append(1011, 5000)
    assert files.size(path) == 1600
    again.close()
    assert files.read_bytes(path) == packed([(1010, 4100), (1011, 5000)])


def test_a_full_index_is_told_and_takes_no_more() -> None:
    index = new_index(MemoryFiles(), limit_bytes=23)
    index.append(1001, 1)
    assert not index.is_full
    index.append(1002, 2)
    assert index.is_full
    with pytest.raises(ValueError, match="full with 2 entries"):
        index.append(1003, 3)


@pytest.mark.parametrize(
    ("offset", "position"), [(1010, 9000), (1011, 4100), (999, 9000), (BASE + 2**31, 9000), (1011, 2**31)]
)
def test_what_does_not_follow_or_fit_is_refused(offset: int, position: int) -> None:
    index = new_index(MemoryFiles())
    index.append(1010, 4100)
    with pytest.raises(ValueError, match=r"does not follow|no room"):
        index.append(offset, position)
    assert entries_of(index) == [(1010, 4100)]


def test_nothing_is_read_before_the_first_question_and_the_last_entry_is_read_alone() -> None:
    files = MemoryFiles()
    files.replace_bytes(PATH, packed([(1000 + n, 100 * n) for n in range(1, 150)]))
    files.trace.clear()
    index = OffsetIndex(files, PATH, BASE, LIMIT_BYTES)
    assert not files.trace
    assert index.last_entry == (1149, 14900)
    assert [each.size_bytes for each in files.trace if each.kind == "read"] == [8]
    index.lookup(1010)
    index.lookup(1020)
    assert len([each for each in files.trace if each.kind == "read"]) == 2


def test_unloading_gives_the_memory_back_and_loses_nothing() -> None:
    index = new_index(MemoryFiles())
    index.append(1010, 4100)
    index.unload()
    assert not index._keys
    assert entries_of(index) == [(1010, 4100)]
    index.append(1011, 5000)
    assert entries_of(index) == [(1010, 4100), (1011, 5000)]


def test_appending_touches_the_disk_only_once_in_many_entries() -> None:
    files = MemoryFiles()
    index = new_index(files)
    files.trace.clear()
    for number in range(1, WRITE_BEHIND_ENTRIES + 2):
        index.make_ready()
        index.append(BASE + number, number)
    assert [(each.kind, each.size_bytes) for each in files.trace] == [("write", 8 * WRITE_BEHIND_ENTRIES)]


def test_what_was_flushed_survives_a_crash() -> None:
    files = MemoryFiles(seed=3)
    index = new_index(files)
    index.append(1010, 4100)
    index.flush()
    files.sync_directory(PATH.parent)
    index.append(1011, 5000)
    index.write_pending()
    files.crash("nothing")
    assert entries_of(OffsetIndex(files, PATH, BASE, LIMIT_BYTES)) == [(1010, 4100)]


def test_a_rename_takes_pending_entries_along(files_and_path: tuple[Files, Path]) -> None:
    files, path = files_and_path
    index = new_index(files, path=path)
    index.append(1010, 4100)
    new_path = path.with_name(path.name + ".deleted")
    index.rename(new_path)
    index.close()
    assert not files.exists(path)
    assert files.read_bytes(new_path) == packed([(1010, 4100)])
    index.delete()
    index.delete()
    assert not files.exists(new_path)


def test_an_abandoned_index_writes_nothing() -> None:
    files = MemoryFiles()
    index = new_index(files)
    index.append(1010, 4100)
    index.abandon()
    assert files.read_bytes(PATH) == bytes(1600)


# --- damage ----------------------------------------------------------------------------------------------------------

SOUND = [(1007, 300), (1300, 4352), (1301, 8448), (70000, 65536), (1 << 30, 2**31 - 1)]


def test_every_byte_cut_is_refused_or_opens_as_the_right_prefix() -> None:
    content = packed(SOUND)
    for cut in range(len(content) + 1):
        index = opened(content[:cut])
        if cut % 8:
            with pytest.raises(CorruptIndex, match="no multiple of 8"):
                index.load()
        else:
            assert entries_of(index) == SOUND[: cut // 8]


def test_every_cut_that_was_filled_with_zeros_opens_as_the_prefix_and_at_most_one_torn_entry() -> None:
    content = packed(SOUND)
    for cut in range(len(content) + 1):
        index = opened(content[:cut] + bytes(1600 - cut))
        whole = cut // 8
        try:
            found = entries_of(index)
        except CorruptIndex:
            assert cut % 8  # only a torn entry may break the order
        else:
            assert found[:whole] == SOUND[:whole]
            assert len(found) <= whole + bool(cut % 8)


@pytest.mark.parametrize(
    "entries",
    [[(1010, 4100), (1010, 8000)], [(1010, 4100), (1011, 4100)], [(1010, 4100), (1005, 8000)], [(999, 4100)]],
)
def test_entries_out_of_order_are_refused(entries: list[tuple[int, int]]) -> None:
    with pytest.raises(CorruptIndex):
        opened(packed(entries)).sanity_check()


def test_zeros_between_entries_are_refused() -> None:
    with pytest.raises(CorruptIndex):
        opened(packed(SOUND[:2]) + bytes(8) + packed(SOUND[2:])).sanity_check()


def test_a_last_entry_below_the_base_offset_is_refused_without_reading_more() -> None:
    with pytest.raises(CorruptIndex, match="below its base offset"):
        _ = opened(packed([(1010, 4100), (900, 5000)])).last_entry


def test_a_missing_file_is_corrupt() -> None:
    questions: list[Callable[[OffsetIndex], object]] = [lambda i: i.lookup(5), lambda i: i.last_entry]
    for ask in questions:
        with pytest.raises(CorruptIndex, match="missing"):
            ask(OffsetIndex(MemoryFiles(), PATH, BASE, LIMIT_BYTES))


def test_the_check_looks_at_the_file_again() -> None:
    files = MemoryFiles()
    index = new_index(files)
    index.append(1010, 4100)
    index.close()
    index.sanity_check()
    files.replace_bytes(PATH, b"torn")
    with pytest.raises(CorruptIndex):
        index.sanity_check()


def test_a_reset_makes_any_file_an_empty_index() -> None:
    index = opened(b"garbage")
    index.reset()
    index.append(1010, 4100)
    assert entries_of(index) == [(1010, 4100)]


@given(
    st.sampled_from("iq"),
    st.lists(st.integers(-2, 5) | st.integers(2**31 - 3, 2**31 - 1)),
    st.booleans(),
    st.integers(0, 1),
)
def test_order_is_seen_at_once_as_it_is_one_by_one(typecode: str, numbers: list[int], ordered: bool, step: int) -> None:
    numbers = sorted(numbers) if ordered else numbers
    steps = [later - earlier for earlier, later in pairwise(numbers)]
    expected = all(number >= 0 for number in numbers) and all(each >= step for each in steps)
    assert grows(array(typecode, numbers), step) is expected


# --- against a plain list --------------------------------------------------------------------------------------------

steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 50), st.integers(1, 5000)),
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
            offset, position = model[-1] if model else (BASE, 0)
            model.append((offset + first, position + second))
            index.make_ready()
            index.append(*model[-1])
        elif step == "truncate":
            model = [entry for entry in model if entry[0] < BASE + first]
            index.truncate_to(BASE + first)
        elif step == "reopen":
            index.close()
            assert files.read_bytes(PATH) == packed(model)
            index = OffsetIndex(files, PATH, BASE, LIMIT_BYTES)
        else:
            {"flush": index.flush, "trim": index.trim, "unload": index.unload}[step]()
        assert index.last_entry == (model[-1] if model else (BASE, 0))
    assert entries_of(index) == model
    for offset in range(BASE, BASE + 320):
        assert index.lookup(offset) == max([(BASE, 0), *(entry for entry in model if entry[0] <= offset)])
    index.close()
    assert files.read_bytes(PATH) == packed(model)
