"""Loads, rot, retries and expressions: the same programs against our broker and Apache Kafka 4.3.1.

Where an examination of the broker named Kafka as its control (docs/reliability.md has the list), the program that it
ran is here: for our broker in every run, for Apache's `long`. Where the two answer otherwise the test says both.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

import pytest
from tests.conformance.access.kafka import ADMIN, MODULE, PASSWORD, Users, secured_kafka
from tests.conformance.java_programs import jars_or_skip
from tests.conformance.kafka_broker import KafkaBroker as ApacheBroker
from tests.conformance.our_broker import BrokerProcess
from tests.conformance.transaction_probes import NOT_READY, Wire, name_of
from tests.patience import HANG_S

from ottla.broker.coordinators.placement import partition_for_name
from ottla.protocol.access import AclOperation, AclPermission, AclResource, PatternType
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.schema import ZERO_UUID
from ottla.records import BatchBuilder
from ottla.testing.broker import KafkaBroker

SETTINGS = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
OTHERS_LIMIT_S = 1.0  # a coordinator that is loaded in one piece held everybody for 7.7 s, one expression for 9 s
ON_ITS_WAY = {*NOT_READY, "UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER"}


class Peer(NamedTuple):
    """A broker that can be stopped and started again on its data."""

    name: str
    broker: Any
    data: Path

    @property
    def address(self) -> str:
        found: str = self.broker.bootstrap if self.name == "kafka" else self.broker.bootstrap_servers
        return found


@pytest.fixture(params=["ottla", pytest.param("kafka", marks=pytest.mark.long)])
def peer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Peer]:
    if request.param == "kafka":
        kafka = ApacheBroker(jars_or_skip("4.3"), tmp_path, tmp_path / "data")
        kafka.format()
        with kafka:
            yield Peer("kafka", kafka, tmp_path / "data")
    else:
        with BrokerProcess(tmp_path, SETTINGS) as ours:
            yield Peer("ottla", ours, ours.data)


def create_topic(wire: Wire, name: str, partitions: int = 1) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    answer = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics[0]
    assert answer.error_code == 0, answer


def find_coordinator(wire: Wire, name: str, kind: int = 0) -> None:
    request = FindCoordinatorRequest(coordinator_keys=[name], key_type=kind)
    settled(lambda: name_of(wire.ask(request, 4).coordinators[0].error_code))


def settled(ask: Any, limit_s: float = HANG_S) -> str:
    """The first answer that is not one of a coordinator or a leader on its way."""
    end_s = time.monotonic() + limit_s
    while (answer := ask()) in ON_ITS_WAY and time.monotonic() < end_s:
        time.sleep(0.02)
    return str(answer)


def commit(wire: Wire, group: str, offset: int, partitions: int = 1) -> None:
    entries = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
        for index in range(partitions)
    ]
    topics = [OffsetCommitRequestTopic(name="orders", partitions=entries)]
    request = OffsetCommitRequest(group_id=group, member_id="", topics=topics)
    answer = settled(lambda: name_of(wire.ask(request, 8).topics[0].partitions[0].error_code))
    assert answer == "NONE", answer


def committed(wire: Wire, group: str, limit_s: float = HANG_S) -> str:
    """The offset of a group in orders-0; the name of the error where there is none."""
    topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])

    def ask() -> str:
        found = wire.ask(request, 8).groups[0]
        if found.error_code:
            return name_of(found.error_code)
        return str(found.topics[0].partitions[0].committed_offset)

    return settled(ask, limit_s)


def produced(wire: Wire, topic: str, batch: bytes) -> str:
    """The offset that was given, or the name of the error."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=[data])
    found = wire.ask(request, 9).responses[0].partition_responses[0]
    return name_of(found.error_code) if found.error_code else str(found.base_offset)


def batch(value: bytes = b"x", **numbers: int) -> bytes:
    builder = BatchBuilder(**numbers)  # type: ignore[arg-type]
    builder.append(int(time.time() * 1000), None, value)
    return bytes(builder.close())


