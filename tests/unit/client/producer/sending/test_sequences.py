"""Sequence numbers never run away from a batch whose answer is not there."""

from __future__ import annotations

from ottla.client.producer.sending.sequences import REMEMBERED_BATCHES, Sequences
from ottla.client.producer.transactions.states import ProducerIdentity
from ottla.values import TopicPartition

WHO = ProducerIdentity(7, 0)
WHERE = TopicPartition("t", 0)


def test_a_broker_still_knows_the_oldest_batch_when_it_comes_again():
    sequences = Sequences()
    numbers = sequences.of(WHERE)
    oldest = numbers.stamp(WHO, 10)
    for _ in range(REMEMBERED_BATCHES - 1):
        assert sequences.may_drain(WHERE, None, WHO)
        numbers.acknowledged(numbers.stamp(WHO, 10), -1)
    assert not sequences.may_drain(WHERE, None, WHO), "one more and the broker forgets the first"
    assert sequences.may_drain(WHERE, oldest, WHO), "the first itself may always go again"
    numbers.acknowledged(oldest, 0)
    assert sequences.may_drain(WHERE, None, WHO)


def test_the_parts_of_a_split_batch_stand_where_it_stood():
    sequences = Sequences()
    numbers = sequences.of(WHERE)
    first = numbers.stamp(WHO, 10)
    for _ in range(REMEMBERED_BATCHES - 1):
        numbers.stamp(WHO, 1)
    parts = numbers.split(first, [5, 5])
    numbers.acknowledged(parts[0], 0)
    assert not sequences.may_drain(WHERE, None, WHO)
    numbers.acknowledged(parts[1], 5)
    assert sequences.may_drain(WHERE, None, WHO)
