"""Leader epochs against a plain model: the epoch of every record there is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.directory.checkpoints import MalformedCheckpoint
from ottla.storage.log.leader_epochs import LEADER_EPOCHS, EpochEntry, LeaderEpochs
from ottla.testing.files import MemoryFiles

DIRECTORY = Path("/data/t-0")
PATH = DIRECTORY / LEADER_EPOCHS


@pytest.fixture
def files():
    files = MemoryFiles()
    files.make_directory(DIRECTORY)
    return files


@pytest.fixture
def epochs():
    return LeaderEpochs([EpochEntry(2, 10), EpochEntry(4, 20), EpochEntry(7, 30)])


def test_without_epochs_nothing_is_known():
    epochs = LeaderEpochs()
    assert (epochs.latest, epochs.earliest, epochs.entries) == (None, None, ())
    assert epochs.end_offset_for(0, 100) == (-1, -1)
    assert epochs.epoch_for_offset(5) is None


def test_an_epoch_is_assigned_once(epochs):
    assert epochs.assign(9, 40)
    assert not epochs.assign(9, 40)
    assert not epochs.assign(9, 55)
    assert epochs.latest == (9, 40)
    assert epochs.earliest == (2, 10)


@pytest.mark.parametrize(
    ("epoch", "start", "left"),
    [
        (7, 25, [(2, 10), (4, 20), (7, 25)]),  # the latest starts earlier than we thought
        (8, 30, [(2, 10), (4, 20), (8, 30)]),  # the latest has written nothing
        (8, 15, [(2, 10), (8, 15)]),
        (8, 10, [(8, 10)]),
        (4, 40, [(2, 10), (4, 40)]),
        (5, 20, [(2, 10), (5, 20)]),
        (1, 40, [(1, 40)]),
        (0, 0, [(0, 0)]),
    ],
)
def test_an_entry_that_contradicts_older_ones_replaces_them(epochs, epoch, start, left):
    assert epochs.assign(epoch, start)
    assert list(epochs.entries) == left


@pytest.mark.parametrize(("epoch", "start"), [(-1, 0), (0, -1)])
def test_negative_epochs_and_offsets_are_refused(epochs, epoch, start):
    with pytest.raises(ValueError, match="negative"):
        epochs.assign(epoch, start)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),  # deleted: go on where the log starts
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),  # had no records here
        (4, (4, 30)),
        (6, (4, 30)),
        (7, (7, 99)),
        (8, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_one_starts(epochs, asked, answer):
    assert epochs.end_offset_for(asked, 99) == answer


@pytest.mark.parametrize(("offset", "epoch"), [(9, None), (10, 2), (19, 2), (20, 4), (29, 4), (30, 7), (1000, 7)])
def test_the_epoch_of_an_offset_is_the_last_that_started_by_then(epochs, offset, epoch):
    assert epochs.epoch_for_offset(offset) == epoch


@pytest.mark.parametrize(
    ("end", "changed", "left"),
    [
        (31, False, [(2, 10), (4, 20), (7, 30)]),
        (30, True, [(2, 10), (4, 20)]),
        (11, True, [(2, 10)]),
        (10, True, []),
        (0, True, []),
    ],
)
def test_cutting_the_end_forgets_epochs_without_records(epochs, end, changed, left):
    assert epochs.truncate_from_end(end) is changed
    assert list(epochs.entries) == left


@pytest.mark.parametrize(
    ("start", "changed", "left"),
    [
        (5, False, [(2, 10), (4, 20), (7, 30)]),
        (10, False, [(2, 10), (4, 20), (7, 30)]),
        (11, True, [(2, 11), (4, 20), (7, 30)]),
        (20, True, [(4, 20), (7, 30)]),
        (25, True, [(4, 25), (7, 30)]),
        (99, True, [(7, 99)]),
    ],
)
def test_cutting_the_start_moves_the_epoch_that_covers_it(epochs, start, changed, left):
    assert epochs.truncate_from_start(start) is changed
    assert list(epochs.entries) == left


def test_an_unknown_end_forgets_nothing(epochs):
    with pytest.raises(ValueError, match="offset -1"):
        epochs.truncate_from_end(-1)
    assert len(epochs.entries) == 3


def test_clearing_forgets_everything(epochs):
    assert epochs.clear()
    assert not epochs.clear()
    assert epochs.entries == ()


# --- the model -------------------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 3), st.integers(1, 4)),
        st.tuples(st.just("cut end"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("cut start"), st.integers(0, 40), st.just(0)),
    ),
    max_size=30,
)


@given(STEPS)
def test_the_answers_are_those_of_a_list_with_the_epoch_of_every_record(steps):
    epochs, records, start, end, leader = LeaderEpochs(), {}, 0, 0, 0
    for what, number, count in steps:
        if what == "append":
            leader += number
            epochs.assign(leader, end)
            records.update((offset, leader) for offset in range(end, end + count))
            end += count
        elif what == "cut end":
            end = min(end, max(number, start))
            epochs.truncate_from_end(end)
        else:
            start = max(start, min(number, end))
            epochs.truncate_from_start(start)
        records = {offset: epoch for offset, epoch in records.items() if start <= offset < end}
        check(epochs, records, end)


def check(epochs, records, end):
    for offset, epoch in records.items():
        assert epochs.epoch_for_offset(offset) == epoch
    first_of = {}
    for offset, epoch in sorted(records.items()):
        first_of.setdefault(epoch, offset)
    # An epoch may be known without records when the log was emptied from its start; no other may.
    known = [entry for entry in epochs.entries if entry.start_offset < end]
    assert known == sorted(first_of.items())
    assert all(entry.start_offset == end for entry in epochs.entries[len(known) :])
    for epoch in first_of:
        later = [offset for offset, other in records.items() if other > epoch]
        emptied = [entry.start_offset for entry in epochs.entries[len(known) :]]
        assert epochs.end_offset_for(epoch, end) == (epoch, min([*later, *emptied, end]))


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20))))
def test_whatever_is_assigned_entries_grow_in_both_columns(pairs):
    epochs = LeaderEpochs()
    for epoch, start in pairs:
        epochs.assign(epoch, start)
        assert epochs.latest.epoch == epoch
        assert epochs.latest.start_offset <= start
        for one, next_one in zip(epochs.entries, epochs.entries[1:], strict=False):
            assert one.epoch < next_one.epoch
            assert one.start_offset < next_one.start_offset


# --- the file --------------------------------------------------------------------------------------------------------


def test_the_file_is_kafkas(files, epochs):
    epochs.save(files, DIRECTORY)
    assert files.read_bytes(PATH) == b"0\n3\n2 10\n4 20\n7 30\n"
    assert LeaderEpochs.load(files, DIRECTORY).entries == epochs.entries


def test_without_a_file_there_are_no_epochs(files):
    assert LeaderEpochs.load(files, DIRECTORY).entries == ()
    LeaderEpochs().save(files, DIRECTORY)
    assert files.read_bytes(PATH) == b"0\n0\n"
    assert LeaderEpochs.load(files, DIRECTORY).entries == ()


@pytest.mark.parametrize(
    "line", ["1", "1 2 3", "x 2", "1 2.5", "-1 5", "1 -5", "2147483648 0", "1 9223372036854775808"]
)
def test_a_line_that_is_no_entry_is_named(files, line):
    files.replace_bytes(PATH, f"0\n2\n0 0\n{line}\n".encode())
    with pytest.raises(MalformedCheckpoint, match="leader-epoch-checkpoint, line 4"):
        LeaderEpochs.load(files, DIRECTORY)
