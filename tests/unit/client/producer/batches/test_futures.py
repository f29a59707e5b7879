"""One future for a list of records, and failures that nobody has heard of."""

import asyncio

import pytest

from ottla.client.producer.batches.append_choice import ProducerBatch
from ottla.client.producer.batches.futures import ManyFuture
from ottla.client.producer.sending.failures import Failures
from ottla.client.producer.values import FAILED_RECORDS_LIMIT, SendFailed
from ottla.errors import CorruptMessage, MessageTooLarge
from ottla.values import TopicPartition


class Queue:
    name = TopicPartition("t", 0)


def batch_of(*values):
    batch = ProducerBatch(Queue, "t", 0, bytearray(60_000), 60_000, limit_bytes=60_000, created_ms=0)
    for value in values:
        assert batch.append(1, b"k", value, [("h", b"1")])
    batch.stop()
    return batch


def test_a_list_is_done_when_its_last_batch_is():
    first, second = batch_of(b"a", b"b"), batch_of(b"c")
    many = ManyFuture([(first.delivery, 0, 2), (second.delivery, 0, 1)], 99)
    assert not many.done()
    first.delivery.succeed(10)
    with pytest.raises(TimeoutError):
        many.result(0)
    second.delivery.succeed(3)
    found = many.result(0)
    assert [each.offset for each in found] == [10, 11, 3]
    assert (found[-1].offset, found[0].timestamp_ms, len(found)) == (3, 99, 3)
    assert [each.offset for each in found[1:]] == [11, 3]
    with pytest.raises(IndexError):
        found[3]
    assert many.exception(0) is None


def test_a_list_with_a_failure_raises_and_says_how_many():
    first, second = batch_of(b"a", b"b"), batch_of(b"c")
    many = ManyFuture([(first.delivery, 0, 2), (second.delivery, 0, 1)], 0)
    first.delivery.fail(CorruptMessage("x"))
    second.delivery.succeed(0)
    with pytest.raises(SendFailed, match="2 failed"):
        many.result(0)
    assert first.delivery.told == {0, 1}


def test_a_list_follows_its_batches_when_they_are_split():
    whole, left, right = batch_of(b"a", b"b"), batch_of(b"a"), batch_of(b"b")
    many = ManyFuture([(whole.delivery, 0, 2)], 0)
    whole.delivery.split([(0, left.delivery), (1, right.delivery)])
    right.delivery.succeed(7)
    assert not many.done()
    left.delivery.succeed(6)
    assert [each.offset for each in many.result(0)] == [6, 7]


def test_a_list_can_be_awaited():
    batch = batch_of(b"a")
    many = ManyFuture([(batch.delivery, 0, 1)], 0)

    async def scenario():
        asyncio.get_running_loop().call_soon(batch.delivery.succeed, 4)
        return (await many)[0].offset

    assert asyncio.run(scenario()) == 4


def test_failures_are_told_once_with_their_records():
    failures = Failures()
    batch = batch_of(b"a", b"b", b"c")
    failures.add(batch, CorruptMessage("all"), {1: MessageTooLarge("that one")})
    batch.delivery.fail(CorruptMessage("all"), {1: MessageTooLarge("that one")})
    batch.delivery.tell(0)
    failed = failures.take()
    assert failed.count == 2
    assert [(each.value, type(each.error)) for each in failed.records] == [
        (b"b", MessageTooLarge),
        (b"c", CorruptMessage),
    ]
    assert failed.records[0].headers == (("h", b"1"),)
    assert failures.take() is None


def test_of_many_failures_the_first_are_kept_and_all_are_counted():
    failures = Failures()
    for _ in range(3):
        batch = batch_of(*[b"x"] * 80)
        failures.add(batch, CorruptMessage(), {})
        batch.delivery.fail(CorruptMessage())
    failed = failures.take()
    assert failed.count == 240
    assert len(failed.records) == FAILED_RECORDS_LIMIT