class Others:
    """Somebody who asks for the offsets of a topic again and again; the longest wait after the first answer."""

    def __init__(self, address: str, topic: str) -> None:
        partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
        topics = [ListOffsetsTopic(name=topic, partitions=[partition])]
        self._request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics)
        self._address = address
        self._is_over = Event()
        self._thread = Thread(target=self._run)
        self.waits_s: list[float] = []

    def __enter__(self) -> Others:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def longest_s(self) -> float:
        assert len(self.waits_s) > 10
        return max(self.waits_s[1:])

    def _run(self) -> None:
        with self._connected() as wire:
            while not self._is_over.is_set():
                began_s = time.perf_counter()
                wire.ask(self._request, 5)
                self.waits_s.append(time.perf_counter() - began_s)
                self._is_over.wait(0.01)

    def _connected(self) -> Wire:
        end_s = time.monotonic() + HANG_S
        while True:
            try:
                return Wire(self._address)
            except OSError:
                assert time.monotonic() < end_s
                time.sleep(0.01)


# --- loads -----------------------------------------------------------------------------------------------------------

COMMITTED_AT_ONCE = 500


@pytest.mark.parametrize("requests", [60, pytest.param(1_700, marks=pytest.mark.long)])
def test_while_a_coordinator_loads_its_partition_others_are_answered(peer: Peer, requests: int) -> None:
    """2 MB and 60 MB of commits; then the broker is started again (C4)."""
    group = "large"
    with Wire(peer.address) as wire:
        create_topic(wire, "orders", COMMITTED_AT_ONCE)
        create_topic(wire, "other")
        settled(lambda: produced(wire, "other", batch()))
        find_coordinator(wire, group)
        for number in range(requests):
            commit(wire, group, number, COMMITTED_AT_ONCE)
    peer.broker.stop()
    size_bytes = sum(path.stat().st_size for path in peer.data.glob("__consumer_offsets-*/*.log"))
    assert size_bytes > requests * COMMITTED_AT_ONCE * 60
    with Others(peer.address, "other") as others:
        peer.broker.start()
        with Wire(peer.address) as wire:
            find_coordinator(wire, group)
            assert committed(wire, group) == str(requests - 1)
            time.sleep(0.5)
    print(f"{peer.name}: the longest wait was {others.longest_s * 1000:.0f} ms")
    if peer.name == "ottla":  # Kafka's first answers wait for classes to be loaded
        assert others.longest_s < OTHERS_LIMIT_S


# --- rot -------------------------------------------------------------------------------------------------------------

FIRST, LAST, ROTTEN = 10, 0x5A5A5A, 0x5A5A1A


def test_one_rotten_byte_in_the_offsets_topic_concerns_its_partition_alone(peer: Peer) -> None:
    """The broker starts, and serves whoever has another partition of it. The group that was hit gets the commit before
    with us; Kafka does not look at the CRC there, and tells it an offset that nobody committed. (C5)"""
    names = [f"group-{number}" for number in range(50)]
    hit = next(name for name in names if partition_for_name(name, 2) == 0)
    well = next(name for name in names if partition_for_name(name, 2) == 1)
    with Wire(peer.address) as wire:
        create_topic(wire, "orders")
        find_coordinator(wire, hit)
        for offset in (FIRST, LAST):
            for name in (hit, well):
                commit(wire, name, offset)
    peer.broker.stop()
    path = peer.data / "__consumer_offsets-0" / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[content.index(struct.pack(">q", LAST)) + 7] ^= 64
    path.write_bytes(content)
    peer.broker.start()
    with Wire(peer.address) as wire:
        assert settled(lambda: produced(wire, "orders", batch())) == "0"
        find_coordinator(wire, well)
        find_coordinator(wire, hit)
        assert committed(wire, well) == str(LAST)
        commit(wire, well, LAST + 1)
        answer = committed(wire, hit, limit_s=10.0)
    print(f"{peer.name}: the group whose last commit rotted: {answer}")
    assert answer == {"ottla": str(FIRST), "kafka": str(ROTTEN)}[peer.name]


# --- retries ---------------------------------------------------------------------------------------------------------


