"""A client's network against a real broker over loopback, on both kinds of event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator

import pytest
from tests.patience import HANG_S

from ottla.client.loop import BackgroundLoop
from ottla.client.network import NetworkClient
from ottla.client.settings import ClientSettings
from ottla.errors import InvalidTopicException, NotConnected, RequestTimedOut, UnknownTopicOrPartition
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.testing.broker import KafkaBroker
from ottla.values import TopicPartition

Visit = Callable[[NetworkClient], Awaitable[None]]


@pytest.fixture
def loop() -> Iterator[BackgroundLoop]:
    loop = BackgroundLoop("network test")
    yield loop
    loop.close(5)


def visit(bootstrap: str, story: Visit, **settings: object) -> None:
    async def whole() -> None:
        network = NetworkClient.from_settings(ClientSettings(bootstrap_servers=bootstrap, **settings))
        try:
            async with asyncio.timeout(HANG_S):
                await story(network)
        finally:
            await network.close()

    asyncio.run(whole())


def test_a_topic_its_leader_and_both_coordinators_are_found(kafka_broker: KafkaBroker, unique_topic: str) -> None:
    async def story(network: NetworkClient) -> None:
        network.metadata.want(unique_topic, now_ms=network.clock.monotonic_ms())
        first = TopicPartition(unique_topic, 0)
        leader = await network.wait_for(lambda known: known.leader_of(first), what=unique_topic)
        assert str(leader.address) == kafka_broker.bootstrap_servers
        assert network.metadata.topic_name(network.metadata.topic_id(unique_topic) or b"") == unique_topic
        group = await network.coordinator("group", "g", timeout_ms=10_000)
        assert group.address == leader.address
        assert group.id != leader.id
        assert await network.coordinator("transaction", "t", timeout_ms=10_000) == leader
        assert network.features["transaction.version"] >= 1
        assert (await network.send(leader, ListGroupsRequest())).error_code == 0

    visit(kafka_broker.bootstrap_servers, story)


def test_the_loop_on_a_thread_carries_it_too(
    kafka_broker: KafkaBroker, loop: BackgroundLoop, unique_topic: str
) -> None:
    network = NetworkClient.from_settings(ClientSettings(bootstrap_servers=kafka_broker.bootstrap_servers))
    loop.run(network.refresh_metadata(timeout_ms=10_000), 20)
    assert loop.run(network.ask_any(ListGroupsRequest()), 20).error_code == 0
    loop.run(network.close(), 20)


def test_topics_that_cannot_be_are_told_apart_from_those_that_are_not(kafka_broker: KafkaBroker) -> None:
    async def story(network: NetworkClient) -> None:
        network.metadata.want("no/slashes", now_ms=network.clock.monotonic_ms())
        error = await network.wait_for(lambda known: known.error_of("no/slashes"), what="an error")
        assert isinstance(error, InvalidTopicException)

    visit(kafka_broker.bootstrap_servers, story)


def test_a_topic_that_is_not_made_by_asking_stays_unknown() -> None:
    async def story(network: NetworkClient) -> None:
        network.metadata.want("nothing", now_ms=network.clock.monotonic_ms())
        with pytest.raises(RequestTimedOut, match="topic nothing"):
            await network.wait_for(lambda known: known.partitions_of("nothing"), timeout_ms=300, what="it")
        assert isinstance(network.metadata.error_of("nothing"), UnknownTopicOrPartition)

    with KafkaBroker({"auto.create.topics.enable": "false"}) as broker:
        visit(broker.bootstrap_servers, story)


def test_another_cluster_behind_the_same_address_is_found_by_beginning_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as placeholder:
        port = placeholder.getsockname()[1]
    at_port = {"listeners": f"PLAINTEXT://127.0.0.1:{port}"}

    async def story(network: NetworkClient) -> None:
        with KafkaBroker(at_port) as first:
            await network.refresh_metadata(timeout_ms=10_000)
            cluster_id = network.metadata.cluster_id
            assert first.bootstrap_servers.endswith(str(port))
        with pytest.raises(NotConnected, match="nothing listens there"):
            await network.ask_any(ListGroupsRequest(), timeout_ms=300)
        with KafkaBroker(at_port):
            await network.ask_any(ListGroupsRequest(), timeout_ms=10_000)
            await network.refresh_metadata(timeout_ms=10_000)
            assert network.metadata.cluster_id != cluster_id

    visit(f"127.0.0.1:{port}", story)


def test_an_advertised_address_that_leads_nowhere_is_explained() -> None:
    with socket.create_server(("127.0.0.1", 0)) as placeholder:
        port = placeholder.getsockname()[1]

    async def story(network: NetworkClient) -> None:
        await network.refresh_metadata(timeout_ms=10_000)
        with pytest.raises(NotConnected) as failed:
            await network.send(0, ListGroupsRequest())
        assert "broker 0 at nowhere.invalid:9092, advertised by bootstrap server 127.0.0.1" in str(failed.value)
        assert "advertised.listeners" in str(failed.value)

    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": "PLAINTEXT://nowhere.invalid:9092",
    }
    with KafkaBroker(settings):
        visit(f"127.0.0.1:{port}", story)


def test_something_that_is_not_kafka_is_told() -> None:
    async def story(network: NetworkClient) -> None:
        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        other = NetworkClient.from_settings(ClientSettings(bootstrap_servers=address))
        with pytest.raises(NotConnected, match="Kafka"):
            await other.refresh_metadata(timeout_ms=5_000)
        await other.close()
        server.close()

    visit("127.0.0.1:1", story)
