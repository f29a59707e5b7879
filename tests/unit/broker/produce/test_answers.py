"""Requests of several partitions wait for all of them, together, as each would wait for itself."""

from __future__ import annotations

import struct

import pytest
from tests.unit.broker.produce.test_runs import VERSION, batch, deliver, produce, start

from ottla.errors import NotLeaderOrFollower, RequestTimedOut
from ottla.protocol.api import APIS
from ottla.protocol.header import decode_response


class HangingDisk:
    """A durable broker whose syncs do not end, and a connection with three requests of two partitions each."""

    def __init__(self, make_broker, monkeypatch, *, together):
        self.memory_broker = make_broker(**{"ottla.durability": "durable"})
        self.memory_broker.create_topic("orders", 2)
        self.broker = self.memory_broker.broker
        now_ms = self.memory_broker.clock.now_ms()
        deliver(self.memory_broker, [produce(batch(now_ms), partitions=(0, 1))], together=True)  # opens the logs
        monkeypatch.setattr(self.broker.progress._flusher, "mark", lambda partition: None)
        frames = [produce(batch(now_ms), partitions=(0, 1), number=number) for number in (1, 2, 3)]
        self.link = start(self.memory_broker, frames, together=together)

    def partition(self, index):
        return self.broker.replicas.get(("orders", index))

    def sync(self, index):
        partition = self.partition(index)
        job = partition.log.flush_job()
        job.run()
        partition.log.flushed(job, 0)
        self.memory_broker.do(lambda: self.broker.progress.flushed(partition))

    def outcomes(self):
        """The numbers of the requests that were answered, with error and base offset of each partition."""
        found, position, written = [], 0, bytes(self.link.written)
        while position < len(written):
            end = position + 4 + struct.unpack_from(">i", written, position)[0]
            number, answer = decode_response(APIS[0], VERSION, memoryview(written)[position + 4 : end])
            results = answer.responses[0].partition_responses
            found.append((number, *[(each.error_code, each.base_offset) for each in results]))
            position = end
        return found


@pytest.fixture(params=[True, False], ids=["together", "one by one"])
def disk(request, make_broker, monkeypatch):
    return HangingDisk(make_broker, monkeypatch, together=request.param)


def test_answers_leave_when_the_last_partition_is_committed(disk):
    assert disk.outcomes() == []
    disk.sync(0)
    assert disk.outcomes() == []
    disk.sync(1)
    assert disk.outcomes() == [(number, (0, number), (0, number)) for number in (1, 2, 3)]


def test_a_partition_whose_time_is_over_is_said_beside_one_that_is_committed(disk):
    disk.sync(1)
    disk.memory_broker.later(1_020)
    late = RequestTimedOut.code, -1
    assert disk.outcomes() == [(number, late, (0, number)) for number in (1, 2, 3)]


def test_a_partition_that_is_gone_is_said_beside_one_that_is_committed(disk):
    disk.sync(0)
    gone = disk.partition(1)
    disk.memory_broker.do(lambda: (gone.retire(), disk.broker.progress.forget(gone.name)))
    assert disk.outcomes() == [(number, (0, number), (NotLeaderOrFollower.code, -1)) for number in (1, 2, 3)]


def test_requests_and_failures_are_counted_when_they_are_answered(disk):
    times, topic = disk.broker.request_metrics.of(APIS[0], VERSION), disk.broker.topic_metrics.of("orders")
    before, failed = times.count, topic.failed_produces.value
    disk.sync(0)
    assert times.count == before
    disk.memory_broker.later(1_020)
    assert (times.count, topic.failed_produces.value) == (before + 3, failed + 3)


def test_a_broker_that_stops_answers_what_is_held_back(disk):
    disk.memory_broker.do(disk.broker.progress.close)
    assert [each[0] for each in disk.outcomes()] == [1, 2, 3]
