"""Transactions in bad weather: what was committed is read, once and in order; what was aborted is not."""

from __future__ import annotations

import random
import time

import pytest
from tests.client.weather import MOMENTS, NONSENSE, SEEDS
from tests.patience import HANG_S, bounded

from ottla.client.consumer.consumer import Consumer
from ottla.client.producer.producer import Producer
from ottla.errors import InvalidProducerEpoch, OttlaError, ProducerFenced
from ottla.testing import FakeBroker
from ottla.values import OffsetAndMetadata, TopicPartition

QUICK = {
    "request_timeout_ms": 300,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 20,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 20,
    "delivery_timeout_ms": 20_000,
    "max_block_ms": 20_000,
    "linger_ms": 0,
}
PLACES = [TopicPartition("t", index) for index in range(2)]
RETRIABLE = {
    "InitProducerId": ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"],
    "AddPartitionsToTxn": ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"],
    "AddOffsetsToTxn": ["COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"],
    "TxnOffsetCommit": ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"],
    "EndTxn": ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"],
    "FindCoordinator": ["COORDINATOR_NOT_AVAILABLE"],
    "Produce": ["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS"],
}


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def fake(request):
    with FakeBroker(nodes=2, transaction_version=request.param) as fake:
        if request.param == 1:
            fake.offer("EndTxn", 0, 4)
            fake.offer("Produce", 3, 11)
        fake.create_topic("t", len(PLACES))
        yield fake


def new_producer(fake: FakeBroker, **more: object) -> Producer:
    return Producer(bootstrap_servers=fake.bootstrap_servers, transactional_id="x", **{**QUICK, **more})


def committed(fake: FakeBroker, count: int) -> list[list[bytes]]:
    """What a reader of committed records sees, by partition."""
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
    found: list = []
    with Consumer(bootstrap_servers=fake.bootstrap_servers, **settings) as consumer:
        consumer.assign(PLACES)
        deadline = time.monotonic() + HANG_S
        while len(found) < count and time.monotonic() < deadline:
            found += consumer.poll(0.2)
        found += consumer.poll(0.1)
    return [[record.value for record in found if record.partition == place.partition] for place in PLACES]


class Trouble:
    """Something new for the coordinator or the leader with every call; nothing that a client must give up for."""

    def __init__(self, fake: FakeBroker, seed: int) -> None:
        self.fake = fake
        self.random = random.Random(seed)

    def make(self) -> None:
        api = self.random.choice(list(RETRIABLE))
        kind = self.random.randrange(6)
        if kind == 0:
            self.fake.fail(api, self.random.choice(RETRIABLE[api]), times=self.random.randint(1, 2))
        elif kind == 1:
            self.fake.hang_up(api, when=self.random.choice(MOMENTS))
        elif kind == 2:
            self.fake.garble(api, self.random.choice(NONSENSE))
        elif kind == 3:
            self.fake.delay(api, ms=self.random.randint(1, 30))
        elif kind == 4:
            self.fake.move_leader("t", self.random.randrange(2), to=self.random.randint(1, 2))
        else:
            self.fake.cluster.coordinator_id = self.random.randint(1, 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_only_what_was_committed_is_read_through_a_storm(fake, seed):
    """A commit whose fate is unknown would make the test unsure, so nothing here lasts longer than the client waits."""
    trouble = Trouble(fake, seed)
    expected: list[list[bytes]] = [[], []]
    with new_producer(fake) as producer:
        producer.init_transactions()
        for turn in range(25):
            trouble.make()
            producer.begin_transaction()
            values = [[f"{turn}/{place.partition}/{number}".encode() for number in range(5)] for place in PLACES]
            futures = [producer.send("t", value, partition=index) for index in range(2) for value in values[index]]
            if turn % 3 == 2:
                producer.abort_transaction()
                continue
            producer.send_offsets_to_transaction({TopicPartition("in", 0): OffsetAndMetadata(turn)}, "g")
            producer.commit_transaction()
            assert all(future.result(0).offset >= 0 for future in futures), "committed means delivered"
            for index in range(2):
                expected[index] += values[index]
    fake.clear()
    assert committed(fake, sum(map(len, expected))) == expected
    assert fake.committed("g")[TopicPartition("in", 0)].offset == 24


@pytest.mark.parametrize("with_offsets", [False, True])
def test_a_fenced_producer_hears_it_and_writes_nothing_that_counts(fake, with_offsets):
    with new_producer(fake) as producer:
        producer.init_transactions()
        with new_producer(fake) as successor:
            successor.init_transactions()
            producer.begin_transaction()
            future = producer.send("t", b"old", partition=0)

            def finish() -> None:
                if with_offsets:
                    producer.send_offsets_to_transaction({PLACES[0]: OffsetAndMetadata(1)}, "g")
                producer.commit_transaction()

            with pytest.raises((ProducerFenced, InvalidProducerEpoch)):
                finish()
            future.exception(HANG_S)
            with successor.transaction():
                successor.send("t", b"new", partition=0)
    assert committed(fake, 1)[0] == [b"new"]
    assert fake.committed("g") == {}


def test_an_abortable_error_is_aborted_and_the_next_transaction_goes_on(fake):
    with new_producer(fake) as producer:
        producer.init_transactions()
        fake.fail("Produce", "INVALID_TXN_STATE" if fake.cluster.transaction_version == 1 else "TRANSACTION_ABORTABLE")
        producer.begin_transaction()
        producer.send("t", b"lost", partition=0)
        with pytest.raises(OttlaError):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"kept", partition=0)
    assert committed(fake, 1)[0] == [b"kept"]


def test_closing_with_an_open_transaction_aborts_it(fake):
    with new_producer(fake) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"open", partition=0).result(HANG_S)
    assert committed(fake, 0) == [[], []]
    assert fake.log("t", 0).open_since == {}


def test_closing_is_bounded_when_the_coordinator_is_silent(fake):
    producer = new_producer(fake)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"open", partition=0).result(HANG_S)
    fake.mute("EndTxn", times=None)
    with bounded():
        producer.close(timeout=0.5)
