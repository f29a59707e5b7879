"""AsyncConsumer against a real broker in this process: the same calls, awaited."""

from __future__ import annotations

import asyncio
import inspect

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.patience import HANG_S

from ottla.client.consumer.async_consumer import AsyncConsumer
from ottla.client.consumer.consumer import ConcurrentUse, Consumer, WokenUp
from ottla.client.loop import ClientClosed
from ottla.values import TopicPartition

WHILE_MS = 1_000  # without records; long enough that the first ones come in time on a busy machine


@pytest.fixture
def topic(kafka_broker, unique_topic):
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
    admin.create_topics([NewTopic(unique_topic, 2, 1)])[unique_topic].result(HANG_S)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for number in range(100):
        producer.produce(unique_topic, b"%d" % number, partition=number % 2)
    assert producer.flush(HANG_S) == 0
    return unique_topic


def consumer_of(broker, *topics, **settings):
    return AsyncConsumer(
        *topics, bootstrap_servers=broker.bootstrap_servers, **{"auto_offset_reset": "earliest", **settings}
    )


async def read(consumer, count):
    found = []
    async with asyncio.timeout(HANG_S):
        while len(found) < count:
            found += await consumer.poll(1)
    return found


def test_both_faces_have_the_same_calls():
    def calls(face):
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in inspect.getmembers(face, inspect.isfunction)
            if not name.startswith("_")
        }

    other = calls(AsyncConsumer)
    assert other.pop("start")
    assert other == calls(Consumer)


def test_records_are_polled_and_iterated(kafka_broker, topic):
    async def scenario():
        async with consumer_of(kafka_broker) as consumer:
            await consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
            assert sorted(int(record.value) for record in await read(consumer, 100)) == list(range(100))
            assert await consumer.poll(0.05) == []
            await consumer.seek_to_beginning()
            found = []
            async for record in consumer:
                found.append(record.offset)
                if len(found) == 10:
                    break
            name = TopicPartition(record.topic, record.partition)
            assert await consumer.position(name) == record.offset + 1
            consumer.seek(name, 48)
            assert (await consumer.end_offsets([name])) == {name: 50}
            await consumer.seek_to_end(name)
            assert await consumer.position(name) == 50

    asyncio.run(scenario())


def test_iterating_ends_after_a_while_without_records(kafka_broker, topic):
    async def scenario():
        async with consumer_of(kafka_broker, consumer_timeout_ms=WHILE_MS) as consumer:
            await consumer.assign([TopicPartition(topic, 1)])
            assert [record.offset async for record in consumer] == list(range(50))

    asyncio.run(scenario())


def test_a_poll_that_is_cancelled_loses_nothing(kafka_broker, topic):
    async def scenario():
        async with consumer_of(kafka_broker, max_poll_records=3) as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            found = []
            while len(found) < 50:
                polling = asyncio.ensure_future(consumer.poll(1))
                for _ in range(len(found) % 3):
                    await asyncio.sleep(0)
                polling.cancel()
                try:
                    found += await polling
                except asyncio.CancelledError:
                    found += await consumer.poll(1)
            assert [record.offset for record in found] == list(range(50))

    asyncio.run(scenario())


def test_other_tasks_have_their_turns_while_records_are_there(kafka_broker, topic):
    async def scenario():
        turns = 0

        async def count():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with consumer_of(kafka_broker, max_poll_records=1) as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            await consumer.poll(HANG_S)
            counting = asyncio.ensure_future(count())
            for _ in range(20):
                assert await consumer.poll(HANG_S)
            counting.cancel()
            assert turns >= 20

    asyncio.run(scenario())


def test_groups_listeners_and_commits_with_coroutines(kafka_broker, topic, unique_group):
    async def scenario():
        told = []

        class Listener:
            async def on_assigned(self, partitions):
                await asyncio.sleep(0)
                told.append(("assigned", len(partitions)))

            def on_revoked(self, partitions):
                told.append(("revoked", len(partitions)))

        async def committed(offsets, error):
            await asyncio.sleep(0)
            told.append(("committed", len(offsets), error))

        settings = {"group_id": unique_group, "enable_auto_commit": False}
        async with consumer_of(kafka_broker, **settings) as consumer:
            await consumer.subscribe([topic], listener=Listener())
            assert len(await read(consumer, 100)) == 100
            consumer.commit_async(callback=committed)
            while len(told) < 2:
                await consumer.poll(0.05)
            await consumer.commit()
            found = await consumer.committed()
            assert {each.offset for each in found.values()} == {50}
            assert consumer.group_metadata().generation_id >= 1
        assert told == [("assigned", 2), ("committed", 2, None), ("revoked", 2)]

    asyncio.run(scenario())


