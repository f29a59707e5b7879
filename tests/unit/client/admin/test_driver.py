"""Plans carried out over a network in memory: what is asked again, of whom, and for how long."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.unit.client.fake_cluster import FakeCluster, run

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.errors import NotController, RequestTimedOut
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
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
