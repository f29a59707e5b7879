"""The whole producer over brokers in memory that hang up, fall silent, move leaders and lie; time moves when told.

Every record carries its topic and its number. Whatever the brokers do: a future that succeeded names the place, if any,
where exactly that record stands, nothing stands anywhere twice or in another topic, and the order of each topic is
kept.
"""

from __future__ import annotations

import asyncio
import importlib.util
import random
import sys
from pathlib import Path

import pytest

from ottla.client.producer.batches.append_choice import HotPath
from ottla.client.producer.core import ProducerCore
from ottla.client.producer.intake import record_of
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.values import DeliveryTimedOut
from ottla.errors import OttlaError, UnknownServerError
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)


def _load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


HERE = Path(__file__)
fake = _load("producer_fake_cluster", HERE.parents[1] / "fake_cluster.py")
producing = _load("producing", HERE.with_name("producing.py"))


NO_OFFSET = -1


class Face(HotPath):
    """A face that never waits: tests give it memory enough."""

    def _send_slowly(self, *record):
        raise AssertionError("the tests put records themselves")


class Writer:
    """One producer over the fake cluster, and the brokers' logs."""

    def __init__(self, cluster, topics=("t",), **settings):
        self.cluster = cluster
        self.logs = {topic: producing.Log() for topic in topics}
        for number, topic in enumerate(topics):
            cluster.topics[topic] = 1 + number % 2
        chosen = {"bootstrap_servers": "b1:9092", "linger_ms": 0, "batch_size": 200, **settings}
        loop = asyncio.get_running_loop()
        self.core = ProducerCore(
            ProducerSettings(**chosen),
            Face(),
            wake=loop.call_soon_threadsafe,
            transport=cluster.network,
            clock=cluster.clock,
            chance=random.Random(3),
        )
        for broker in cluster.brokers.values():
            broker.answers["InitProducerId"] = lambda request: InitProducerIdResponse(
                error_code=0, producer_id=5, producer_epoch=0
            )
            broker.answers["Produce"] = lambda request, id=broker.id: self.produce(id, request)
        self.bend = lambda node_id, topic: "ok"

    async def start(self):
        await self.core.start()
        for topic in self.logs:
            finding = asyncio.ensure_future(self.core.find_topic(topic, None, 10_000))
            while not finding.done():
                await self.cluster.clock.advance(10)
            await finding

    def send(self, topic, value):
        state = self.core.known_state(topic, None)
        prepared = self.core.prepare(record_of(topic, value, None, 0, None, None), state)
        while True:
            future = state.put(prepared.key, prepared.value, None, 1, 0, True)
            if future is not None:
                return future
            assert self.core.make_room(state, None, 0, prepared.needed_bytes, None) is None

    def produce(self, node_id, request):
        """The broker's half: what each topic gets to hear."""
        topics = []
        silent = False
        for topic in request.topic_data:
            name = topic.name or "t"
            for data in topic.partition_data:
                bend = self.bend(node_id, name)
                word = PartitionProduceResponse(index=data.index, error_code=0, base_offset=-1)
                if self.cluster.topics[name] != node_id:
                    word.error_code = 6
                elif bend == "refuse":
                    word.error_code = 19
                else:
                    word.error_code, word.base_offset = self.logs[name].append(bytes(data.records))
                    silent = silent or bend == "silent"
                    if bend == "start again":
                        self.logs[name].restart()
                    if bend in ("hang up", "start again"):
                        raise ConnectionResetError("a fault of the fake broker ends the connection")
                topics.append(TopicProduceResponse(name=name, partition_responses=[word]))
        return None if silent else ProduceResponse(responses=topics)

    async def finish(self, limit_ms=400_000):
        self.core.accumulator.change_flushing(1)
        self.core.loop.wake()
        for _ in range(int(limit_ms // 50)):
            await self.cluster.clock.advance(50)
            if not self.core.accumulator.incomplete:
                break
        assert not self.core.accumulator.incomplete, str(len(self.core.accumulator.incomplete))

    async def close(self):
        self.core.is_closed = True
        closing = asyncio.ensure_future(self.core.close(timeout_ms=1000))
        while not closing.done():
            await self.cluster.clock.advance(50)
        await closing

    def check(self, sent):
        """The truth about every record."""
        for topic, log in self.logs.items():
            assert len(set(log.values)) == len(log.values), "a record stands twice"
            assert log.values == sorted(log.values), "the order is broken"
            assert all(value.startswith(topic.encode() + b":") for value in log.values), "a record is in another topic"
        for topic, value, future in sent:
            assert future.done()
            if future.exception(0) is None:
                offset = future.result(0).offset
                found = self.logs[topic].values.index(value)  # raises when it is not there
                assert offset in (found, NO_OFFSET)


def run(scenario, **settings):
    async def whole(cluster):
        writer = Writer(cluster, **settings)
        await writer.start()
        await scenario(writer)
        await writer.close()

    fake.run(whole)


def test_records_are_delivered():
    async def scenario(writer):
        futures = [writer.send("t", b"t:%03d" % number) for number in range(100)]
        await writer.finish()
        assert [future.result(0).offset for future in futures] == list(range(100))

    run(scenario)


@pytest.mark.parametrize("seed", range(12))
def test_anything_may_happen_to_requests(seed, caplog):
    chance = random.Random(seed)
    kinds = ["ok", "ok", "ok", "refuse", "hang up", "silent"]

    async def scenario(writer):
        writer.bend = lambda node_id, topic: chance.choice(kinds)
        sent = []
        for number in range(300):
            topic = chance.choice(list(writer.logs))
            value = b"%s:%05d" % (topic.encode(), number) + b"x" * chance.randrange(60)
            sent.append((topic, value, writer.send(topic, value)))
            if number % 10 == 0:
                await writer.cluster.clock.advance(chance.choice([0, 1, 20, 500]))
            if number % 50 == 49:
                writer.cluster.topics["a"] = 3 - writer.cluster.topics["a"]
        writer.bend = lambda node_id, topic: "ok"
        await writer.finish()
        writer.check(sent)
        assert all(future.exception(0) is None for _, _, future in sent), "there was time enough"

    run(scenario, topics=("a", "b", "c"), request_timeout_ms=1000, delivery_timeout_ms=10**8)


@pytest.mark.parametrize("seed", range(12))
def test_with_little_time_futures_still_say_the_truth(seed):
    chance = random.Random(seed)
    kinds = ["ok", "refuse", "hang up", "silent"]

    async def scenario(writer):
        writer.bend = lambda node_id, topic: chance.choice(kinds)
        sent = []
        for number in range(200):
            topic = chance.choice(list(writer.logs))
            value = b"%s:%05d" % (topic.encode(), number)
            sent.append((topic, value, writer.send(topic, value)))
            if number % 5 == 0:
                await writer.cluster.clock.advance(chance.choice([0, 50, 400, 1500]))
        writer.bend = lambda node_id, topic: "ok"
        await writer.finish()
        writer.check(sent)
        for _, _, future in sent:
            error = future.exception(0)
            assert error is None or error.retriable, error
        assert any(isinstance(future.exception(0), DeliveryTimedOut) for _, _, future in sent) or seed

    run(scenario, topics=("a", "b"), request_timeout_ms=1000, delivery_timeout_ms=2000)


@pytest.mark.parametrize("seed", range(12))
def test_leaders_that_start_again_from_a_snapshot_get_nothing_twice(seed):
    chance = random.Random(seed)
    kinds = ["ok", "ok", "refuse", "hang up", "start again", "silent"]

    async def scenario(writer):
        sent = []
        for number in range(300):
            topic = chance.choice(list(writer.logs))
            value = b"%s:%05d" % (topic.encode(), number)
            sent.append((topic, value, writer.send(topic, value)))
            if number % 4 == 0:
                await writer.cluster.clock.advance(chance.choice([0, 1, 20, 500]))
            writer.bend = lambda node_id, topic: chance.choice(kinds)
        writer.bend = lambda node_id, topic: "ok"
        await writer.finish()
        writer.check(sent)
        assert all(future.exception(0) is None for _, _, future in sent), "there was time enough"
        assert writer.core.transactions.identity.epoch == 0, "nothing was ever missing"

    run(scenario, topics=("a", "b"), request_timeout_ms=1000, delivery_timeout_ms=10**8)


def test_a_new_leader_in_the_answer_is_followed_without_asking():
    async def scenario(writer):
        await writer.finish()
        writer.core.accumulator.change_flushing(-1)
        moved = writer.cluster.brokers[2]
        writer.cluster.topics["t"] = 2

        def refuse(request):
            word = PartitionProduceResponse(
                index=0, error_code=6, base_offset=-1, current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=7)
            )
            endpoints = [NodeEndpoint(node_id=2, host="b2", port=9092)]
            return ProduceResponse(
                responses=[TopicProduceResponse(name="t", partition_responses=[word])], node_endpoints=endpoints
            )

        writer.cluster.brokers[1].answers["Produce"] = refuse
        future = writer.send("t", b"t:1")
        for _ in range(20):
            await writer.cluster.clock.advance(1)
        assert future.result(0).offset == 0
        assert moved.asked("Produce") == 1

    run(scenario)


def test_a_broker_that_answers_for_somebody_else_convinces_nobody():
    async def scenario(writer):
        def lie(request):
            word = PartitionProduceResponse(index=99, error_code=0, base_offset=12345)
            return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[word])])

        writer.cluster.brokers[1].answers["Produce"] = lie
        future = writer.send("t", b"t:1")
        await writer.finish()
        with pytest.raises(UnknownServerError, match="did not mention"):
            future.result(0)

    run(scenario)


def test_closing_resolves_every_future():
    async def scenario(writer):
        writer.bend = lambda node_id, topic: "silent"
        futures = [writer.send("t", b"t:%03d" % number) for number in range(50)]
        await writer.cluster.clock.advance(5)
        await writer.close()
        assert all(isinstance(future.exception(0), OttlaError) for future in futures)
        assert writer.core.failures.take() is None, "every one of them was asked"
        assert not writer.core.accumulator.incomplete
        assert writer.core.accumulator.pool.available_bytes == writer.core.accumulator.pool.total_bytes

    run(scenario)