def test_topics_can_be_given_at_once_and_members_share(kafka_broker, topic, unique_group):
    async def scenario():
        settings = {"group_id": unique_group, "heartbeat_interval_ms": 50}
        async with (
            consumer_of(kafka_broker, topic, **settings) as one,
            consumer_of(kafka_broker, topic, **settings) as two,
        ):
            async with asyncio.timeout(HANG_S):
                while not len(one.assignment()) == len(two.assignment()) == 1:
                    await asyncio.gather(one.poll(0.05), two.poll(0.05))

    asyncio.run(scenario())


def test_tables_come_from_the_asyncio_face_too(kafka_broker, topic):
    async def scenario():
        async with consumer_of(kafka_broker) as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            table = await consumer.poll_arrow(5)
            assert table.column("value").to_pylist() == [b"%d" % number for number in range(0, 100, 2)]

    asyncio.run(scenario())


def test_a_poll_is_for_one_task_and_can_be_woken_up(kafka_broker, topic):
    async def scenario():
        async with consumer_of(kafka_broker, auto_offset_reset="latest") as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            waiting = asyncio.ensure_future(consumer.poll(HANG_S))
            await asyncio.sleep(0.05)
            with pytest.raises(ConcurrentUse):
                await consumer.poll(0)
            consumer.wakeup()
            with pytest.raises(WokenUp):
                await waiting
        await consumer.close()
        with pytest.raises(ClientClosed):
            await consumer.poll(0)

    asyncio.run(scenario())


class Slow:
    """A listener that takes a while, and longer than its polls."""

    def __init__(self):
        self.begun, self.ended = [], []

    async def on_assigned(self, partitions):
        await self._take_time("assigned")

    async def on_revoked(self, partitions):
        await self._take_time("revoked")

    async def _take_time(self, what):
        self.begun.append(what)
        await asyncio.sleep(0.1)
        self.ended.append(what)


async def poll_briefly(consumer):
    """A poll that is cancelled long before a slow listener is done."""
    try:
        await asyncio.wait_for(consumer.poll(1), 0.01)
    except TimeoutError:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_cancelling_a_poll_does_not_hold_up_a_rebalance(kafka_broker, topic, unique_group, protocol):
    async def scenario():
        settings = {"group_id": unique_group, "group_protocol": protocol}
        listener = Slow()
        async with (
            asyncio.timeout(HANG_S),
            consumer_of(kafka_broker, **settings) as one,
            consumer_of(kafka_broker, **settings) as two,
        ):
            await one.subscribe([topic], listener=listener)
            while listener.ended != ["assigned"]:
                await poll_briefly(one)
            await two.subscribe([topic])
            while not len(one.assignment()) == len(two.assignment()) == 1:
                await asyncio.gather(poll_briefly(one), two.poll(0.05))
            assert "revoked" in listener.ended
        assert listener.begun == listener.ended

    asyncio.run(scenario())


def test_a_listener_that_outlives_its_poll_is_awaited_by_the_end_and_its_error_is_told(
    kafka_broker, topic, unique_group
):
    async def scenario():
        class Failing(Slow):
            async def on_assigned(self, partitions):
                await super().on_assigned(partitions)
                raise LookupError("mine")

        listener = Failing()
        consumer = consumer_of(kafka_broker, group_id=unique_group)
        await consumer.subscribe([topic], listener=listener)
        while not listener.begun:
            await poll_briefly(consumer)
        with pytest.raises(LookupError, match="mine"):
            await consumer.close(HANG_S)
        assert listener.ended == ["assigned", "revoked"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


def test_closing_ends_a_poll_and_an_iteration_of_another_task(kafka_broker, topic):
    async def scenario():
        polled, iterated = (consumer_of(kafka_broker, auto_offset_reset="latest") for _ in range(2))
        for consumer in (polled, iterated):
            await consumer.assign([TopicPartition(topic, 0)])

        async def iterate():
            return [record async for record in iterated]

        polling, iterating = asyncio.ensure_future(polled.poll(HANG_S * 10)), asyncio.ensure_future(iterate())
        await asyncio.sleep(0.05)
        await polled.close()
        await iterated.close()
        async with asyncio.timeout(HANG_S):
            with pytest.raises(ClientClosed):
                await polling
            assert await iterating == []

    asyncio.run(scenario())


def test_another_loop_is_told_so(kafka_broker, topic, unique_group):
    async def scenario():
        consumer = await consumer_of(kafka_broker, topic, group_id=unique_group).start()

        async def elsewhere():
            for call in (consumer.poll, consumer.commit, consumer.close):
                with pytest.raises(RuntimeError, match="belongs to another event loop"):
                    await call()

        await asyncio.to_thread(asyncio.run, elsewhere())
        assert len(await read(consumer, 100)) == 100
        await consumer.close()

    asyncio.run(scenario())


def test_nothing_is_left_running_after_the_end(kafka_broker, topic, unique_group):
    async def scenario():
        async with consumer_of(kafka_broker, topic, group_id=unique_group) as consumer:
            await read(consumer, 100)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await consumer_of(kafka_broker).close()

    asyncio.run(scenario())
