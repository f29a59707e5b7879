"""A broker wants to stop: hand its leaderships to others, and take it out of every in-sync set.

1. From now on it leads nothing new and joins no in-sync set. It stays known until it leaves.
2. Partitions with a single replica stay; there is nobody to hand them to, and they are not counted as remaining.
3. It asks again while partitions remain; asking again costs nothing where nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cluster.changes import Change, ChangePartition, RegisterBroker, apply
from ottla.cluster.controller import leaders
from ottla.cluster.controller.events import ShutdownAsked
from ottla.cluster.controller.state import ControllerState, Decided, is_being_deleted
from ottla.cluster.model import Broker, Partition
from ottla.errors import NONE, BrokerError, BrokerNotAvailable, StaleBrokerEpoch
from ottla.light_dataclasses import replace
from ottla.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from ottla.values import TopicPartition

UNKNOWN_EPOCH = -1


def shut_down(state: ControllerState, event: ShutdownAsked) -> Decided:
    """Take everything from the broker that others can have; the reply has what nobody else can."""
    try:
        marked = _marked(state, event.request)
    except BrokerError as error:
        return Decided(state, replies=(ControlledShutdownResponse(error_code=error.code, remaining_partitions=[]),))
    changes: list[Change] = [] if marked == state.image.brokers[marked.id] else [RegisterBroker(marked)]
    leaving = state.with_image(apply(state.image, RegisterBroker(marked)))
    remaining = []
    for name, partition in _shared_partitions(leaving, marked.id):
        after = _handed_over(leaving, name, partition, marked.id)
        if after is None:
            remaining.append(RemainingPartition(topic_name=name.topic, partition_index=name.partition))
        elif after is not partition:
            topic_id = leaving.image.topic_id(name.topic)
            assert topic_id is not None  # the partition came from there
            changes.append(ChangePartition(topic_id, name.partition, after))
    return Decided(
        state, tuple(changes), (ControlledShutdownResponse(error_code=NONE, remaining_partitions=remaining),)
    )


def _marked(state: ControllerState, request: ControlledShutdownRequest) -> Broker:
    broker: Broker | None = state.image.brokers.get(request.broker_id)
    if broker is None:
        raise BrokerNotAvailable(f"broker {request.broker_id} is not registered")
    if request.broker_epoch != UNKNOWN_EPOCH and request.broker_epoch < broker.epoch:
        raise StaleBrokerEpoch(f"broker {broker.id} came back with epoch {broker.epoch}")
    return replace(broker, in_controlled_shutdown=True)


def _shared_partitions(state: ControllerState, broker_id: int) -> Iterator[tuple[TopicPartition, Partition]]:
    for name, partition in state.image.partitions():
        is_shared = broker_id in partition.replicas and len(partition.replicas) > 1
        if is_shared and not is_being_deleted(state.image, name.topic):
            yield name, partition


def _handed_over(state: ControllerState, name: TopicPartition, partition: Partition, leaving: int) -> Partition | None:
    return leaders.handed_over(
        partition,
        leaving,
        lambda each: state.may_lead(name, each),
        min_insync=state.rules.min_insync_replicas(state.image, name.topic),
    )
