"""A broker obeys the newest controller only, whatever kind of order it heard of it by."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cluster.stored_cluster import StoredCluster

from ottla.broker.requests.running import awaited
from ottla.broker.requests.served import handler_of
from ottla.errors import StaleBrokerEpoch, StaleControllerEpoch
from ottla.protocol.api import api_of
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.protocol.messages.stop_replica import StopReplicaRequest
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest


class Context:
    api_version = 4


def lead_nothing(epoch: int, broker_epoch: int = -1) -> Any:
    return LeaderAndIsrRequest(
        controller_id=2, controller_epoch=epoch, broker_epoch=broker_epoch, live_leaders=[], topic_states=[]
    )


def stop_nothing(epoch: int, broker_epoch: int = -1) -> Any:
    return StopReplicaRequest(
        controller_id=2, controller_epoch=epoch, broker_epoch=broker_epoch, delete_partitions=False, topic_states=[]
    )


def nobody_is_there(epoch: int, broker_epoch: int = -1) -> Any:
    return UpdateMetadataRequest(
        controller_id=2, controller_epoch=epoch, broker_epoch=broker_epoch, topic_states=[], live_brokers=[]
    )


def send(stored: StoredCluster, order: Any) -> int:
    """The error code that broker 0 answers with."""
    broker = stored.server(0).broker
    handling = handler_of(api_of(order)).handle
    answer: Any = stored._wait(awaited_on_loop(lambda: handling(broker, order, Context())))
    return int(answer.error_code)


async def awaited_on_loop(begin: Any) -> Any:
    return await awaited(begin())


@pytest.mark.parametrize("newer", [lead_nothing, stop_nothing], ids=["LeaderAndIsr", "StopReplica"])
@pytest.mark.parametrize(
    "older", [nobody_is_there, lead_nothing, stop_nothing], ids=["UpdateMetadata", "LeaderAndIsr", "StopReplica"]
)
def test_orders_of_a_controller_that_was_replaced_are_refused(stored: StoredCluster, newer: Any, older: Any) -> None:
    known = stored.call(lambda: stored.server(0).broker.image)
    assert send(stored, newer(known.controller_epoch + 2)) == 0
    assert send(stored, older(known.controller_epoch + 1)) == StaleControllerEpoch.code
    assert stored.call(lambda: stored.server(0).broker.image.brokers) == known.brokers, "nothing was believed"


@pytest.mark.parametrize("order", [nobody_is_there, lead_nothing, stop_nothing])
def test_orders_for_an_earlier_registration_are_refused(stored: StoredCluster, order: Any) -> None:
    member, image = stored.call(lambda: (stored.server(0).broker.link, stored.server(0).broker.image))
    assert send(stored, order(image.controller_epoch, member.epoch - 1)) == StaleBrokerEpoch.code
