"""A leader that started again from a snapshot refuses what is in its log; nothing is written a second time.

The first record is acknowledged, so the leader knows the producer. Those after it travel one per request, and the
connection ends before the answers: some of them are in the log then. The leader that is asked next remembers the newest
one only.
"""

import importlib.util
import sys
from pathlib import Path

import pytest

from ottla.client.producer.sending.sequences import SEQUENCE_COUNT, Sequences
from ottla.client.producer.transactions.states import ProducerIdentity
from ottla.values import TopicPartition

_spec = importlib.util.spec_from_file_location("producing", Path(__file__).parents[1] / "producing.py")
producing = importlib.util.module_from_spec(_spec)
sys.modules["producing"] = producing
_spec.loader.exec_module(producing)

WHO = ProducerIdentity(7, 0)
WHERE = TopicPartition("t", 0)
NO_OFFSET = -1


class Story:
    """One partition; record n is b"n" and a batch of its own."""

    def __init__(self, **options):
        self.world = producing.World(partitions=1, batch_bytes=100, linger_ms=0, delivery_limit_ms=10**6, **options)
        self.world.turn()
        self.log = self.world.logs[0]
        self.futures = []
        self.send()
        self.world.turn()
        self.world.answer()

    def send(self, count=1):
        for _ in range(count):
            self.futures.append(self.world.send(b"%02d" % len(self.futures) + b"x" * 60))

    def lose_answers(self, written, lost):
        """`written` batches arrive, `lost` more do not, and no answer comes back."""
        self.send(written + lost)
        self.world.turn()
        assert len(self.world.network.requests[1]) == written + lost
        for number in range(written + lost):
            self.world.answer(bend="hang up after" if number < written else "hang up before")

    def step(self):
        """One turn, and the answers to it; what was asked: the sequences."""
        self.world.now_ms += 2000
        self.world.turn()
        asked = [send.batches[0].stamp.base_sequence for send in self.world.sent()]
        while self.world.network.requests[1]:
            self.world.answer()
        return asked

    def finish(self):
        asked = []
        for _ in range(60):
            asked += self.step()
            if all(future.done() for future in self.futures):
                return asked
        raise AssertionError(f"not all are delivered: {self.futures}")

    def check(self):
        """Every record is in the log once, in order, and where its future says, if it says."""
        assert [int(value[:2]) for value in self.log.values] == list(range(len(self.futures)))
        assert [future.exception(0) for future in self.futures] == [None] * len(self.futures)
        offsets = [future.result(0).offset for future in self.futures]
        assert all(offset in (number, NO_OFFSET) for number, offset in enumerate(offsets)), offsets
        return offsets


@pytest.fixture
def story():
    return Story()


def test_the_older_of_two_batches_is_not_written_again(story):
    story.lose_answers(written=2, lost=0)
    story.log.restart()
    assert story.finish() == [1, 2, 1], "the newest shows that the oldest is there, too"
    assert story.check() == [0, NO_OFFSET, 2]


@pytest.mark.parametrize(("written", "lost"), [(w, n - w) for n in range(1, 6) for w in range(n + 1)])
def test_whatever_was_written_before_the_answers_were_lost_is_there_once(story, written, lost):
    story.lose_answers(written, lost)
    story.log.restart()
    story.finish()
    story.send(3)
    story.finish()
    story.check()
    assert story.world.manager.identity.epoch == 0, "there was no gap"


def test_a_leader_that_forgets_between_the_questions_does_not_confuse(story):
    story.lose_answers(written=4, lost=1)
    story.send(2)
    for _ in range(40):
        story.log.restart()
        story.step()
    story.check()


def test_another_leader_is_asked_about_the_oldest_batch_first(story):
    story.lose_answers(written=2, lost=0)
    remembered = dict(story.log.batches)
    story.log.restart()
    assert story.step() == [1]
    assert story.world.manager.probe(WHERE).base_sequence == 2
    story.log.batches = remembered
    story.world.metadata.version += 1
    assert story.finish() == [1, 2]
    assert story.check() == [0, 1, 2]


def test_a_probe_whose_answer_is_lost_too_is_no_proof(story):
    story.lose_answers(written=2, lost=0)
    story.log.restart()
    assert story.step() == [1]
    story.world.now_ms += 2000
    story.world.turn()
    story.world.answer(bend="hang up after")
    assert story.finish() == [1, 2, 1]
    story.check()


def test_records_lost_by_an_unclean_election_are_a_gap_and_come_again(story):
    story.send(2)
    story.finish()
    story.lose_answers(written=2, lost=0)
    story.log.truncate(2)  # an acknowledged one is gone, and the two behind it
    story.log.restart()
    assert story.finish() == [3, 4, 3, 0, 1], "both were refused; then they are numbered again"
    assert [int(value[:2]) for value in story.log.values] == [0, 1, 3, 4]
    assert story.world.manager.identity.epoch == 1


def test_a_batch_that_cannot_be_written_is_not_asked_about():
    sequences = Sequences()
    numbers = sequences.of(WHERE)
    numbers.acknowledged(numbers.stamp(WHO, 1), 0)
    first, second = numbers.stamp(WHO, 1), numbers.stamp(WHO, 1)
    second.may_be_written = second.at_rest = True
    sequences.after_out_of_order(WHERE, first, transactional=False)
    assert numbers.probe is None, "its only attempt was refused, so nothing behind it was taken"


def test_a_batch_on_the_wire_is_waited_for():
    sequences = Sequences()
    numbers = sequences.of(WHERE)
    first, second = numbers.stamp(WHO, 1), numbers.stamp(WHO, 1)
    first.may_be_written = True
    assert sequences.after_out_of_order(WHERE, first, transactional=False).value == "as it is"
    assert numbers.probe is None
    second.at_rest = second.may_be_written = True
    assert sequences.after_out_of_order(WHERE, first, transactional=False).value == "as it is"
    assert numbers.probe is second


def test_numbers_that_begin_again_are_later():
    sequences = Sequences()
    numbers = sequences.of(WHERE)
    numbers.next_sequence = SEQUENCE_COUNT - 2
    first, second = numbers.stamp(WHO, 2), numbers.stamp(WHO, 2)
    for stamp in (first, second):
        stamp.may_be_written = stamp.at_rest = True
    sequences.after_out_of_order(WHERE, first, transactional=False)
    assert numbers.probe is second
    assert not numbers.is_written(first)
    numbers.acknowledged(second, 0)
    assert numbers.is_written(first)
