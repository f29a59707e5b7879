"""Plans carried out over a network in memory: what is asked again, of whom, and for how long."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.unit.client.fake_cluster import FakeCluster, run

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.topics import NewTopic
from ottla.errors import NotController, OttlaError, RequestTimedOut, TopicAlreadyExists
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.schema import Message


def admin_of(cluster: FakeCluster, **settings: object) -> AsyncAdmin:
    settings = {"bootstrap.servers": "b1:9092,b2:9092", **settings}
    return AsyncAdmin(settings, transport=cluster.network, clock=cluster.clock, random=random.Random(3))


async def in_time(cluster: FakeCluster, task: asyncio.Task[Any], limit_ms: float) -> Any:
    for _ in range(int(limit_ms // 100)):
        if task.done():
            break
        await cluster.clock.advance(100)
    assert task.done(), "it takes longer than it should"
    return task.result()


def test_a_broker_that_does_not_answer_costs_one_request_and_not_the_call() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        silent = {"yes": True}

        def describe(request: Message) -> Message | None:
            assert isinstance(request, MetadataRequest)
            if silent["yes"] and request.topics is None:
                silent["yes"] = False
                return None
            return cluster.describe(request)

        for broker in cluster.brokers.values():
            broker.answers["Metadata"] = describe
        cluster.topics["clicks"] = 1
        async with admin_of(cluster, **{"request.timeout.ms": 1000, "default.api.timeout.ms": 60_000}) as admin:
            listing = asyncio.create_task(admin.list_topics())
            assert set(await in_time(cluster, listing, 5000)) == {"clicks"}

    run(scenario)


def creating(error_code: int) -> Any:
    def answer(request: Message) -> Message:
        assert isinstance(request, CreateTopicsRequest)
        results = [CreatableTopicResult(name=each.name, error_code=error_code) for each in request.topics]
        return CreateTopicsResponse(topics=results)

    return answer


def test_a_controller_that_moved_is_found_and_asked() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.brokers[1].answers["CreateTopics"] = creating(NotController.code)
        cluster.brokers[2].answers["CreateTopics"] = creating(0)
        async with admin_of(cluster) as admin:
            making = asyncio.create_task(admin.create_topics(["clicks"]))
            await cluster.clock.advance(200)
            cluster.controller_id = 2
            assert set(await in_time(cluster, making, 5000)) == {"clicks"}
        assert cluster.brokers[1].asked("CreateTopics") >= 1

    run(scenario)


def test_when_time_is_over_the_last_error_is_raised() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.brokers[1].answers["CreateTopics"] = creating(NotController.code)
        async with admin_of(cluster) as admin:
            error = await cluster.asked_in_vain(admin.create_topics(["clicks"], timeout=3))
            assert isinstance(error, NotController | RequestTimedOut)

    run(scenario)


DESCRIBE_TOPIC_PARTITIONS = 75


async def made_twice(cluster: FakeCluster, wanted: NewTopic, *, described_in_vain: int = 0) -> Any:
    """Ask for a topic; the first answer is lost, and the second says that it is there. Who is asked then has not heard
    of it so many times."""
    left = described_in_vain

    def describe(request: Message) -> Message:
        nonlocal left
        assert isinstance(request, MetadataRequest)
        if "clicks" in cluster.topics and left:
            left -= 1
            del cluster.topics["clicks"]
            answer = cluster.describe(request)
            cluster.topics["clicks"] = 1
            return answer
        return cluster.describe(request)

    def lost(request: Message) -> None:
        cluster.topics["clicks"] = 1
        for each in cluster.brokers.values():
            each.answers["CreateTopics"] = creating(TopicAlreadyExists.code)

    def settings(request: Any) -> Message:
        value = DescribeConfigsResourceResult(
            name="retention.ms", value="5", read_only=False, is_sensitive=False, synonyms=[]
        )
        result = DescribeConfigsResult(
            error_code=0, error_message=None, resource_type=2, resource_name="clicks", configs=[value]
        )
        return DescribeConfigsResponse(results=[result])

    for broker in cluster.brokers.values():
        broker.answers.update({"CreateTopics": lost, "DescribeConfigs": settings, "Metadata": describe})
        broker.offered.pop(DESCRIBE_TOPIC_PARTITIONS)
    async with admin_of(cluster, **{"request.timeout.ms": 1000}) as admin:
        making = asyncio.create_task(admin.create_topics([wanted]))
        try:
            return (await in_time(cluster, making, 10_000))["clicks"]
        except OttlaError as error:
            return error


def test_a_topic_whose_answer_was_lost_is_the_one_that_was_asked_for() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        made = await made_twice(cluster, NewTopic("clicks", 1, configs={"retention.ms": "5"}))
        assert (made.num_partitions, made.configs) == (1, {"retention.ms": "5"})

    run(scenario)


def test_a_topic_whose_answer_was_lost_is_waited_for_where_nobody_has_heard_of_it() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        made = await made_twice(cluster, NewTopic("clicks", 1), described_in_vain=4)
        assert made.num_partitions == 1

    run(scenario)


def test_a_topic_of_somebody_else_is_not_taken_for_ours_after_a_lost_answer() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        error = await made_twice(cluster, NewTopic("clicks", 3))
        assert isinstance(error, TopicAlreadyExists)
        assert "its number of partitions is 1" in str(error)

    run(scenario)
