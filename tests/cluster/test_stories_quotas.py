"""Quotas in a cluster: whoever is asked to set one, all brokers act on it; nobody gets around his by asking another."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.cluster.test_stories_forwarding import Ask, ask_all, create
from tests.patience import HANG_S

from ottla.errors import ThrottlingQuotaExceeded
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.testing import KafkaCluster

PRODUCE, MUTATION = "producer_byte_rate", "controller_mutation_rate"
TOOL = "a tool"


def quota(key: str, value: float | None, client_id: str | None = TOOL) -> AlterClientQuotasRequest:
    entity = [EntityData(entity_type="client-id", entity_name=client_id)]
    op = OpData(key=key, value=value or 0.0, remove=value is None)
    return AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[op])], validate_only=False)


def wait_until_limited(cluster: KafkaCluster, key: str, *, is_limited: bool = True) -> None:
    """Until every broker acts on the quota, or on its end."""
    end = time.monotonic() + HANG_S
    for number in cluster.running:
        quotas = cluster.server(number).broker.quotas
        while (quotas.charges_of(key, "ANONYMOUS", TOOL) is not None) is not is_limited:
            assert time.monotonic() < end, f"broker {number} does not know of the quota"
            time.sleep(0.01)


def wait_until_created(cluster: KafkaCluster, number: int) -> None:
    """Until no topic is on its way that this broker was asked for."""
    end = time.monotonic() + HANG_S
    while cluster.server(number).broker.topics_on_demand.is_busy:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_quota_that_one_broker_was_told_of_acts_on_all(cluster: KafkaCluster, number: int) -> None:
    async def story(ask: Ask) -> None:
        assert (await ask(number, quota(PRODUCE, 1e6))).entries[0].error_code == 0

    async def end(ask: Ask) -> None:
        assert (await ask(number, quota(PRODUCE, None))).entries[0].error_code == 0

    ask_all(cluster, story)
    wait_until_limited(cluster, PRODUCE)
    ask_all(cluster, end)
    wait_until_limited(cluster, PRODUCE, is_limited=False)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_quota_for_changes_of_topics_holds_at_whichever_broker_is_asked(cluster: KafkaCluster, number: int) -> None:
    async def limit(ask: Ask) -> None:
        await ask(0, quota(MUTATION, 0.01))

    async def story(ask: Ask) -> None:
        first = await ask(number, create("many", 4))
        assert (first.topics[0].error_code, first.throttle_time_ms) == (0, 0)
        second = await ask(number, create("more", 1))
        assert second.topics[0].error_code == ThrottlingQuotaExceeded.code
        assert 0 < second.throttle_time_ms <= 400_000

    ask_all(cluster, limit)
    wait_until_limited(cluster, MUTATION)
    ask_all(cluster, story)


def test_clients_that_do_not_know_the_error_are_slowed_down_at_whichever_broker_they_ask(cluster: KafkaCluster) -> None:
    async def limit(ask: Ask) -> None:
        await ask(0, quota(MUTATION, 0.5))

    async def story(ask: Ask) -> None:
        for number in (0, 1, 2):
            answer = await ask(number, create(f"many-{number}", 6), 5)
            assert answer.topics[0].error_code == 0
            assert 0 < answer.throttle_time_ms <= 1_000 + 12_000 * number  # half a partition a second for all brokers

    ask_all(cluster, limit)
    wait_until_limited(cluster, MUTATION)
    ask_all(cluster, story)


def test_one_quota_for_changes_of_topics_holds_for_all_brokers_together(cluster: KafkaCluster) -> None:
    """As at Kafka's controller; who asks another broker for each topic gains nothing."""
    codes: list[int] = []

    async def limit(ask: Ask) -> None:
        await ask(0, quota(MUTATION, 0.01))

    async def story(ask: Ask) -> None:
        for number in (0, 1, 2):
            codes.append((await ask(number, create(f"by-{number}", 4))).topics[0].error_code)

    ask_all(cluster, limit)
    wait_until_limited(cluster, MUTATION)
    ask_all(cluster, story)
    assert codes == [0, ThrottlingQuotaExceeded.code, ThrottlingQuotaExceeded.code]


def test_a_quota_for_everybody_is_not_one_for_all_that_a_broker_passes_on(cluster: KafkaCluster) -> None:
    codes: list[list[int]] = []

    async def limit(ask: Ask) -> None:
        await ask(0, quota(MUTATION, 0.01, None))

    async def story(ask: Ask) -> None:
        answers = [await ask(number, create(f"{len(codes)}-{number}", 4)) for number in (0, 1, 2)]
        codes.append([each.topics[0].error_code for each in answers])

    ask_all(cluster, limit)
    wait_until_limited(cluster, MUTATION)
    for client_id in ("one", "two", "three"):
        ask_all(cluster, story, client_id)
    assert codes == [[0, ThrottlingQuotaExceeded.code, ThrottlingQuotaExceeded.code]] * 3


@pytest.mark.parametrize("number", [0, 1, 2])
def test_topics_that_are_made_because_a_client_asks_for_them_count(cluster: KafkaCluster, number: int) -> None:
    async def limit(ask: Ask) -> None:
        await ask(0, quota(MUTATION, 0.01))

    async def asked(ask: Ask, name: str) -> bool:
        """Whether a topic is there after somebody asked for it."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
        await ask(number, request)
        await asyncio.to_thread(wait_until_created, cluster, number)
        return (await ask(number, request)).topics[0].error_code == 0

    async def story(ask: Ask) -> None:
        assert await asked(ask, "first")
        assert not await asked(ask, "second")
        assert (await ask(number, create("third"))).topics[0].error_code == ThrottlingQuotaExceeded.code

    async def others(ask: Ask) -> None:
        assert await asked(ask, "second")

    ask_all(cluster, limit)
    wait_until_limited(cluster, MUTATION)
    ask_all(cluster, story)
    ask_all(cluster, others, "another tool")
