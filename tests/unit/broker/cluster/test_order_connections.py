"""Orders of the controller do not wait behind what a broker answers late."""

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


def test_an_order_does_not_wait_behind_a_marker_that_waits_to_be_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What such a marker waits for may be that very order: who is in sync, or who leads since when."""
    waiting: list[int] = []

    async def never_committed(broker: Any, *_: Any) -> None:
        waiting.append(broker.id)
        await asyncio.Event().wait()

    async def story(cluster: FaultyCluster) -> float:
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
        began_s = cluster.loop.time()
        for topic in ("later", "last"):  # the next order leaves when the one before is answered
            await cluster.create_topic(topic, 3)
        await cluster.healed()
        return cluster.loop.time() - began_s

    monkeypatch.setattr(write_txn_markers, "write_marker", never_committed)
    took_s = FaultyCluster(1, settings=SETTINGS).run(story)
    assert Counter(waiting) == {0: 4, 1: 4, 2: 4}, "every broker has those of both others"
    assert took_s < SOON_S
