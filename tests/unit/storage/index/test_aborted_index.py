"""The index of aborted transactions against Kafka's rule, told as a loop over a plain list."""

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.files import DiskFiles
from ottla.storage.index.aborted_index import AbortedIndex, AbortedSearch, AbortedTransaction
from ottla.storage.index.sparse_index import CorruptIndex
from ottla.testing.files import MemoryFiles

PATH = Path("/00000000000000000100.txnindex")
BASE = 100


def packed(transactions: list[AbortedTransaction], version: int = 0) -> bytes:
    return b"".join(struct.pack(">hqqqq", version, *each) for each in transactions)


def opened(content: bytes) -> AbortedIndex:
    files = MemoryFiles()
    files.replace_bytes(PATH, content)
    return AbortedIndex(files, PATH, BASE)


def collected(transactions: list[AbortedTransaction], fetch_offset: int, upper_bound_offset: int) -> AbortedSearch:
    """What Kafka does, entry by entry."""
    found = []
    for each in transactions:
        if each.last_offset >= fetch_offset and each.first_offset < upper_bound_offset:
            found.append(each)
        if each.last_stable_offset >= upper_bound_offset:
            return AbortedSearch(found, True)
    return AbortedSearch(found, False)


def numbered(count: int) -> list[AbortedTransaction]:
    return [AbortedTransaction(n, BASE + 10 * n, BASE + 10 * n + 5, BASE + 10 * n + 6) for n in range(count)]


def test_the_file_is_made_with_the_first_entry(tmp_path: Path) -> None:
    path = tmp_path / PATH.name
    index = AbortedIndex(DiskFiles(), path, BASE)
    assert index.collect(0, 10**6) == AbortedSearch([], False)
    index.sanity_check()
    index.truncate_to(0)
    index.reset()
    index.flush()
    assert not path.exists()
    transaction = AbortedTransaction(7, 90, 105, 90)
    index.append(transaction)
    index.close()
    assert path.read_bytes() == struct.pack(">hqqqq", 0, 7, 90, 105, 90)
    assert AbortedIndex(DiskFiles(), path, BASE).transactions() == [transaction]


def test_a_marker_that_does_not_follow_is_refused() -> None:
    index = opened(packed(numbered(2)))
    with pytest.raises(ValueError, match="does not follow"):
        index.append(AbortedTransaction(9, 100, 115, 116))
    assert index.transactions() == numbered(2)


def test_a_search_stops_where_the_stable_offset_reaches_the_bound() -> None:
    transactions = numbered(800)
    index = opened(packed(transactions))
    assert index.collect(BASE + 12, BASE + 22) == AbortedSearch([transactions[1], transactions[2]], True)
    assert index.collect(BASE, 10**9) == AbortedSearch(transactions, False)


def test_an_entry_before_the_search_may_show_that_it_is_complete() -> None:
    assert opened(packed(numbered(1))).collect(BASE + 6, BASE + 6) == AbortedSearch([], True)


def test_truncation_forgets_markers_at_the_offset_or_later() -> None:
    index = opened(packed(numbered(5)))
    index.truncate_to(BASE + 25)
    assert index.transactions() == numbered(2)
    index.truncate_to(BASE + 16)
    assert index.transactions() == numbered(2)
    index.append(numbered(3)[2])
    assert index.transactions() == numbered(3)


def test_a_flush_also_keeps_the_name_of_a_new_file() -> None:
    files = MemoryFiles()
    index = AbortedIndex(files, PATH, BASE)
    index.append(numbered(1)[0])
    index.flush()
    files.crash("nothing")
    assert AbortedIndex(files, PATH, BASE).transactions() == numbered(1)


def test_what_rots_in_the_file_does_not_reach_readers_of_what_was_appended_or_read() -> None:
    files = MemoryFiles()
    written = AbortedIndex(files, PATH, BASE)
    written.append(numbered(1)[0])
    read = AbortedIndex(files, PATH, BASE)
    assert read.transactions() == numbered(1)
    files.flip_bit(PATH, 8 * 9)
    assert written.transactions() == read.transactions() == numbered(1)


def test_every_byte_cut_is_refused_or_opens_as_the_right_prefix() -> None:
    content = packed(numbered(4))
    for cut in range(len(content) + 1):
        index = opened(content[:cut])
        if cut % 34:
            with pytest.raises(CorruptIndex, match="no multiple of 34"):
                index.sanity_check()
        else:
            index.sanity_check()
            assert index.transactions() == numbered(cut // 34)


@pytest.mark.parametrize(
    "content",
    [
        packed(numbered(2), version=1),
        packed([AbortedTransaction(1, 50, 99, 60)]),
        packed(numbered(2)[::-1]),
        packed([AbortedTransaction(1, 200, 150, 160)]),
        packed(numbered(1)) + bytes(34),
    ],
    ids=["unknown version", "below the base offset", "backwards", "ends before it begins", "zeros"],
)
def test_what_cannot_be_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptIndex):
        opened(content).sanity_check()


def test_a_renamed_or_deleted_index_may_have_no_file() -> None:
    files = MemoryFiles()
    index = AbortedIndex(files, PATH, BASE)
    new_path = Path(f"{PATH}.deleted")
    index.rename(new_path)
    assert not files.exists(new_path)
    index.append(numbered(1)[0])
    assert files.exists(new_path)
    index.delete()
    index.delete()
    assert not files.exists(new_path)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 12), st.integers(0, 3)), max_size=20),
    st.integers(95, 180),
    st.integers(0, 40),
)
def test_it_collects_what_kafka_collects(
    shapes: list[tuple[int, int, int]], fetch_offset: int, range_size: int
) -> None:
    transactions: list[AbortedTransaction] = []
    last_offset, stable = BASE - 1, 0
    for number, (step, length, behind) in enumerate(shapes):
        last_offset += step
        stable = max(stable, last_offset + 1 - behind)
        transactions.append(AbortedTransaction(number, last_offset - length, last_offset, stable))
    index = opened(b"")
    for each in transactions:
        index.append(each)
    index.sanity_check()
    upper_bound_offset = fetch_offset + range_size
    assert index.collect(fetch_offset, upper_bound_offset) == collected(transactions, fetch_offset, upper_bound_offset)
    index.truncate_to(fetch_offset)
    assert index.transactions() == [each for each in transactions if each.last_offset < fetch_offset]
