"""Producer state against a model that keeps the whole log in a list and answers by looking through it.

Appends that go on, repeat, leave gaps or change epochs, near the wrap-around of sequences too; markers of old and new
coordinators; a moving high watermark; snapshots; truncation and restarts followed by a replay.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.errors import InvalidProducerEpoch, InvalidTxnState, OutOfOrderSequenceNumber, TransactionCoordinatorFenced
from ottla.records.control import EndTransactionMarker
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.producers.check import Accepted, Duplicate
from ottla.storage.producers.entry import BatchMetadata, ProducerBatch, ProducerEntry
from ottla.storage.producers.snapshot import take_snapshot, truncate_and_reload
from ottla.storage.producers.state import ProducerState
from ottla.testing.files import MemoryFiles

CLIENT, COORDINATOR = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR
LAST_SEQUENCE = 2**31 - 1
DIRECTORY = Path("/log")


def data(producer_id=1, epoch=0, sequence=0, offset=0, count=1, *, transactional=False, timestamp_ms=0):
    last_sequence = -1 if sequence == -1 else (sequence + count - 1) % 2**31
    return ProducerBatch(
        producer_id, epoch, sequence, last_sequence, offset, offset + count - 1, timestamp_ms, transactional
    )


def marker(producer_id=1, epoch=0, offset=0, *, commit=True, coordinator_epoch=0, timestamp_ms=0):
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


class Model:
    """The whole log in a list, and every question answered by looking through it."""

    def __init__(self):
        self.log = []
        self.high_watermark = 0
        # Below it only the last batch of each producer is known: the state was loaded from a snapshot of it.
        self.horizon = 0

    @property
    def end(self):
        return self.log[-1].last_offset + 1 if self.log else 0

    def history(self, producer_id):
        return [batch for batch in self.log if batch.producer_id == producer_id]

    def epoch(self, producer_id):
        history = self.history(producer_id)
        return history[-1].epoch if history else None

    def known_batches(self, producer_id):
        epoch = self.epoch(producer_id)
        batches = [b for b in self.history(producer_id) if b.epoch == epoch and not b.is_control]
        older = [b for b in batches if b.last_offset < self.horizon]
        return (older[-1:] + batches[len(older) :])[-5:]

    def transaction_start(self, producer_id):
        start = None
        for batch in self.history(producer_id):
            if batch.is_control:
                start = None
            elif batch.is_transactional and start is None:
                start = batch.first_offset
        return start

    def verdict(self, batch):
        """What must come of a client's batch."""
        epoch, known = self.epoch(batch.producer_id), self.known_batches(batch.producer_id)
        if batch.epoch == epoch:
            for earlier in known:
                if (earlier.first_sequence, earlier.last_sequence) == (batch.first_sequence, batch.last_sequence):
                    return earlier.first_offset
        if epoch is not None and batch.epoch < epoch:
            return InvalidProducerEpoch
        if epoch is not None:
            is_continued = batch.epoch == epoch and known
            expected = (known[-1].last_sequence + 1) % 2**31 if is_continued else 0
            if batch.first_sequence != expected:
                return OutOfOrderSequenceNumber
        if self.transaction_start(batch.producer_id) is not None and not batch.is_transactional:
            return InvalidTxnState
        return None

    def coordinator_epoch(self, producer_id):
        epochs = [batch.marker.coordinator_epoch for batch in self.history(producer_id) if batch.is_control]
        return epochs[-1] if epochs else -1

    def marker_verdict(self, batch, *, is_strict):
        epoch, start = self.epoch(batch.producer_id), self.transaction_start(batch.producer_id)
        if epoch is not None and (batch.epoch < epoch or (is_strict and batch.epoch == epoch and start is not None)):
            return InvalidProducerEpoch
        if batch.marker.coordinator_epoch < self.coordinator_epoch(batch.producer_id):
            return TransactionCoordinatorFenced
        return None

    def last_stable_offset(self):
        open_since = [self.transaction_start(producer_id) for producer_id in {b.producer_id for b in self.log}]
        unstable = [start for start in open_since if start is not None]
        for producer_id in {batch.producer_id for batch in self.log}:
            start = None
            for batch in self.history(producer_id):
                if batch.is_control:
                    if start is not None and batch.first_offset >= self.high_watermark:
                        unstable.append(start)
                    start = None
                elif batch.is_transactional and start is None:
                    start = batch.first_offset
        return min([self.high_watermark, *unstable])

    def entry(self, producer_id):
        history = self.history(producer_id)
        batches = tuple(
            BatchMetadata(b.last_sequence, b.last_offset, b.last_offset - b.first_offset, b.timestamp_ms)
            for b in self.known_batches(producer_id)
        )
        return ProducerEntry(
            producer_id,
            history[-1].epoch,
            self.coordinator_epoch(producer_id),
            history[-1].timestamp_ms,
            self.transaction_start(producer_id),
            batches,
        )


producer_ids = st.integers(0, 2)
counts = st.sampled_from([1, 2, 7])