def test_after_a_stop_the_last_five_batches_of_a_producer_are_known(peer: Peer) -> None:
    """Kafka's snapshot has the newest only, and refuses a retry of the four before it. (C6)"""
    with Wire(peer.address) as wire:
        create_topic(wire, "orders")
        asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        ids: list[Any] = []

        def ask() -> str:
            ids.append(wire.ask(asked, 4))
            return name_of(ids[-1].error_code)

        assert settled(ask) == "NONE"
        known = ids[-1]
        sent = [
            batch(producer_id=known.producer_id, producer_epoch=known.producer_epoch, base_sequence=number)
            for number in range(6)
        ]
        assert settled(lambda: produced(wire, "orders", sent[0])) == "0"
        assert [produced(wire, "orders", each) for each in sent[1:]] == ["1", "2", "3", "4", "5"]
        assert produced(wire, "orders", sent[1]) == "1"
    peer.broker.stop()
    peer.broker.start()
    with Wire(peer.address) as wire:
        assert settled(lambda: produced(wire, "orders", sent[5])) == "5"
        retries = [produced(wire, "orders", each) for each in sent]
    refused = "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert (
        retries
        == {
            "ottla": [refused, "1", "2", "3", "4", "5"],
            "kafka": [refused, refused, refused, refused, refused, "5"],
        }[peer.name]
    )


# --- expressions -----------------------------------------------------------------------------------------------------


def test_an_expression_of_a_client_holds_up_nobody(peer: Peer) -> None:
    """ListTransactions with twenty ids of sixty characters and an expression that every character may match. (S3)"""
    with Wire(peer.address) as wire, Wire(peer.address) as reporter:
        create_topic(wire, "other")
        names = [f"payments-of-{number:02}-" + "a" * 45 for number in range(20)]
        find_coordinator(wire, names[0], kind=1)
        for name in names:
            asked = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
            assert settled(lambda asked=asked: name_of(wire.ask(asked, 4).error_code)) == "NONE"
        with Others(peer.address, "other") as others:
            time.sleep(0.3)
            patterns = ("(?:.?.?){490}z", ".*a{50}$|payments-of-0[0-4].*")
            answers = [
                reporter.ask(
                    ListTransactionsRequest(state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern),
                    2,
                )
                for pattern in patterns
                for _ in range(5)
            ]
            time.sleep(0.1)
    print(f"{peer.name}: the longest wait was {others.longest_s * 1000:.0f} ms")
    assert {name_of(answer.error_code) for answer in answers[5:]} == {"NONE"}
    found = sorted(state.transactional_id for state in answers[-1].transaction_states)
    assert found == names[:5]
    assert others.longest_s < OTHERS_LIMIT_S


# --- rights ----------------------------------------------------------------------------------------------------------

LOCKED = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{MODULE} required "
    + " ".join(f'user_{name}="{PASSWORD}"' for name in (ADMIN, "none"))
    + ";",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN}",
}


@pytest.mark.parametrize("name", ["ottla", pytest.param("kafka", marks=pytest.mark.long)])
def test_the_id_of_a_topic_that_one_may_not_describe_is_not_told(name: str, tmp_path: Path) -> None:
    """By DescribeShareGroupOffsets, to who may describe the group. (S9)"""
    with ExitStack() as stack:
        if name == "kafka":
            address = stack.enter_context(secured_kafka(jars_or_skip("4.3"), tmp_path))
        else:
            address = stack.enter_context(KafkaBroker(LOCKED)).bootstrap_servers
        users = Users(address)
        stack.callback(users.close)
        salaries = CreatableTopic(name="salaries", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        made = users.ask(ADMIN, CreateTopicsRequest(topics=[salaries], timeout_ms=30_000), 7).topics[0]
        assert made.error_code == 0
        assert made.topic_id != ZERO_UUID
        rule = AclCreation(
            resource_type=AclResource.GROUP,
            resource_name="reports",
            resource_pattern_type=PatternType.LITERAL,
            principal="User:none",
            host="*",
            operation=AclOperation.DESCRIBE,
            permission_type=AclPermission.ALLOW,
        )
        assert users.ask(ADMIN, CreateAclsRequest(creations=[rule]), 3).results[0].error_code == 0
        found = FindCoordinatorRequest(coordinator_keys=["reports"], key_type=0)
        settled(lambda: name_of(users.ask(ADMIN, found, 4).coordinators[0].error_code))
        topics = [DescribeShareGroupOffsetsRequestTopic(topic_name=each, partitions=[0]) for each in ("salaries", "no")]
        group = DescribeShareGroupOffsetsRequestGroup(group_id="reports", topics=topics)

        def ask() -> str:
            told = users.ask("none", DescribeShareGroupOffsetsRequest(groups=[group]), 0).groups[0]
            if told.error_code:
                return name_of(told.error_code)
            return repr([(each.topic_id, name_of(each.partitions[0].error_code)) for each in told.topics])

        assert settled(ask) == repr([(ZERO_UUID, "TOPIC_AUTHORIZATION_FAILED")] * 2)
