"""What a broker does by itself, through the jobs as they run: retention in slices, flushes, forgetting producers."""

import asyncio
import time

import confluent_kafka
import pytest
from tests.patience import HANG_S

from ottla.broker.housekeeping.jobs import SLICE_MS, run_in_slices, start_jobs
from ottla.testing.broker import KafkaBroker
from ottla.testing.clock import ManualClock


def test_a_producer_that_was_silent_too_long_is_forgotten() -> None:
    settings = {"producer.id.expiration.ms": 50, "producer.id.expiration.check.interval.ms": 20}
    with KafkaBroker(settings) as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        producer.produce("t", b"x")
        assert producer.flush(HANG_S) == 0

        def known() -> int:
            return broker.call(lambda server: sum(len(p.log.producers.entries) for p in server.broker.replicas))

        end_s = time.monotonic() + HANG_S
        while known() and time.monotonic() < end_s:
            time.sleep(0.02)
        assert known() == 0


# --- through the jobs, on a clock that moves when told ---------------------------------------------------------------


@pytest.fixture
def with_jobs(make_broker):
    """A broker in memory and its jobs; `pass_time` lets them run."""
    ends = []

    def make(**settings):
        broker = make_broker(**settings)
        failed = []
        ends.append(
            (broker, broker.do(lambda: start_jobs(broker.broker, broker.logs, broker.clock, None, failed.append)))
        )
        return broker

    yield make
    for broker, end in ends:
        broker.loop.run_until_complete(end())


def pass_time(broker, duration_ms):
    broker.loop.run_until_complete(broker.clock.advance(duration_ms))
    broker.do(lambda: None)


def test_a_topic_is_synced_after_flush_ms_and_not_before(with_jobs, batch):
    broker = with_jobs(**{"ottla.durability": "replicated"})
    broker.create_topic("t", flush_ms="5000")
    broker.create_topic("other")
    pass_time(broker, 100)
    for topic in ("t", "other"):
        assert broker.produce(topic, batch("a", "b")).error_code == 0
    log, other = broker.partition("t").log, broker.partition("other").log
    pass_time(broker, 3_000)
    assert log.flushed_offset == 0
    pass_time(broker, 3_000)
    assert log.flushed_offset == 2
    pass_time(broker, 60_000)
    assert other.flushed_offset == 0, "nobody asked for it"


@pytest.mark.parametrize("acks", [1, -1])
def test_a_topic_is_synced_when_flush_messages_have_come_before_they_are_acknowledged(make_broker, batch, acks):
    broker = make_broker(**{"ottla.durability": "replicated"})
    broker.create_topic("t", flush_messages="3")
    log = broker.partition("t").log
    assert broker.produce("t", batch("a", "b"), acks=acks).error_code == 0
    assert log.flushed_offset == 0
    synced = []
    broker.files.fail(lambda each: each.kind == "sync" and synced.append(each.path))  # watches, and never says yes
    assert broker.produce("t", batch("c"), acks=acks).error_code == 0
    assert log.flushed_offset == 3
    assert log.active.records.path in synced


def test_flush_messages_that_change_act_at_once(make_broker, batch):
    broker = make_broker(**{"ottla.durability": "replicated"})
    broker.create_topic("t")
    broker.produce("t", batch("a"))
    partition = broker.partition("t")
    assert not partition.needs_flush
    broker.do(lambda: partition.update_settings(type(partition.log.settings)({"flush.messages": "1"})))
    assert partition.needs_flush


def test_retention_deletes_what_is_due_through_its_job(with_jobs, batch):
    broker = with_jobs(**{"log.retention.check.interval.ms": "1000"})
    for number in range(3):
        broker.create_topic(f"t{number}", retention_ms="2000")
        broker.produce(f"t{number}", batch("a", timestamp_ms=broker.clock.now_ms()))
    pass_time(broker, 1_500)
    assert all(broker.partition(f"t{number}").log.log_start_offset == 0 for number in range(3))
    pass_time(broker, 2_500)
    assert all(broker.partition(f"t{number}").log.log_start_offset == 1 for number in range(3))


def test_retention_of_many_logs_syncs_nothing_on_the_loop(with_jobs, batch):
    broker = with_jobs(**{"log.retention.check.interval.ms": "1000", "ottla.durability": "replicated"})
    broker.create_topic("t", partitions=20, retention_ms="0")
    for number in range(20):
        broker.produce("t", batch("a", timestamp_ms=1), partition=number)
    synced = []
    broker.files.fail(lambda each: each.kind.startswith("sync") and synced.append(each.path))
    pass_time(broker, 1_001)
    assert all(broker.partition("t", number).log.log_start_offset == 1 for number in range(20))
    assert not [path for path in synced if path.parent.name.startswith("t-") or path.name.startswith("t-")]


def test_long_work_gives_others_their_turns():
    async def test():
        clock = ManualClock()
        turns = 0

        async def others():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        def steps():
            for _ in range(100):
                clock.move(SLICE_MS / 2)  # a step takes that long
                yield

        task = asyncio.create_task(others())
        await run_in_slices(steps(), clock)
        task.cancel()
        return turns

    assert asyncio.run(test()) >= 50


def test_work_that_is_done_at_once_is_not_cut_up():
    async def test():
        turns = []
        asyncio.get_running_loop().call_soon(turns.append, "another")
        await run_in_slices(iter(range(1000)), ManualClock())
        return list(turns)

    assert asyncio.run(test()) == []