class ProducerMachine(RuleBasedStateMachine):
    @initialize(near_the_end=st.booleans())
    def start(self, near_the_end):
        self.files = MemoryFiles()
        self.files.make_directory(DIRECTORY)
        self.state = ProducerState(verification_required=False, id_expiration_ms=2**62)
        self.model = Model()
        self.first_sequence = LAST_SEQUENCE - 3 if near_the_end else 0
        self.time_ms = 0

    def submit(self, batch, verdict, **how):
        self.time_ms += 1
        batch = batch._replace(timestamp_ms=self.time_ms)
        if isinstance(verdict, type):
            with pytest.raises(verdict):
                self.state.check_append([batch], **how)
        elif verdict is not None:
            answer = self.state.check_append([batch], **how)
            assert isinstance(answer, Duplicate)
            assert answer.batch.first_offset == verdict
        else:
            assert isinstance(append(self.state, batch, **how), Accepted)
            self.model.log.append(batch)

    def produce(self, producer_id, epoch, sequence, count, transactional):
        batch = data(producer_id, epoch, sequence % 2**31, self.model.end, count, transactional=transactional)
        self.submit(batch, self.model.verdict(batch), origin=CLIENT)

    @rule(producer_id=producer_ids, count=counts, transactional=st.booleans(), gap=st.sampled_from([0] * 6 + [1, -1]))
    def go_on(self, producer_id, count, transactional, gap):
        known = self.model.known_batches(producer_id)
        sequence = known[-1].last_sequence + 1 if known else self.first_sequence
        if self.model.transaction_start(producer_id) is not None and gap == 0:
            transactional = True
        self.produce(producer_id, self.model.epoch(producer_id) or 0, sequence + gap, count, transactional)

    @precondition(lambda self: self.model.log)
    @rule(back=st.integers(1, 7), pick=st.randoms(use_true_random=False))
    def repeat(self, back, pick):
        producer_id = pick.choice(self.model.log).producer_id
        batches = [b for b in self.model.history(producer_id) if not b.is_control][-back:]
        if batches:
            count = batches[0].last_offset - batches[0].first_offset + 1
            again = data(producer_id, batches[0].epoch, batches[0].first_sequence, self.model.end, count)
            again = again._replace(is_transactional=batches[0].is_transactional)
            self.submit(again, self.model.verdict(again), origin=CLIENT)

    @rule(producer_id=producer_ids, step=st.integers(-1, 2), sequence=st.sampled_from([0, 0, 1]), count=counts)
    def change_epoch(self, producer_id, step, sequence, count):
        epoch = max(0, (self.model.epoch(producer_id) or 0) + step)
        transactional = self.model.transaction_start(producer_id) is not None
        self.produce(producer_id, epoch, sequence, count, transactional)

    @rule(
        producer_id=producer_ids,
        commit=st.booleans(),
        step=st.sampled_from([0, 0, 1, 1, -1]),
        coordinator_step=st.sampled_from([0, 0, 0, 1, -1]),
        version=st.sampled_from([0, 2]),
    )
    def end(self, producer_id, commit, step, coordinator_step, version):
        epoch = max(0, (self.model.epoch(producer_id) or 0) + step)
        coordinator_epoch = max(0, self.model.coordinator_epoch(producer_id) + coordinator_step)
        batch = marker(producer_id, epoch, self.model.end, commit=commit, coordinator_epoch=coordinator_epoch)
        verdict = self.model.marker_verdict(batch, is_strict=version == 2)
        self.submit(batch, verdict, origin=COORDINATOR, transaction_version=version)

    @rule(share=st.floats(0, 1))
    def replicate(self, share):
        behind = self.model.end - self.model.high_watermark
        self.model.high_watermark += int(behind * share)
        self.state.move_high_watermark(self.model.high_watermark)

    @rule()
    def snapshot(self):
        take_snapshot(self.state, self.files, DIRECTORY)

    @rule(share=st.floats(0, 1), restarts=st.booleans())
    def truncate(self, share, restarts):
        log = self.model.log
        del log[int(len(log) * share) :]
        end = self.model.end
        if restarts:
            self.state = ProducerState(start_offset=-1, verification_required=False, id_expiration_ms=2**62)
        is_reloaded = end != self.state.end_offset
        start = truncate_and_reload(
            self.state, self.files, DIRECTORY, log_start_offset=0, log_end_offset=end, now_ms=self.time_ms
        )
        if is_reloaded:
            self.replay([batch for batch in log if batch.first_offset >= start])
            self.model.horizon = start
        # Replayed markers count as not replicated until the log tells its high watermark, as in Kafka.
        self.model.high_watermark = min(self.model.high_watermark, end)
        self.state.move_high_watermark(self.model.high_watermark)

    def replay(self, batches):
        for position in range(0, len(batches), 3):
            portion = batches[position : position + 3]
            self.state.replay(portion, portion[-1].last_offset + 1)

    @invariant()
    def state_and_model_agree(self):
        if not hasattr(self, "model"):
            return
        ids = {batch.producer_id for batch in self.model.log}
        assert set(self.state.entries) == ids
        for producer_id in ids:
            assert self.state.entries[producer_id] == self.model.entry(producer_id)
        assert self.state.last_stable_offset(self.model.high_watermark) == self.model.last_stable_offset()
        assert self.state.end_offset == self.model.end


TestProducerMachine = ProducerMachine.TestCase
TestProducerMachine.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
