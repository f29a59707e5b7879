"""What only the controller can do may be asked of any broker, and whoever answered shows it at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
from tests.cluster.zookeeper_cluster import ZooKeeperCluster

from ottla.broker.cluster.inter_broker import InterBroker
from ottla.broker.quotas.forwarded import forwarding_client_id
from ottla.clock import SystemClock
from ottla.cluster.model import Endpoint
from ottla.errors import NotController
from ottla.net.transport import TcpTransport
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.testing import KafkaCluster
from ottla.values import ZERO_UUID

BROKERS = (0, 1, 2)
TIMEOUT_MS = 10_000
Ask = Callable[..., Coroutine[Any, Any, Any]]
Story = Callable[[Ask], Coroutine[Any, Any, None]]


def ask_all(cluster: KafkaCluster, story: Story, client_id: str = "a tool") -> None:
    """Run a story that asks brokers by their numbers."""
    endpoints = {}
    for number in cluster.running:
        host, _, port = cluster.server(number).info.bootstrap_servers.partition(":")
        endpoints[number] = Endpoint("PLAINTEXT", host, int(port), "PLAINTEXT")

    async def run() -> None:
        brokers = InterBroker(
            -1,
            endpoints.get,
            transport=TcpTransport(),
            clock=SystemClock(),
            random=Random(),
            client_id=client_id,
        )

        async def ask(number: int, request: Any, at_most: int | None = None) -> Any:
            return await brokers.send(number, request, timeout_ms=60_000, at_most=at_most)

        try:
            await story(ask)
        finally:
            await brokers.close()

    asyncio.run(run())


def create(name: str, partitions: int = 1) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=3, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)


def delete(name: str, version: int = 6) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS)
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID)], timeout_ms=TIMEOUT_MS)


async def partitions_at(ask: Ask, number: int, name: str) -> int:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    (topic,) = (await ask(number, request)).topics
    return len(topic.partitions)


@pytest.mark.parametrize("number", BROKERS)
def test_any_broker_creates_grows_and_deletes_topics_and_shows_it(cluster: KafkaCluster, number: int) -> None:
    async def story(ask: Ask) -> None:
        for version in (2, 5, 7):
            name = f"made-{version}"
            (made,) = (await ask(number, create(name), version)).topics
            assert (made.name, made.error_code) == (name, 0)
            assert await partitions_at(ask, number, name) == 1
            more = CreatePartitionsTopic(name=name, count=4, assignments=None)
            request = CreatePartitionsRequest(topics=[more], timeout_ms=TIMEOUT_MS, validate_only=False)
            assert [each.error_code for each in (await ask(number, request)).results] == [0]
            assert await partitions_at(ask, number, name) == 4
            (gone,) = (await ask(number, delete(name, version), min(version, 6))).responses
            assert (gone.name, gone.error_code) == (name, 0)
            assert await partitions_at(ask, number, name) == 0

    ask_all(cluster, story)


@pytest.mark.parametrize("number", BROKERS)
def test_a_name_is_free_again_when_its_topic_is_deleted(cluster: KafkaCluster, number: int) -> None:
    async def story(ask: Ask) -> None:
        for _ in range(5):
            assert [each.error_code for each in (await ask(number, create("again"))).topics] == [0]
            assert [each.error_code for each in (await ask(number, delete("again"))).responses] == [0]

    ask_all(cluster, story)


@pytest.mark.parametrize("number", BROKERS)
def test_any_broker_moves_replicas_and_elects_leaders(cluster: KafkaCluster, number: int) -> None:
    async def story(ask: Ask) -> None:
        moved = ReassignablePartition(partition_index=0, replicas=[2, 1, 0])
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, topics=[ReassignableTopic(name="clicks", partitions=[moved])]
        )
        assert (await ask(number, request)).error_code == 0
        assert (
            await ask(number, ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None))
        ).error_code == 0
        election = ElectLeadersRequest(
            election_type=0,
            topic_partitions=[TopicPartitions(topic="clicks", partitions=[0])],
            timeout_ms=TIMEOUT_MS,
        )
        answer = await ask(number, election)
        assert answer.error_code == 0
        (result,) = answer.replica_election_results[0].partition_result
        assert result.error_code in (0, 84), "elected, or it leads already"

    ask_all(cluster, story)


@pytest.mark.parametrize("number", BROKERS)
def test_any_broker_changes_features_and_says_what_is_wrong(cluster: KafkaCluster, number: int) -> None:
    before = cluster.call(lambda: cluster.server(number).broker.image.feature("transaction.version"))

    def to(level: int) -> UpdateFeaturesRequest:
        up_or_down = 1 if level > before else 2  # a cluster in ZooKeeper begins without features
        update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=up_or_down)
        return UpdateFeaturesRequest(timeout_ms=TIMEOUT_MS, feature_updates=[update])

    async def story(ask: Ask) -> None:
        assert (await ask(number, to(1))).error_code == 0
        refused = await ask(number, to(9))
        assert refused.error_code == 95
        assert "only supports versions 0-2" in refused.error_message
        assert "someone else" not in refused.error_message

    ask_all(cluster, story)


def test_what_was_passed_on_is_not_passed_on_again(on_zookeeper: ZooKeeperCluster) -> None:
    controller = on_zookeeper.controller()

    async def story(ask: Ask) -> None:
        for number in BROKERS:
            (made,) = (await ask(number, create(f"direct-{number}"))).topics
            assert made.error_code == (0 if number == controller else NotController.code)

    ask_all(on_zookeeper, story, forwarding_client_id(7))


def test_a_request_waits_for_the_next_controller(on_zookeeper: ZooKeeperCluster) -> None:
    """It is passed on to one that is gone, and was not noticed to be; the broker asks the next one at once."""
    controller = on_zookeeper.controller()
    number = (controller + 1) % 3
    on_zookeeper.crash(controller, session_stays=True)

    async def story(ask: Ask) -> None:
        topic = CreatableTopic(name="late", num_partitions=1, replication_factor=2, assignments=[], configs=[])
        (made,) = (await ask(number, CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS))).topics
        assert made.error_code == 0, made.error_message

    link: Any = on_zookeeper.server(number).broker.link
    with ThreadPoolExecutor(1) as background:
        asking = background.submit(ask_all, on_zookeeper, story)
        on_zookeeper.wait_until(lambda: controller in link._connections.passed_on._connections or asking.done())
        assert not asking.done()
        on_zookeeper.end_session(controller)
        asking.result(60)
