"""Transactions that one process writes and another ends, with the epoch rising at the end (KIP-890) and without."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.patience import HANG_S

from ottla import aio
from ottla.client.admin.admin import Admin
from ottla.client.admin.cluster import FeatureUpdate, UpgradeType
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer.consumer import Consumer
from ottla.client.producer.producer import Producer
from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.client.producer.transactions.states import TransactionMisuse
from ottla.errors import InvalidTxnState, OttlaError, ProducerFenced
from ottla.testing import FakeBroker, KafkaBroker
from ottla.values import OffsetAndMetadata, TopicPartition

QUICK = {"linger_ms": 0, "retry_backoff_ms": 10}


@pytest.fixture(scope="module", params=["first kind", "epoch rises"])
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    """A broker for each kind of transactions."""
    with KafkaBroker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": 50}) as broker:
        if request.param == "first kind":
            with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                update = FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)
                admin.update_features({"transaction.version": update})
        yield broker


@pytest.fixture
def admin(cluster: Any) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=10) as made:
        yield made


@pytest.fixture
def topic(admin: Admin, unique_topic: str) -> str:
    admin.create_topics([NewTopic(unique_topic, 2)])
    return unique_topic


def new_producer(cluster: Any, name: str, **more: object) -> Producer:
    return Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=name, **{**QUICK, **more})


def prepared(cluster: Any, topic: str, *values: bytes, **more: object) -> PreparedTransaction:
    """Written by a producer that is gone when this returns."""
    with new_producer(cluster, topic, **more) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for index, value in enumerate(values):
            producer.produce(topic, value, partition=index % 2)
        return producer.prepare_transaction()


def committed(cluster: Any, topic: str, count: int) -> list[bytes]:
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
    found: list[bytes] = []
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, **settings) as consumer:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        deadline = time.monotonic() + HANG_S
        while len(found) < count and time.monotonic() < deadline:
            found += [record.value for record in consumer.poll(0.2)]
        found += [record.value for record in consumer.poll(0.1)]
    return sorted(found)


def test_what_was_prepared_is_committed_by_somebody_else(cluster, admin, topic):
    left = prepared(cluster, topic, b"a", b"b", b"c")
    assert committed(cluster, topic, 0) == []
    admin.end_transaction(pickle.loads(pickle.dumps(left)))
    assert committed(cluster, topic, 3) == [b"a", b"b", b"c"]


def test_what_was_prepared_is_aborted_by_somebody_else(cluster, admin, topic):
    admin.end_transaction(prepared(cluster, topic, b"a"), commit=False)
    with new_producer(cluster, topic) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"next", partition=0)
    assert committed(cluster, topic, 1) == [b"next"]


@pytest.mark.parametrize("commit", [True, False])
def test_the_same_end_again_does_no_harm(cluster, admin, topic, commit):
    left = prepared(cluster, topic, b"a")
    for _ in range(3):
        admin.end_transaction(left, commit=commit)
    assert committed(cluster, topic, int(commit)) == [b"a"] * commit


@pytest.mark.parametrize("commit", [True, False])
def test_the_other_end_afterwards_is_refused(cluster, admin, topic, commit):
    left = prepared(cluster, topic, b"a")
    admin.end_transaction(left, commit=commit)
    with pytest.raises((InvalidTxnState, ProducerFenced)):
        admin.end_transaction(left, commit=not commit)
    assert committed(cluster, topic, int(commit)) == [b"a"] * commit


def test_a_late_end_is_fenced_once_the_id_was_initialized_anew(cluster, admin, topic):
    left = prepared(cluster, topic, b"old")
    again = prepared(cluster, topic, b"new")
    with pytest.raises(ProducerFenced):
        admin.end_transaction(left)
    admin.end_transaction(again)
    with pytest.raises(ProducerFenced):
        admin.end_transaction(left)
    assert committed(cluster, topic, 1) == [b"new"]


def test_an_end_of_long_ago_cannot_end_a_later_transaction(cluster, admin, topic):
    """The hole of the first kind of transactions: it is closed by initializing the id before every transaction."""
    first = prepared(cluster, topic, b"1")
    admin.end_transaction(first)
    second = prepared(cluster, topic, b"2")
    with pytest.raises(ProducerFenced):
        admin.end_transaction(first)
    admin.end_transaction(second, commit=False)
    assert committed(cluster, topic, 1) == [b"1"]


def test_a_prepared_transaction_that_timed_out_is_refused_and_lost_loudly(cluster, admin, topic):
    left = prepared(cluster, topic, b"late", transaction_timeout_ms=200)
    deadline = time.monotonic() + HANG_S
    while admin.describe_transactions([topic])[topic].state != "CompleteAbort" and time.monotonic() < deadline:
        time.sleep(0.05)
    with pytest.raises((ProducerFenced, InvalidTxnState)):
        admin.end_transaction(left)
    assert committed(cluster, topic, 0) == []


def test_offsets_are_added_by_somebody_else_and_count_with_the_transaction(cluster, admin, topic):
    place, group = TopicPartition(topic, 1), f"{topic}-group"
    left = prepared(cluster, topic, b"a")
    left = admin.send_offsets_to_transaction(left, {place: OffsetAndMetadata(7, metadata="why")}, group)
    assert admin.list_consumer_group_offsets(group, [place]) == {place: None}
    admin.end_transaction(left)
    found = admin.list_consumer_group_offsets(group, [place], require_stable=True)[place]
    assert (found.offset, found.metadata) == (7, "why")


def test_offsets_alone_make_a_transaction(cluster, admin, topic):
    place, group = TopicPartition(topic, 0), f"{topic}-group"
    left = prepared(cluster, topic)
    assert left.is_empty
    left = admin.send_offsets_to_transaction(left, {place: 3}, group)
    assert not left.is_empty
    admin.end_transaction(left)
    assert admin.list_consumer_group_offsets(group, [place], require_stable=True)[place].offset == 3


def test_offsets_for_a_transaction_that_was_taken_over_are_refused(cluster, admin, topic):
    left = prepared(cluster, topic, b"old")
    again = prepared(cluster, topic, b"new")
    with pytest.raises(ProducerFenced):
        admin.send_offsets_to_transaction(left, {TopicPartition(topic, 0): 3}, f"{topic}-group")
    admin.end_transaction(again, commit=False)


def test_an_empty_transaction_is_ended_without_asking(cluster, admin, topic):
    left = prepared(cluster, topic)
    assert left.is_empty
    admin.end_transaction(left)
    admin.end_transaction(left, commit=False)


def test_a_prepared_producer_takes_no_record_and_closes_without_aborting(cluster, admin, topic):
    with new_producer(cluster, topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"a", partition=0)
        left = producer.prepare_transaction()
        assert producer.prepare_transaction is not None
        with pytest.raises(TransactionMisuse):
            producer.send(topic, b"b", partition=0)
        with pytest.raises(TransactionMisuse):
            producer.begin_transaction()
    admin.end_transaction(left)
    assert committed(cluster, topic, 1) == [b"a"]


@pytest.mark.parametrize("commit", [True, False])
def test_the_producer_itself_may_end_what_it_prepared(cluster, topic, commit):
    with new_producer(cluster, topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"a", partition=0)
        producer.prepare_transaction()
        producer.commit_transaction() if commit else producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"b", partition=0)
    assert committed(cluster, topic, 1 + commit) == [b"a"] * commit + [b"b"]


def test_a_producer_goes_on_after_it_was_initialized_anew(cluster, admin, topic):
    """One producer for many prepared transactions: each init raises the epoch and aborts what nobody ended."""
    epochs = []
    with new_producer(cluster, topic) as producer:
        for turn in range(6):
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"%d" % turn, partition=turn % 2)
            left = producer.prepare_transaction()
            epochs.append(left.producer_epoch)
            if turn % 2:
                admin.end_transaction(left)
    assert epochs == sorted(set(epochs))
    assert committed(cluster, topic, 3) == [b"1", b"3", b"5"]


def test_records_that_failed_are_told_by_prepare(cluster, topic):
    with new_producer(cluster, topic, max_request_size=10_000_000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(topic, bytes(3_000_000), partition=0)
        with pytest.raises(OttlaError):
            producer.prepare_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"fine", partition=0)
    assert committed(cluster, topic, 1) == [b"fine"]


def test_the_asyncio_faces_do_the_same(cluster, topic):
    async def story() -> None:
        settings = {"bootstrap_servers": cluster.bootstrap_servers}
        async with aio.Producer(transactional_id=topic, **settings) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.produce(topic, b"a", partition=0)
            left = await producer.prepare_transaction()
        async with aio.Admin(**settings) as admin:
            left = await admin.send_offsets_to_transaction(left, {TopicPartition(topic, 0): 1}, f"{topic}-group")
            await admin.end_transaction(left)
            await admin.end_transaction(left)

    asyncio.run(story())
    assert committed(cluster, topic, 1) == [b"a"]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("error", ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"])
def test_what_passes_is_asked_again(version, error):
    with FakeBroker(nodes=2, transaction_version=version) as fake:
        fake.create_topic("t", 2)
        left = prepared(fake, "t", b"a")
        with Admin(bootstrap_servers=fake.bootstrap_servers, retry_backoff_ms=5) as admin:
            fake.fail("TxnOffsetCommit", error, times=2)
            fake.fail("EndTxn", error, times=2)
            fake.hang_up("EndTxn")
            left = admin.send_offsets_to_transaction(left, {TopicPartition("t", 0): 1}, "g")
            admin.end_transaction(left)
        assert committed(fake, "t", 1) == [b"a"]
