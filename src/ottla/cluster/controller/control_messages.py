"""The three requests of the control protocol, written from what the controller knows.

A request is about at most PORTION partitions, because the broker that reads it serves clients too, and limits how much
one request may contain. So a larger one is split into several, and only a request that contains everything is FULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from ottla.cluster.controller.state import ControllerState, is_being_deleted
from ottla.cluster.model import Broker, Partition
from ottla.cluster.store.events import NO_STATE
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from ottla.values import ZERO_UUID, TopicPartition

if TYPE_CHECKING:
    from ottla.cluster.controller.orders import Stop

INCREMENTAL: Final = 1
FULL: Final = 2
LEADER_DURING_DELETION: Final = -2
PORTION: Final = 500

SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


T = TypeVar("T")


def portions(items: Sequence[T]) -> list[Sequence[T]]:
    """As many as fit into one request, and so on; none when there are none."""
    return [items[first : first + PORTION] for first in range(0, len(items), PORTION)]


class AssignedPartition(NamedTuple):
    """A partition that a broker has a replica of."""

    name: TopicPartition
    partition: Partition
    is_new: bool


# --- LeaderAndIsr ----------------------------------------------------------------------------------------------------


def leader_and_isr(
    state: ControllerState, broker: Broker, assigned: Iterable[AssignedPartition], *, whole: bool
) -> Iterator[LeaderAndIsrRequest]:
    """The requests for the partitions assigned to a broker; none when there are none."""
    parts = portions(sorted(assigned, key=lambda each: each.name))
    for part in parts:
        yield LeaderAndIsrRequest(
            controller_id=state.controller.broker_id,
            controller_epoch=state.controller.epoch,
            broker_epoch=broker.epoch,
            type=FULL if whole and len(parts) == 1 else INCREMENTAL,
            topic_states=[
                LeaderAndIsrTopicState(
                    topic_name=topic,
                    topic_id=state.image.topic_id(topic) or ZERO_UUID,
                    partition_states=[_leader_and_isr_state(state, each) for each in group],
                )
                for topic, group in groupby(part, key=lambda each: each.name.topic)
            ],
            live_leaders=_live_leaders(state, {each.partition.leader for each in part}),
        )


def _leader_and_isr_state(state: ControllerState, assigned: AssignedPartition) -> LeaderAndIsrPartitionState:
    partition = assigned.partition
    return LeaderAndIsrPartitionState(
        partition_index=assigned.name.partition,
        controller_epoch=state.controller.epoch,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        partition_epoch=partition.partition_epoch,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding),
        removing_replicas=list(partition.removing),
        is_new=assigned.is_new,
        leader_recovery_state=int(partition.recovering),
    )


def _live_leaders(state: ControllerState, leaders: Iterable[int]) -> list[LeaderAndIsrLiveLeader]:
    """Where followers find the leaders: at the listener for brokers, or at the only one there is."""
    found = []
    for broker_id in sorted(leaders):
        broker = state.image.brokers.get(broker_id)
        endpoint = broker and (broker.endpoint(state.rules.inter_broker_listener) or next(iter(broker.endpoints), None))
        if endpoint is not None:
            found.append(LeaderAndIsrLiveLeader(broker_id=broker_id, host_name=endpoint.host, port=endpoint.port))
    return found


# --- UpdateMetadata --------------------------------------------------------------------------------------------------


def visible_state(state: ControllerState, name: TopicPartition) -> tuple[object, ...] | None:
    """What clients can know of a partition; None when they know nothing of it."""
    partition = state.image.partition(*name)
    if partition is None or partition.leader_epoch == NO_STATE:
        return None
    leader = LEADER_DURING_DELETION if is_being_deleted(state.image, name.topic) else partition.leader
    return (
        leader,
        partition.leader_epoch,
        partition.isr,
        partition.partition_epoch,
        partition.replicas,
        _offline(state, name, partition),
    )


def _offline(state: ControllerState, name: TopicPartition, partition: Partition) -> tuple[int, ...]:
    return tuple(each for each in partition.replicas if not state.is_alive(name, each))


Topics: TypeAlias = list[UpdateMetadataTopicState]


def metadata_states(state: ControllerState, names: Sequence[TopicPartition]) -> list[Topics]:
    """What every broker gets about these sorted partitions: one list for each request, at least one."""
    known = [name for name in names if visible_state(state, name) is not None]
    return [_metadata_topics(state, part) for part in portions(known)] or [[]]


def _metadata_topics(state: ControllerState, names: Sequence[TopicPartition]) -> Topics:
    return [
        UpdateMetadataTopicState(
            topic_name=topic,
            topic_id=state.image.topic_id(topic) or ZERO_UUID,
            partition_states=[_metadata_state(state, name) for name in group],
        )
        for topic, group in groupby(names, key=lambda each: each.topic)
    ]


def update_metadata(
    state: ControllerState, broker: Broker, portions_of_topics: list[Topics], *, whole: bool
) -> Iterator[UpdateMetadataRequest]:
    """The requests with all brokers, and these partitions."""
    live_brokers = [_live_broker(each) for each in state.image.brokers.values() if not each.fenced]
    for topics in portions_of_topics:
        yield UpdateMetadataRequest(
            controller_id=state.controller.broker_id,
            controller_epoch=state.controller.epoch,
            broker_epoch=broker.epoch,
            type=FULL if whole and len(portions_of_topics) == 1 else INCREMENTAL,
            topic_states=topics,
            live_brokers=live_brokers,
        )


def _metadata_state(state: ControllerState, name: TopicPartition) -> UpdateMetadataPartitionState:
    partition = state.image.partition(*name)
    assert partition is not None  # only partitions with a visible state are sent
    is_going = is_being_deleted(state.image, name.topic)
    return UpdateMetadataPartitionState(
        partition_index=name.partition,
        controller_epoch=state.controller.epoch,
        leader=LEADER_DURING_DELETION if is_going else partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        zk_version=partition.partition_epoch,
        replicas=list(partition.replicas),
        offline_replicas=list(_offline(state, name, partition)),
    )


def _live_broker(broker: Broker) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=each.port,
                host=each.host,
                listener=each.listener,
                security_protocol=SECURITY_PROTOCOLS[each.security_protocol],
            )
            for each in broker.endpoints
        ],
        rack=broker.rack,
    )


# --- StopReplica -----------------------------------------------------------------------------------------------------


def stop_replica(state: ControllerState, broker: Broker, stops: Sequence[Stop]) -> Iterator[StopReplicaRequest]:
    """The requests for what is to be stopped; `stops` are in order."""
    for part in portions(stops):
        yield StopReplicaRequest(
            controller_id=state.controller.broker_id,
            controller_epoch=state.controller.epoch,
            broker_epoch=broker.epoch,
            topic_states=[
                StopReplicaTopicState(
                    topic_name=topic,
                    partition_states=[
                        StopReplicaPartitionState(
                            partition_index=each.name.partition,
                            leader_epoch=each.leader_epoch,
                            delete_partition=each.delete,
                        )
                        for each in group
                    ],
                )
                for topic, group in groupby(part, key=lambda each: each.name.topic)
            ],
        )
