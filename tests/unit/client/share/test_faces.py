"""A whole share consumer on a network in memory and a clock that a test moves, against brokers that check it."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.unit.client.fake_cluster import Door, FakeCluster, run
from tests.unit.client.share.model_broker import ACQUIRED, DONE, ModelBroker, ModelPartition, batch

from ottla.client.consumer.record_errors import CorruptRecord, DeserializationFailed
from ottla.client.loop import ClientClosed
from ottla.client.share.async_share_consumer import AsyncShareConsumer
from ottla.client.share.in_flight import NotHeld, UnacknowledgedRecords
from ottla.errors import GroupAuthorizationFailed, RequestTimedOut, ShareSessionNotFound
from ottla.net.framing import frame_prefix
from ottla.protocol.header import decode_request, encode_response
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.share_fetch import ShareFetchRequest
from ottla.protocol.messages.share_group_heartbeat import Assignment, ShareGroupHeartbeatResponse, TopicPartitions
from ottla.values import TopicPartition

ID = b"a" * 16
A = TopicPartition("a", 0)
LOCK_MS = 60_000
HOUR_MS = 3_600_000


class WaitingDoor(Door):
    """A fetch that finds nothing is answered when its time is over, as brokers do."""

    def frame_received(self, frame):
        header, request = decode_request(frame)
        if not isinstance(request, ShareFetchRequest):
            super().frame_received(frame)
            return
        self.broker.requests.append(request)
        response = self.broker.answer(request)
        has_news = response.error_code or any(each.partitions for each in response.responses)
        wait_ms = 0.0 if has_news else float(request.max_wait_ms)
        task = asyncio.ensure_future(self._answer_later(header, response, wait_ms))
        self.broker.tasks.append(task)

    async def _answer_later(self, header, response, wait_ms):
        if wait_ms:
            await self.broker.cluster.clock.sleep(wait_ms)
        if self.link is not None:
            version, correlation_id = header.request_api_version, header.correlation_id
            parts = encode_response(response, version=version, correlation_id=correlation_id)
            self.link.write([frame_prefix(parts), *parts])


class ShareCluster:
    """Broker 1 coordinates the group and has the partition."""

    def __init__(self, cluster: FakeCluster, length: int = 4) -> None:
        self.cluster = cluster
        self.clock = cluster.clock
        self.partition = ModelPartition(length, cluster.clock, LOCK_MS)
        self.model = ModelBroker({(ID, 0): self.partition}, LOCK_MS)
        self.broker = cluster.brokers[1]
        self.heartbeat_error = 0
        self.broker.tasks = []
        self.broker._door = self._door
        self.broker.answers |= {
            "Metadata": self._metadata,
            "FindCoordinator": lambda request: FindCoordinatorResponse(
                coordinators=[Coordinator(key="g", node_id=1, host="b1", port=9092, error_code=0)]
            ),
            "ShareGroupHeartbeat": self._heartbeat,
            "ShareFetch": self.model.answer,
            "ShareAcknowledge": self.model.answer,
        }

    def _door(self):
        self.broker.doors.append(WaitingDoor(self.broker))
        return self.broker.doors[-1]

    def _metadata(self, request):
        partition = MetadataResponsePartition(
            error_code=0, partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
        )
        topic = MetadataResponseTopic(error_code=0, name="a", topic_id=ID, partitions=[partition])
        brokers = [MetadataResponseBroker(node_id=1, host="b1", port=9092)]
        return MetadataResponse(brokers=brokers, cluster_id="fake", controller_id=1, topics=[topic])

    def _heartbeat(self, request):
        assigned = Assignment(topic_partitions=[TopicPartitions(topic_id=ID, partitions=[0])])
        return ShareGroupHeartbeatResponse(
            error_code=self.heartbeat_error, member_epoch=1, heartbeat_interval_ms=120_000, assignment=assigned
        )

    def consumer(self, **settings):
        return AsyncShareConsumer(
            "a",
            bootstrap_servers="b1:9092",
            group_id="g",
            transport=self.cluster.network,
            clock=self.clock,
            random=random.Random(3),
            **settings,
        )

    async def wait_for(self, awaitable, step_ms=50.0):
        """What an awaitable gives while time passes."""
        task = asyncio.ensure_future(awaitable)
        for _ in range(5000):
            if task.done():
                break
            await self.clock.advance(step_ms)
        assert task.done(), "it waits longer than it should"
        return task.result()


def scenario_of(scenario, length=4):
    async def whole(cluster: FakeCluster) -> None:
        world = ShareCluster(cluster, length)
        # It listens already, with doors that do not wait.
        cluster.brokers[1].listener.close()
        await cluster.brokers[1].open()
        try:
            await scenario(world)
        finally:
            for task in world.broker.tasks:
                task.cancel()
            await asyncio.gather(*world.broker.tasks, return_exceptions=True)

    run(whole)


def test_a_handler_may_run_for_hours_because_its_lock_is_renewed():
    async def scenario(world):
        consumer = world.consumer()

        async def handle(record):
            await world.clock.sleep(2 * HOUR_MS)

        done = asyncio.ensure_future(consumer.work(handle, workers=4, max_records=4))
        while not done.done():
            await world.clock.advance(LOCK_MS / 3)
        assert done.result() == 4
        assert await world.wait_for(consumer.commit()) in ({}, {A: None})
        assert world.partition.states == [DONE] * 4
        assert world.partition.deliveries == [1] * 4
        assert world.clock.monotonic_ms() >= 2 * HOUR_MS
        await world.wait_for(consumer.close())

    scenario_of(scenario)


def test_a_lock_is_not_renewed_for_longer_than_the_setting_says():
    async def scenario(world):
        consumer = world.consumer(share_renew_max_ms=LOCK_MS, share_acknowledgement_mode="explicit")
        records = await world.wait_for(consumer.poll(10))
        record = records[0].__enter__()
        for _ in range(6):
            await world.clock.advance(LOCK_MS / 4)
        assert world.partition.states[0] == ACQUIRED
        for _ in range(8):
            await world.clock.advance(LOCK_MS / 4)
        again = await world.wait_for(consumer.poll(10))
        assert record.offset in [each.offset for each in again]
        with pytest.raises(NotHeld):
            record.accept()
        await world.wait_for(consumer.close())

    scenario_of(scenario)


def test_what_is_acknowledged_goes_before_the_lock_runs_out_though_nobody_polls():
    async def scenario(world):
        consumer = world.consumer(share_acknowledgement_mode="explicit")
        for record in await world.wait_for(consumer.poll(10)):
            record.accept()
        assert world.partition.states == [ACQUIRED] * 4
        for _ in range(5):
            await world.clock.advance(LOCK_MS / 8)
        assert world.partition.states == [DONE] * 4
        await world.wait_for(consumer.close())

    scenario_of(scenario)


def test_a_lost_connection_is_told_and_the_records_come_again():
    async def scenario(world):
        consumer = world.consumer(share_acknowledgement_mode="explicit")
        heard = []
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: heard.append((offsets, type(error))))
        records = await world.wait_for(consumer.poll(10))
        world.model.drop_session()
        for record in records:
            record.accept()
        (error,) = (await world.wait_for(consumer.commit())).values()
        assert isinstance(error, ShareSessionNotFound)
        assert heard == [({A: frozenset(range(4))}, ShareSessionNotFound)]
        again = await world.wait_for(consumer.poll(10))
        assert [each.delivery_count for each in again] == [2] * 4
        for record in again:
            record.accept()
        assert await world.wait_for(consumer.commit()) == {A: None}
        await world.wait_for(consumer.close())
        assert world.partition.states == [DONE] * 4

    scenario_of(scenario)


def test_closing_sends_what_was_acknowledged_and_releases_the_rest():
    async def scenario(world):
        consumer = world.consumer(share_acknowledgement_mode="explicit")
        first, *_ = await world.wait_for(consumer.poll(10))
        first.accept()
        with pytest.raises(UnacknowledgedRecords):
            await consumer.poll(0)
        await world.wait_for(consumer.close())
        assert world.partition.states == [DONE, "available", "available", "available"]
        assert world.broker.requests[-1].member_epoch == -1
        with pytest.raises(ClientClosed):
            first.accept()

    scenario_of(scenario)


def test_a_commit_that_gets_no_answer_says_so_for_its_partitions():
    async def scenario(world):
        consumer = world.consumer(share_acknowledgement_mode="explicit")
        for record in await world.wait_for(consumer.poll(10)):
            record.reject()
        world.broker.answers["ShareAcknowledge"] = lambda request: None
        (error,) = (await world.wait_for(consumer.commit(timeout=2))).values()
        assert isinstance(error, RequestTimedOut)
        await world.wait_for(consumer.close(1))

    scenario_of(scenario)


def test_what_the_group_refuses_is_raised_by_the_next_poll():
    async def scenario(world):
        world.heartbeat_error = GroupAuthorizationFailed.code
        consumer = world.consumer()
        with pytest.raises(GroupAuthorizationFailed):
            await world.wait_for(consumer.poll(10))
        await world.wait_for(consumer.close())

    scenario_of(scenario)


def test_offsets_without_a_record_are_gaps_and_nobody_sees_them():
    async def scenario(world):
        whole = batch(1) + batch(2, 2)
        world.model.content = lambda partition: whole
        consumer = world.consumer(share_acknowledgement_mode="explicit")
        records = await world.wait_for(consumer.poll(10))
        assert [each.offset for each in records] == [0, 2, 3]
        for record in records:
            record.accept()
        await world.wait_for(consumer.commit())
        assert world.partition.states == [DONE] * 4
        await world.wait_for(consumer.close())

    scenario_of(scenario)


def test_a_batch_that_was_cut_off_is_released():
    async def scenario(world):
        whole = batch(2) + batch(2, 2)[:-5]
        world.model.content = lambda partition: whole
        consumer = world.consumer(share_acknowledgement_mode="explicit")
        records = await world.wait_for(consumer.poll(10))
        assert [each.offset for each in records] == [0, 1]
        for record in records:
            record.accept()
        await world.wait_for(consumer.commit())
        assert world.partition.states == [DONE, DONE, "available", "available"]
        await world.wait_for(consumer.close())

    scenario_of(scenario)


def test_damaged_bytes_are_released_and_raised_after_what_stands_before():
    async def scenario(world):
        broken = bytearray(batch(2, 2))
        broken[-1] ^= 1
        whole = batch(2) + bytes(broken)
        world.model.content = lambda partition: whole
        consumer = world.consumer(share_acknowledgement_mode="explicit")
        records = await world.wait_for(consumer.poll(10))
        assert [each.offset for each in records] == [0, 1]
        for record in records:
            record.accept()
        with pytest.raises(CorruptRecord, match="offset 2"):
            await world.wait_for(consumer.poll(10))
        await world.wait_for(consumer.commit())
        assert world.partition.states == [DONE, DONE, "available", "available"]
        await world.wait_for(consumer.close())

    scenario_of(scenario)


def test_what_cannot_be_deserialized_is_released_and_each_is_raised():
    def even(topic, data):
        if int(data) % 2:
            raise ValueError("odd")
        return int(data)

    async def scenario(world):
        consumer = world.consumer(value_deserializer=even)
        records = await world.wait_for(consumer.poll(10))
        assert [each.value for each in records] == [0, 2]
        for offset in (1, 3):
            with pytest.raises(DeserializationFailed) as raised:
                await world.wait_for(consumer.poll(10))
            assert raised.value.offset == offset
        await world.wait_for(consumer.commit())
        assert world.partition.states == [DONE, "available", DONE, "available"]
        await world.wait_for(consumer.close())

    scenario_of(scenario)


def test_records_that_another_consumer_has_are_not_handed_out():
    async def scenario(world):
        world.partition.acquire(2)
        consumer = world.consumer()
        records = await world.wait_for(consumer.poll(10))
        assert [each.offset for each in records] == [2, 3]
        await world.wait_for(consumer.close())

    scenario_of(scenario)


def test_a_cancelled_worker_releases_its_record():
    async def scenario(world):
        consumer = world.consumer()
        begun = asyncio.Event()

        async def handle(record):
            begun.set()
            await world.clock.sleep(HOUR_MS)

        working = asyncio.ensure_future(consumer.work(handle))
        await world.wait_for(begun.wait())
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await world.wait_for(working)
        await world.wait_for(consumer.close())
        assert world.partition.states == ["available"] * 4

    scenario_of(scenario)


def test_polls_that_do_not_wait_find_records_in_the_end():
    async def scenario(world):
        consumer = world.consumer()
        found = []
        for _ in range(50):
            found += await consumer.poll(0)
            await world.clock.advance(10)
        assert [each.offset for each in found] == [0, 1, 2, 3]
        await world.wait_for(consumer.close())
        assert world.partition.states == [DONE] * 4

    scenario_of(scenario)
