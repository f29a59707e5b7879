"""A consumer without a face, on a network in memory and a clock that a test moves."""

from __future__ import annotations

import random

from tests.unit.client.fake_cluster import FakeCluster, run

from ottla.client.consumer.core import ConsumerCore
from ottla.client.consumer.settings import ConsumerSettings
from ottla.errors import RequestTimedOut
from ottla.values import TopicPartition


def core_of(cluster: FakeCluster) -> ConsumerCore:
    made = ConsumerCore(
        ConsumerSettings(bootstrap_servers="b1:9092", client_id="c"),
        news=lambda: None,
        wake_loop=lambda: made.wake(),
        transport=cluster.network,
        clock=cluster.clock,
        random=random.Random(3),
    )
    return made


def test_it_waits_on_the_clock_it_was_given() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        core = core_of(cluster)
        await core.start()
        core.subscription.assign([TopicPartition("nowhere", 0)])
        began_ms = cluster.clock.monotonic_ms()
        error = await cluster.asked_in_vain(core.position(TopicPartition("nowhere", 0), timeout_ms=5_000))
        assert isinstance(error, RequestTimedOut)
        assert cluster.clock.monotonic_ms() - began_ms == 5_000
        assert cluster.brokers[1].requests, "it talks over the transport it was given"
        await core.close(1_000)

    run(scenario)
