"""What brokers say to each other does not wait behind what one of them answers late."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from ottla.broker.handlers.transactions import write_txn_markers
from ottla.simulation.for_tests import FaultyCluster

SOON_S = 5.0
TRANSACTIONS = 6  # so many that every broker coordinates one
SETTINGS = {"transaction.state.log.num.partitions": 3}


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Brokers that got a marker which they never commit."""
    found: list[int] = []

    async def never_committed(broker: Any, *_: Any) -> None:
        found.append(broker.id)
        await asyncio.Event().wait()

    monkeypatch.setattr(write_txn_markers, "write_marker", never_committed)
    return found


async def end_transactions(cluster: FaultyCluster) -> None:
    """Every broker gets markers of both others."""
    await cluster.create_topic("clicks", 3)
    await cluster.healed()
    producers = [cluster.producer(transactional_id=f"id {number}") for number in range(TRANSACTIONS)]
    for producer in producers:
        await producer.init_transactions()
        await producer.begin_transaction()
        for partition in range(3):
            await producer.send("clicks", b"", partition=partition)
        await producer.flush()
    for producer in producers:
        await producer.commit_transaction()
        await producer.close()


def test_an_order_does_not_wait_behind_a_marker_that_waits_to_be_committed(waiting: list[int]) -> None:
    """What such a marker waits for may be that very order: who is in sync, or who leads since when."""

    async def story(cluster: FaultyCluster) -> float:
        await end_transactions(cluster)
        began_s = cluster.loop.time()
        for topic in ("later", "last"):  # the next order leaves when the one before is answered
            await cluster.create_topic(topic, 3)
        await cluster.healed()
        return cluster.loop.time() - began_s

    took_s = FaultyCluster(1, settings=SETTINGS).run(story)
    assert Counter(waiting) == {0: 4, 1: 4, 2: 4}, "every broker has those of both others"
    assert took_s < SOON_S


def test_a_leader_that_asks_the_controller_does_not_wait_behind_a_marker(waiting: list[int]) -> None:
    """It asks who is in sync, and a marker may wait for just that."""

    async def story(cluster: FaultyCluster) -> list[float]:
        await end_transactions(cluster)
        took_s = []
        for seat in cluster._cluster.seats.values():
            began_s = cluster.loop.time()
            await seat.server.broker.link.allocate_producer_ids()  # any question does
            took_s.append(cluster.loop.time() - began_s)
        return took_s

    assert max(FaultyCluster(1, settings=SETTINGS).run(story)) < SOON_S
    assert waiting


def test_a_transaction_is_not_held_up_by_the_marker_of_another(waiting: list[int]) -> None:
    """A leader asks the coordinator, which may have to write a marker of another transaction."""

    async def story(cluster: FaultyCluster) -> float:
        await end_transactions(cluster)
        began_s = cluster.loop.time()
        for number in range(TRANSACTIONS):
            producer = cluster.producer(transactional_id=f"another {number}")
            await producer.init_transactions()
            await producer.begin_transaction()
            for partition in range(3):
                await producer.send("clicks", b"", partition=partition)
            await producer.flush()
            await producer.abort_transaction()
            await producer.close()
        return cluster.loop.time() - began_s

    assert FaultyCluster(1, settings=SETTINGS).run(story) < SOON_S
    assert waiting
