"""Partitions of a transaction whose coordinator is another broker: what a producer hears when that one is away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.transactions.coordinator import TransactionCoordinator
from ottla.broker.produce.verification import refused_produce
from ottla.errors import (
    BrokerError,
    BrokerNotAvailable,
    ClusterAuthorizationFailed,
    CoordinatorNotAvailable,
    NotEnoughReplicas,
    RequestTimedOut,
)
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from ottla.values import TopicPartition

NAME = TopicPartition("clicks", 0)


def refusal(given: Any) -> BrokerError | None:
    coordinator = TransactionCoordinator(lambda: 5, lambda *_: None)

    def ask_elsewhere(partition: int, request: Any, answered: Callable[[Any], None]) -> bool:
        answered(given)
        return True

    coordinator.ask_elsewhere = ask_elsewhere
    context = RequestContext(api_version=11, client_id="c", client_host="h", principal="User:a", listener="PLAINTEXT")
    found: list[dict[TopicPartition, BrokerError]] = []
    coordinator.add_partitions("t", 1, 0, [NAME], verify_only=True, context=context).when_given(found.append)
    return found[0].get(NAME)


@pytest.mark.parametrize("error", [BrokerNotAvailable("broker 0 is not in the cluster"), RequestTimedOut(), OSError()])
def test_a_coordinator_that_cannot_be_asked_lets_the_producer_try_again(error: Exception) -> None:
    told = refusal(error)
    assert isinstance(told, CoordinatorNotAvailable)
    assert isinstance(refused_produce(told, knows_abortable=True, adds_partitions=False), NotEnoughReplicas)


def test_an_answer_that_refuses_everything_verifies_nothing() -> None:
    answer = AddPartitionsToTxnResponse(error_code=ClusterAuthorizationFailed.code, results_by_transaction=[])
    assert isinstance(refusal(answer), ClusterAuthorizationFailed)


def test_an_answer_without_errors_refuses_nothing() -> None:
    assert refusal(AddPartitionsToTxnResponse(error_code=0, results_by_transaction=[])) is None
