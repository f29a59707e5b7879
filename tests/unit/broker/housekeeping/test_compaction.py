"""log.cleaner.threads: so many logs are compacted at a time, each by one cleaner."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.housekeeping.compaction import Cleaning
from ottla.records import BatchBuilder

TOPICS = ("a", "b", "c")
RECORDS = 40


@pytest.fixture
def compacted(make_broker):
    def make(threads):
        broker = make_broker(
            **{
                "log.cleaner.threads": str(threads),
                "log.cleaner.io.buffer.size": "2048",
                "log.cleaner.backoff.ms": "1000",
                "log.cleaner.dedupe.buffer.size": "2000000",
            }
        )
        for topic in TOPICS:
            broker.create_topic(topic, cleanup_policy="compact", segment_bytes="1048576")
            for _ in range(RECORDS):
                builder = BatchBuilder()
                builder.append(broker.clock.now_ms(), b"key", b"x" * 500)
                broker.produce(topic, builder.close())
            partition = broker.partition(topic)
            partition.log.roll(broker.clock.now_ms())
            broker.do(lambda partition=partition: broker.broker.progress.flush(partition))
        return broker

    return make


def watched(broker):
    """How many logs were being compacted in every turn, until all are compact."""
    counts = []

    async def story():
        cleaning = Cleaning(broker.broker, broker.logs, broker.clock, None)
        working = asyncio.ensure_future(cleaning.work(0))
        for _ in range(600):
            await asyncio.sleep(0)
            names = [each.current for each in cleaning._cleaners.values() if each.current is not None]
            assert len(names) == len(set(names)), "two cleaners have the same log"
            counts.append(len(names))
            if counts[-1] == 0 and all(_is_clean(broker, topic) for topic in TOPICS):
                break
            await broker.clock.advance(10)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await cleaning.end_others()

    broker.loop.run_until_complete(story())
    return counts


def _is_clean(broker, topic):
    log = broker.partition(topic).log
    return len(log.segments) and log.size_bytes < RECORDS * 500 / 4


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_so_many_logs_are_compacted_at_a_time(compacted, threads):
    broker = compacted(threads)
    counts = watched(broker)
    assert max(counts) == threads
    assert all(_is_clean(broker, topic) for topic in TOPICS)


def test_no_thread_compacts_nothing(compacted):
    broker = compacted(0)
    assert max(watched(broker)) == 0
    assert not any(_is_clean(broker, topic) for topic in TOPICS)
