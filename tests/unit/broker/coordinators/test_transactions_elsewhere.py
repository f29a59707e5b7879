"""Transactions whose coordinator or leader is another broker: what is heard and done when that one is away."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.coordinators.transactions.coordinator import TransactionCoordinator
from ottla.broker.coordinators.transactions.markers import MarkerOutcome, WriteMarkers, outcome_of
from ottla.broker.coordinators.transactions.verifying import refused_produce
from ottla.broker.replication.markers import write_marker
from ottla.broker.requests.context import RequestContext
from ottla.errors import (
    BrokerError,
    BrokerNotAvailable,
    ClusterAuthorizationFailed,
    ConnectionClosed,
    CoordinatorNotAvailable,
    NotEnoughReplicas,
    RequestTimedOut,
)
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from ottla.values import TopicPartition

NAME = TopicPartition("clicks", 0)


class OtherBroker:
    """The part of a ClusterLink that asks another broker, which answers or fails as it is told."""

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome

    def leads_elsewhere(self, topic: str, partition: int) -> bool:
        return True

    async def ask_leader(self, topic: str, partition: int, request: Any) -> Any:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def refusal(outcome: Any) -> BrokerError | None:
    broker: Any = SimpleNamespace(
        clock=SimpleNamespace(now_ms=lambda: 0, monotonic_ms=lambda: 0),
        deadlines=SimpleNamespace(arm=lambda: None),
        loads=None,
        image=SimpleNamespace(partition_count=lambda topic: 5),
        link=OtherBroker(outcome),
    )
    context = RequestContext(api_version=11, client_id="c", client_host="h", principal="User:a", listener="PLAINTEXT")
    asking = TransactionCoordinator(broker).add_partitions("t", 1, 0, [NAME], verify_only=True, context=context)
    return asyncio.run(asking).get(NAME)


@pytest.mark.parametrize("error", [BrokerNotAvailable("broker 0 is not in the cluster"), RequestTimedOut(), OSError()])
def test_a_coordinator_that_cannot_be_asked_lets_the_producer_try_again(error: Exception) -> None:
    refused = refusal(error)
    assert isinstance(refused, CoordinatorNotAvailable)
    assert isinstance(refused_produce(refused, knows_abortable=True, adds_partitions=False), NotEnoughReplicas)


def test_an_answer_that_refuses_everything_verifies_nothing() -> None:
    answer = AddPartitionsToTxnResponse(error_code=ClusterAuthorizationFailed.code, results_by_transaction=[])
    assert isinstance(refusal(answer), ClusterAuthorizationFailed)


def test_an_answer_without_errors_refuses_nothing() -> None:
    assert refusal(AddPartitionsToTxnResponse(error_code=0, results_by_transaction=[])) is None


@pytest.mark.parametrize("error", [BrokerNotAvailable("broker 0 is not in the cluster"), ConnectionClosed()])
def test_the_marker_for_a_leader_that_left_is_tried_again_without_alarm(error: Exception) -> None:
    broker: Any = SimpleNamespace(
        image=SimpleNamespace(partition=lambda topic, partition: object()), replicas={}, link=OtherBroker(error)
    )
    with pytest.raises(BrokerError) as refused:
        asyncio.run(write_marker(broker, WriteMarkers("t", 1, 0, 0, True, (NAME,), 0, 1), NAME))
    assert outcome_of(refused.value) is MarkerOutcome.RETRY
