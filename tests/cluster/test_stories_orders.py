"""A broker obeys the newest controller only, whatever kind of order it heard of it by."""

from __future__ import annotations

from typing import Any

from ottla.broker.requests.running import awaited
from ottla.broker.requests.served import handler_of
from ottla.errors import StaleBrokerEpoch, StaleControllerEpoch
from ottla.protocol.api import api_of
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.protocol.messages.stop_replica import StopReplicaRequest
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest
from ottla.testing import KafkaCluster


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


def send(cluster: KafkaCluster, order: Any) -> int:
    """The error code that broker 0 answers with."""
    broker = cluster.server(0).broker
    handling = handler_of(api_of(order)).handle
    answer: Any = cluster._wait(awaited_on_loop(lambda: handling(broker, order, Context())))
    return int(answer.error_code)


async def awaited_on_loop(begin: Any) -> Any:
    return await awaited(begin())


def test_orders_for_an_earlier_registration_are_refused(on_zookeeper: KafkaCluster) -> None:
    member, image = on_zookeeper.call(lambda: (on_zookeeper.server(0).broker.link, on_zookeeper.server(0).broker.image))
    for order in (nobody_is_there, lead_nothing, stop_nothing):
        code = send(on_zookeeper, order(image.controller_epoch, member.epoch - 1))
        assert code == StaleBrokerEpoch.code, order.__name__


def test_orders_of_a_controller_that_was_replaced_are_refused(on_zookeeper: KafkaCluster) -> None:
    """Whatever kind of order it heard of the newer one by."""
    known = on_zookeeper.call(lambda: on_zookeeper.server(0).broker.image)
    epoch = known.controller_epoch
    for newer in (lead_nothing, stop_nothing):
        for older in (nobody_is_there, lead_nothing, stop_nothing):
            epoch += 2
            assert send(on_zookeeper, newer(epoch)) == 0
            code = send(on_zookeeper, older(epoch - 1))
            assert code == StaleControllerEpoch.code, f"{older.__name__} after {newer.__name__}"
    assert on_zookeeper.call(lambda: on_zookeeper.server(0).broker.image.brokers) == known.brokers, (
        "nothing is believed"
    )
