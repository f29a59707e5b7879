"""Topics created on demand: one attempt at a time, a refusal is logged once."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.cluster.internal_topics import internal_topic_request
from ottla.broker.cluster.topics_on_demand import TopicsOnDemand
from ottla.broker.quotas.forwarded import Client
from ottla.broker.requests.running import Background
from ottla.broker.settings import BrokerSettings
from ottla.cluster.image import ClusterImage
from ottla.errors import InvalidReplicationFactor, LeaderNotAvailable, TopicAlreadyExists
from ottla.protocol.messages.create_topics import CreatableTopic


class Creating:
    """The part of a ClusterLink that creates topics, when the test says how it ends."""

    is_alone = True

    def __init__(self) -> None:
        self.attempts: list[tuple[str, asyncio.Future[None]]] = []

    async def create_topic(self, topic: CreatableTopic, client: Client | None = None) -> None:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.attempts.append((topic.name, ended))
        await ended

    async def end(self, error: Exception | None = None) -> None:
        ended = self.attempts[-1][1]
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)
        await asyncio.sleep(0)


def topics_on_demand(creating: Creating, **settings: str) -> TopicsOnDemand:
    own = BrokerSettings({name.replace("_", "."): value for name, value in settings.items()})
    return TopicsOnDemand(creating, Background(), settings=lambda: own, image=lambda: ClusterImage("c"))


def test_a_topic_on_its_way_is_not_asked_for_again_until_that_has_ended() -> None:
    async def run() -> None:
        creating = Creating()
        topics = topics_on_demand(creating)
        refused = topics.create_missing(["clicks", "clicks", "no good name"])
        assert {name: type(error) for name, error in refused.items()} == {"clicks": LeaderNotAvailable}
        topics.create_missing(["orders", "clicks"])
        assert [name for name, _ in creating.attempts] == ["clicks", "orders"]
        creating.attempts[0][1].set_result(None)
        await asyncio.sleep(0)
        topics.create_missing(["clicks"])
        assert [name for name, _ in creating.attempts] == ["clicks", "orders", "clicks"]

    asyncio.run(run())


def test_the_same_refusal_is_logged_once_and_another_one_again(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        creating = Creating()
        topics = topics_on_demand(creating)
        for reason in ("2 brokers", "2 brokers", "something else"):
            topics.create_missing(["clicks"])
            await creating.end(InvalidReplicationFactor(reason))

    asyncio.run(run())
    assert len(caplog.records) == 2


def test_that_somebody_else_created_it_is_no_refusal(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        creating = Creating()
        topics_on_demand(creating).create_missing(["clicks"])
        await creating.end(TopicAlreadyExists())

    asyncio.run(run())
    assert not caplog.records


def test_nothing_is_created_where_that_is_switched_off() -> None:
    creating = Creating()
    assert topics_on_demand(creating, auto_create_topics_enable="false").create_missing(["clicks"]) == {}
    assert creating.attempts == []


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_in_a_cluster_internal_topics_have_only_settings_that_apache_kafka_knows(name: str) -> None:
    asked = internal_topic_request(name, BrokerSettings({}), is_alone=False, brokers=1)
    assert not [each.name for each in asked.configs if each.name.startswith("ottla.")]


@pytest.mark.parametrize(
    ("fewer", "brokers", "copies", "enough"),
    [(False, 1, 3, "2"), (True, 1, 1, "1"), (True, 2, 2, "1"), (True, 3, 3, "2"), (True, 9, 3, "2"), (True, 0, 1, "1")],
)
def test_where_that_is_set_internal_topics_are_made_with_as_many_copies_as_there_can_be(
    fewer: bool, brokers: int, copies: int, enough: str
) -> None:
    several = {"zookeeper.connect": "127.0.0.1:2181", "ottla.internal.topics.fewer.copies": str(fewer).lower()}
    asked = internal_topic_request("__transaction_state", BrokerSettings(several), is_alone=False, brokers=brokers)
    assert asked.replication_factor == copies
    assert {each.name: each.value for each in asked.configs}["min.insync.replicas"] == enough
