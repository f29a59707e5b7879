"""The rules for producers, case by case. test_producer_machine.py has a state machine against a plain model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import (
    IllegalMove,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from ottla.records.checks import PlacedBatch
from ottla.records.control import EndTransactionMarker, end_transaction_batch
from ottla.records.implementation import BatchBuilder, scan
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.producers.check import Accepted, Duplicate, VerificationGuard
from ottla.storage.producers.entry import BatchMetadata, ProducerBatch, ProducerEntry, read_producer_batches
from ottla.storage.producers.open_transactions import CompletedTransaction
from ottla.storage.producers.state import LATE_TRANSACTION_GRACE_MS, ProducerState

CLIENT, COORDINATOR, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION
LAST_SEQUENCE = 2**31 - 1
NOW_MS = 1_700_000_000_000


def data(producer_id=1, epoch=0, sequence=0, offset=0, count=1, *, transactional=False, timestamp_ms=NOW_MS):
    last_sequence = -1 if sequence == -1 else (sequence + count - 1) % 2**31
    return ProducerBatch(
        producer_id, epoch, sequence, last_sequence, offset, offset + count - 1, timestamp_ms, transactional
    )


def marker(producer_id=1, epoch=0, offset=0, *, commit=True, coordinator_epoch=0, timestamp_ms=NOW_MS):
    end = EndTransactionMarker(commit, coordinator_epoch)
    return ProducerBatch(producer_id, epoch, -1, -1, offset, offset, timestamp_ms, True, True, end)


def append(state, *batches, origin=CLIENT, guard=None, transaction_version=0):
    """What a log does with an append; gives the decision."""
    answer = state.check_append(batches, origin, guard=guard, transaction_version=transaction_version)
    if isinstance(answer, Accepted):
        state.update(answer)
        for completed in answer.completed:
            state.complete(completed)
        state.move_end(batches[-1].last_offset + 1)
    return answer


@pytest.fixture
def state():
    return ProducerState(verification_required=False)


# ---- sequences ----


@pytest.mark.parametrize(
    ("written", "next_sequence"),
    [
        ([(0, 3)], 3),
        ([(0, 3), (3, 1)], 4),
        ([(LAST_SEQUENCE - 1, 2)], 0),
        ([(LAST_SEQUENCE, 1)], 0),
        ([(LAST_SEQUENCE - 1, 4)], 2),
    ],
)
def test_only_the_next_sequence_is_taken(state, written, next_sequence):
    offset = 0
    for sequence, count in written:
        append(state, data(sequence=sequence, count=count, offset=offset))
        offset += count
    for wrong in {(next_sequence + step) % 2**31 for step in (1, 2, 1000, -10)}:
        with pytest.raises(OutOfOrderSequenceNumber, match=f"sent sequence {wrong}, expected is {next_sequence}"):
            state.check_append([data(sequence=wrong, offset=offset)], CLIENT)
    assert isinstance(append(state, data(sequence=next_sequence, offset=offset)), Accepted)


def test_each_of_the_last_five_batches_is_answered_with_where_it_is(state):
    batches = [data(sequence=(LAST_SEQUENCE - 5 + 3 * n) % 2**31, count=3, offset=3 * n) for n in range(6)]
    for batch in batches:
        append(state, batch)
    for batch in batches[1:]:
        found = state.check_append([batch._replace(first_offset=100, last_offset=102)], CLIENT)
        assert isinstance(found, Duplicate)
        assert (found.batch.first_offset, found.batch.last_offset) == (batch.first_offset, batch.last_offset)
        assert found.batch.first_sequence == batch.first_sequence
    with pytest.raises(OutOfOrderSequenceNumber):
        state.check_append([batches[0]], CLIENT)


def test_a_repeated_batch_is_known_also_when_it_would_be_the_next(state):
    append(state, data(sequence=0))
    append(state, data(sequence=-1, offset=1), origin=COORDINATOR)
    assert state.check_append([data(sequence=0, offset=2)], CLIENT) == Duplicate(BatchMetadata(0, 0, 0, NOW_MS))


def test_a_batch_with_other_bounds_is_not_a_duplicate(state):
    append(state, data(sequence=0, count=3))
    for sequence, count in [(0, 2), (1, 2), (0, 4)]:
        with pytest.raises(OutOfOrderSequenceNumber):
            state.check_append([data(sequence=sequence, count=count, offset=3)], CLIENT)


def test_a_batch_of_another_epoch_is_not_a_duplicate(state):
    append(state, data(epoch=0))
    assert isinstance(append(state, data(epoch=1, offset=1)), Accepted)
    with pytest.raises(InvalidProducerEpoch):
        state.check_append([data(epoch=0)], CLIENT)


def test_an_unknown_producer_may_start_anywhere(state):
    assert isinstance(append(state, data(epoch=3, sequence=77)), Accepted)
    assert state.entries[1].last_sequence == 77


def test_a_new_epoch_starts_at_sequence_0(state):
    append(state, data(epoch=3, sequence=77))
    with pytest.raises(OutOfOrderSequenceNumber, match="epoch 4 is new"):
        state.check_append([data(epoch=4, sequence=78, offset=1)], CLIENT)
    append(state, data(epoch=4, sequence=0, offset=1))
    assert state.entries[1].batches == (BatchMetadata(0, 1, 0, NOW_MS),)


@pytest.mark.parametrize("origin", [CLIENT, COORDINATOR])
def test_a_smaller_epoch_is_refused(state, origin):
    append(state, data(epoch=3))
    with pytest.raises(InvalidProducerEpoch, match="epoch 2, epoch 3 was seen"):
        state.check_append([data(epoch=2, sequence=1, offset=1)], origin)


def test_a_coordinator_writes_without_sequences(state):
    for offset in range(3):
        append(state, data(sequence=-1, offset=offset, transactional=True), origin=COORDINATOR)
    assert state.entries[1].last_sequence == -1
    assert state.entries[1].transaction_first_offset == 0


def test_what_is_replicated_is_booked_whatever_it_says(state):
    append(state, data(epoch=3, sequence=5), origin=REPLICATION)
    append(state, data(epoch=2, sequence=9, offset=1), data(epoch=2, sequence=70, offset=2), origin=REPLICATION)
    assert state.entries[1].epoch == 2
    assert [batch.last_sequence for batch in state.entries[1].batches] == [9, 70]


def test_a_check_changes_nothing(state):
    append(state, data())
    before = dict(state.entries)
    state.check_append([data(sequence=1, offset=1)], CLIENT)
    with pytest.raises(OutOfOrderSequenceNumber):
        state.check_append([data(sequence=5, offset=1)], CLIENT)
    assert dict(state.entries) == before


def test_batches_of_one_append_build_on_each_other(state):
    append(state, data(sequence=0), data(sequence=1, offset=1), data(2, 0, 0, 2), data(sequence=2, offset=3))
    assert state.entries[1].last_sequence == 2
    with pytest.raises(OutOfOrderSequenceNumber):
        state.check_append([data(sequence=3, offset=4), data(sequence=5, offset=5)], CLIENT)


# ---- transactions ----


def test_a_transaction_holds_the_last_stable_offset_until_its_marker_is_replicated(state):
    append(state, data(offset=10, count=5, transactional=True))
    assert state.last_stable_offset(15) == 10
    answer = append(state, marker(offset=15), origin=COORDINATOR)
    assert answer.completed == [CompletedTransaction(1, 10, 15, is_aborted=False)]
    assert state.first_undecided_offset is None
    assert state.last_stable_offset(16) == 10
    state.move_high_watermark(15)
    assert state.last_stable_offset(15) == 10
    state.move_high_watermark(16)
    assert state.first_unstable_offset is None
    assert state.last_stable_offset(16) == 16


def test_the_last_stable_offset_is_never_beyond_the_high_watermark(state):
    append(state, data(offset=10, transactional=True))
    assert state.last_stable_offset(4) == 4


def test_the_oldest_of_several_transactions_counts(state):
    for producer_id, offset in [(1, 0), (2, 1), (3, 2)]:
        append(state, data(producer_id, offset=offset, transactional=True))
    second = append(state, marker(2, offset=3, commit=False), origin=COORDINATOR).completed[0]
    assert second == CompletedTransaction(2, 1, 3, is_aborted=True)
    assert state.first_unstable_offset == 0
    append(state, marker(1, offset=4), origin=COORDINATOR)
    assert (state.first_undecided_offset, state.first_unstable_offset) == (2, 0)
    state.move_high_watermark(4)
    assert state.first_unstable_offset == 0
    state.move_high_watermark(5)
    assert state.first_unstable_offset == 2


def test_the_index_is_told_the_last_stable_offset_without_the_ended_transaction(state):
    append(state, data(1, offset=0, transactional=True))
    append(state, data(2, offset=1, transactional=True))
    answer = state.check_append([marker(1, offset=2, commit=False)], COORDINATOR, transaction_version=0)
    state.update(answer)
    assert state.last_stable_offset_after(answer.completed[0]) == 1
    state.complete(answer.completed[0])
    answer = state.check_append([marker(2, offset=3, commit=False)], COORDINATOR, transaction_version=0)
    state.update(answer)
    assert state.last_stable_offset_after(answer.completed[0]) == 4


def test_a_marker_without_a_transaction_completes_nothing(state):
    answer = append(state, marker(epoch=2, coordinator_epoch=7), origin=COORDINATOR)
    assert answer.completed == []
    assert state.entries[1] == ProducerEntry(1, 2, 7, NOW_MS)


def test_a_completion_nobody_started_is_a_fault(state):
    with pytest.raises(IllegalMove, match="never started"):
        state.complete(CompletedTransaction(1, 0, 1, is_aborted=False))


def test_a_plain_batch_inside_a_transaction_is_refused(state):
    append(state, data(transactional=True))
    with pytest.raises(InvalidTxnState, match="open transaction"):
        state.check_append([data(sequence=1, offset=1)], CLIENT)


def test_a_former_coordinator_is_fenced(state):
    append(state, marker(coordinator_epoch=5), origin=COORDINATOR)
    with pytest.raises(TransactionCoordinatorFenced, match="coordinator epoch 4, epoch 5"):
        state.check_append([marker(offset=1, coordinator_epoch=4)], COORDINATOR, transaction_version=0)
    append(state, marker(offset=1, coordinator_epoch=4), origin=REPLICATION)
    assert state.entries[1].coordinator_epoch == 4


@pytest.mark.parametrize(
    ("version", "epoch", "is_open", "is_taken"),
    [
        (0, 2, True, False),
        (1, 3, True, True),
        (0, 4, True, True),
        (2, 2, True, False),
        (2, 3, True, False),
        (2, 3, False, True),
        (2, 2, False, False),
        (2, 4, True, True),
        (2, 4, False, True),
    ],
)
def test_the_epoch_of_a_marker(state, version, epoch, is_open, is_taken):
    append(state, data(epoch=3, transactional=True))
    if not is_open:
        append(state, marker(epoch=3, offset=1), origin=COORDINATOR)
    late = marker(epoch=epoch, offset=2)
    if is_taken:
        append(state, late, origin=COORDINATOR, transaction_version=version)
        assert (state.entries[1].epoch, state.first_undecided_offset) == (epoch, None)
    else:
        with pytest.raises(InvalidProducerEpoch):
            state.check_append([late], COORDINATOR, transaction_version=version)


def test_a_producer_that_used_up_its_epochs_can_still_be_ended(state):
    append(state, data(epoch=2**15 - 1, transactional=True))
    answer = append(state, marker(epoch=2**15 - 1, offset=1), origin=COORDINATOR, transaction_version=2)
    assert len(answer.completed) == 1


def test_a_marker_needs_to_say_its_version_unless_it_is_replicated(state):
    with pytest.raises(ValueError, match="version of its transaction"):
        state.check_append([marker()], COORDINATOR)
    state.check_append([marker()], REPLICATION)


def test_a_marker_with_the_next_epoch_lets_sequences_start_anew(state):
    append(state, data(epoch=0, sequence=0, count=5, transactional=True))
    append(state, marker(epoch=1, offset=5), origin=COORDINATOR, transaction_version=2)
    assert state.entries[1].batches == ()
    with pytest.raises(OutOfOrderSequenceNumber):
        state.check_append([data(epoch=1, sequence=5, offset=6, transactional=True)], CLIENT)
    append(state, data(epoch=1, sequence=0, offset=6, transactional=True))
    assert state.first_undecided_offset == 6


def test_an_empty_control_batch_says_nothing(state):
    state.replay([marker()._replace(marker=None)], 1)
    assert state.entries == {}
    assert state.end_offset == 1


def test_a_silent_transaction_is_late(state):
    assert not state.has_late_transaction(NOW_MS, 900_000)
    append(state, data(transactional=True))
    limit_ms = 900_000 + LATE_TRANSACTION_GRACE_MS
    assert not state.has_late_transaction(NOW_MS + limit_ms, 900_000)
    assert state.has_late_transaction(NOW_MS + limit_ms + 1, 900_000)


def test_a_transaction_without_a_time_is_never_late(state):
    append(state, data(transactional=True, timestamp_ms=0))
    assert not state.has_late_transaction(NOW_MS, 900_000)


# ---- verification ----


@pytest.fixture
def verifying():
    return ProducerState()


def ask(state, sequence=0, epoch=0, *, producer_id=1, raises_epoch=False, now_ms=NOW_MS):
    return state.start_verification(producer_id, sequence, epoch, raises_epoch=raises_epoch, now_ms=now_ms)


def test_a_transaction_begins_only_with_the_guard_of_its_question(verifying):
    batch = data(transactional=True)
    assert verifying.needs_verification(1, 0)
    for guard in (None, VerificationGuard()):
        with pytest.raises(InvalidTxnState, match="coordinator was asked"):
            verifying.check_append([batch], CLIENT, guard=guard)
    guard = ask(verifying)
    assert ask(verifying) is guard
    append(verifying, batch, guard=guard)
    assert not verifying.needs_verification(1, 0)
    assert ask(verifying) is None
    append(verifying, data(sequence=1, offset=1, transactional=True))


def test_a_marker_takes_the_guard_away(verifying):
    guard = ask(verifying)
    append(verifying, marker(commit=False), origin=COORDINATOR)
    with pytest.raises(InvalidTxnState):
        verifying.check_append([data(offset=1, transactional=True)], CLIENT, guard=guard)
    assert ask(verifying) is not guard


def test_the_marker_of_the_transaction_before_leaves_the_guard(verifying):
    append(verifying, data(transactional=True), guard=ask(verifying, raises_epoch=True))
    guard = ask(verifying, epoch=1, raises_epoch=True)
    append(verifying, marker(epoch=1, offset=1), origin=COORDINATOR, transaction_version=2)
    append(verifying, data(epoch=1, offset=2, transactional=True), guard=guard)
    assert verifying.first_undecided_offset == 2


def test_the_marker_of_this_transaction_takes_the_guard_of_a_producer_that_raises_its_epoch(verifying):
    guard = ask(verifying, epoch=1, raises_epoch=True)
    append(verifying, marker(epoch=2), origin=COORDINATOR, transaction_version=2)
    with pytest.raises(InvalidProducerEpoch):
        verifying.check_append([data(epoch=1, offset=1, transactional=True)], CLIENT, guard=guard)
    with pytest.raises(InvalidTxnState):
        verifying.check_append([data(epoch=2, offset=1, transactional=True)], CLIENT, guard=guard)


def test_offset_commits_of_a_transaction_need_the_guard_too(verifying):
    with pytest.raises(InvalidTxnState):
        verifying.check_append([data(sequence=-1, transactional=True)], COORDINATOR)
    append(verifying, data(sequence=-1, transactional=True), origin=COORDINATOR, guard=ask(verifying, -1))


def test_plain_and_replicated_batches_need_no_guard(verifying):
    append(verifying, data())
    append(verifying, data(2, offset=1, transactional=True), origin=REPLICATION)


def test_a_smaller_epoch_is_told_before_the_missing_guard(verifying):
    append(verifying, data(epoch=3))
    with pytest.raises(InvalidProducerEpoch):
        verifying.check_append([data(epoch=2, transactional=True)], CLIENT)
    with pytest.raises(InvalidProducerEpoch):
        ask(verifying, epoch=2)


def test_the_lowest_sequence_that_is_verified_must_come_first(verifying):
    ask(verifying, 5)
    guard = ask(verifying, 3)
    ask(verifying, 4)
    with pytest.raises(OutOfOrderSequenceNumber, match="expected is 3"):
        verifying.check_append([data(sequence=4, transactional=True)], CLIENT, guard=guard)
    append(verifying, data(sequence=3, transactional=True), guard=guard)


def test_a_larger_epoch_replaces_the_lowest_sequence(verifying):
    guard = ask(verifying, 3, epoch=0)
    assert ask(verifying, 8, epoch=1) is guard
    append(verifying, data(epoch=1, sequence=8, transactional=True), guard=guard)


def test_a_producer_that_raises_its_epoch_must_start_at_0(verifying):
    guard = ask(verifying, 3, raises_epoch=True)
    with pytest.raises(OutOfOrderSequenceNumber, match="expected is 0"):
        verifying.check_append([data(sequence=3, transactional=True)], CLIENT, guard=guard)
    guard = ask(verifying, 0, raises_epoch=True)
    append(verifying, data(sequence=0, transactional=True), guard=guard)


def test_questions_are_forgotten_by_age_and_by_number():
    state = ProducerState(id_expiration_ms=100, id_limit=2)
    first = ask(state, producer_id=1, now_ms=0)
    ask(state, producer_id=2, now_ms=50)
    assert ask(state, producer_id=1, now_ms=50) is first
    ask(state, producer_id=3, now_ms=60)
    assert ask(state, producer_id=1, now_ms=60) is not first
    second = ask(state, producer_id=3, now_ms=60)
    state.remove_expired(160)
    assert ask(state, producer_id=3, now_ms=160) is not second


# ---- growth ----


def test_silent_producers_are_forgotten_unless_they_have_a_transaction():
    state = ProducerState(id_expiration_ms=100, verification_required=False)
    append(state, data(1, timestamp_ms=1000))
    append(state, data(2, offset=1, timestamp_ms=1000, transactional=True))
    append(state, data(3, offset=2, timestamp_ms=1001))
    assert state.remove_expired(1099) == 0
    assert state.remove_expired(1100) == 1
    assert list(state.entries) == [2, 3]
    append(state, marker(2, offset=3, timestamp_ms=1000), origin=COORDINATOR)
    assert state.remove_expired(1101) == 2


def test_the_longest_silent_are_forgotten_at_the_limit():
    state = ProducerState(id_limit=3, verification_required=False)
    append(state, data(1, transactional=True))
    for offset, producer_id in enumerate([2, 3, 4, 3, 5], start=1):
        append(state, data(producer_id, sequence=1 if offset == 4 else 0, offset=offset))
    assert sorted(state.entries) == [1, 3, 5]
    for producer_id in range(6, 1000):
        append(state, data(producer_id, offset=producer_id))
    assert sorted(state.entries) == [1, 998, 999]


def test_open_transactions_are_kept_beyond_the_limit():
    state = ProducerState(id_limit=2, verification_required=False)
    for producer_id in range(5):
        append(state, data(producer_id, offset=producer_id, transactional=True))
    assert len(state.entries) == 5
    append(state, marker(3, offset=9), origin=COORDINATOR)
    assert sorted(state.entries) == [0, 1, 2, 4]


# ---- the log is cut ----


def test_a_moved_log_start_drops_markers_below_and_moves_the_end(state):
    append(state, data(transactional=True))
    append(state, marker(offset=1), origin=COORDINATOR)
    state.move_log_start(5, None)
    assert (state.first_unstable_offset, state.end_offset, state.snapshot_offset) == (None, 5, 5)
    assert 1 in state.entries
    state.move_log_start(6, 3)
    assert state.snapshot_offset == 3


def test_a_cleared_state_knows_nothing(state):
    append(state, data(transactional=True))
    state.clear(7)
    assert (dict(state.entries), state.first_unstable_offset, state.end_offset) == ({}, None, 7)


def test_a_reload_drops_the_expired_and_keeps_open_transactions():
    state = ProducerState(id_expiration_ms=100)
    entries = [ProducerEntry(1, 0, -1, 10), ProducerEntry(2, 0, -1, 10, 5), ProducerEntry(3, 0, -1, 50, 3)]
    state.reload(entries, 9, now_ms=110)
    assert list(state.entries) == [2, 3]
    assert (state.first_undecided_offset, state.end_offset, state.snapshot_offset) == (3, 9, 9)


# ---- from bytes ----


def test_batches_are_read_from_a_buffer_and_those_without_a_producer_are_left_out():
    plain = BatchBuilder()
    plain.append(NOW_MS, None, b"x")
    numbered = BatchBuilder(
        base_offset=4, producer_id=9, producer_epoch=2, base_sequence=LAST_SEQUENCE, transactional=True
    )
    numbered.append(NOW_MS, None, b"x")
    numbered.append(NOW_MS + 5, None, b"x")
    end = EndTransactionMarker(commit=False, coordinator_epoch=3)
    ended = end_transaction_batch(end, producer_id=9, producer_epoch=3, timestamp_ms=7, base_offset=6)
    buffer = plain.close() + numbered.close() + ended
    assert read_producer_batches(buffer, scan(buffer)) == [
        ProducerBatch(9, 2, LAST_SEQUENCE, 0, 4, 5, NOW_MS + 5, True),
        ProducerBatch(9, 3, -1, -1, 6, 6, 7, True, True, end),
    ]


@pytest.mark.parametrize(
    "batches",
    [
        [data(sequence=1, offset=1)],
        [data(sequence=1, offset=1), data(sequence=2, offset=2, count=3)],
        [data(sequence=7, offset=1)],
        [data(sequence=1, offset=1), data(producer_id=2, offset=2)],
        [data(sequence=1, offset=1, transactional=True)],
        [data(epoch=1, sequence=0, offset=1)],
        [data(sequence=1, offset=1), marker(offset=2)],
        [],
    ],
)
def test_what_simply_goes_on_is_booked_for_a_follower_as_step_by_step(batches):
    state = ProducerState(start_offset=0)
    append(state, data(), origin=REPLICATION)
    assert state.check_append(batches, REPLICATION) == state._accept(batches, REPLICATION, None, None)


@given(
    batches=st.lists(
        st.tuples(
            st.sampled_from([1, 1, 1, 3, 3, -1, 2]),  # nobody knows 2, and -1 is no producer
            st.sampled_from([0, 0, 0, 0, 0, 1]),
            st.sampled_from([0, 0, 0, 0, 0, 5]),
            st.integers(1, 4),
            st.sampled_from([False, False, False, False, True]),
        ),
        min_size=1,
        max_size=9,
    ),
    first=st.sampled_from([0, LAST_SEQUENCE - 3]),
    is_open=st.booleans(),
)
def test_placed_batches_lead_to_the_entries_that_every_step_leads_to(batches, first, is_open):
    together, apart = ProducerState(verification_required=False), ProducerState(verification_required=False)
    for state in (together, apart):
        append(state, data(sequence=first, transactional=is_open))
        append(state, data(producer_id=3, offset=1))
        append(state, data(producer_id=4, offset=2))
    sequences, offset, steps, placed = {1: first + 1, 2: 0, 3: 1}, 3, [], []
    for producer_id, epoch, gap, count, is_other in batches:
        step = data(
            producer_id,
            epoch,
            (sequences.get(producer_id, 0) + gap) % 2**31,
            offset,
            count,
            transactional=(is_open and producer_id == 1) is not is_other,
            timestamp_ms=NOW_MS + offset,
        )
        steps.append(step)
        placed.append(
            PlacedBatch(
                step.first_offset,
                step.last_offset,
                100,
                step.timestamp_ms,
                producer_id,
                epoch,
                step.first_sequence,
                step.last_sequence,
                step.is_transactional,
            )
        )
        sequences[producer_id], offset = step.last_sequence + 1, offset + count
    after = together.entries_after(placed)
    each_goes_on = True
    for step in steps:
        if step.producer_id == -1:
            continue
        accepted = apart.check_run([step])
        if accepted is None:
            each_goes_on = False
            break
        apart.update(accepted)
    assert (after is not None) == each_goes_on
    if after is not None:
        together.went_on(after)
        assert list(together.entries.items()) == list(apart.entries.items())
