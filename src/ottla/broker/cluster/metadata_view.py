"""What a member of a cluster knows of it: the controller's UpdateMetadata requests as changes of an image.

1. The list of live brokers is always whole: who is not on it is gone. Topics come as far as they changed.
2. A partition whose leader is LEADER_DURING_DELETE belongs to a topic that is being deleted; when no partition is left,
   the topic is gone. A topic with another id under a known name is another topic.
3. Partitions come by number, but maybe not from 0 and not all at once; a gap is filled by a partition without leader
   and replicas until its state comes.

Plain functions: image + request = changes. Settings, quotas and the like come from the store, not from here. Whether
the request may be obeyed is checked before, and for all orders in one place: controller_orders.py, which knows
the newest controller that gave an order of any kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ottla.cluster.changes import (
    AddPartitions,
    Change,
    ChangePartition,
    CreateTopic,
    RegisterBroker,
    RemoveTopic,
    SetController,
    UnregisterBroker,
    apply_all,
)
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import NO_LEADER, Broker, Endpoint, Partition, Topic
from ottla.light_dataclasses import replace
from ottla.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from ottla.values import ZERO_UUID

LEADER_DURING_DELETE: Final = -2
NO_EPOCH: Final = -1
SECURITY_PROTOCOLS: Final = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
_NOT_TOLD: Final = Partition(replicas=(), isr=(), leader=NO_LEADER, leader_epoch=NO_EPOCH)


def changes_of(image: ClusterImage, request: UpdateMetadataRequest) -> list[Change]:
    """What the request changes in the image, in order."""
    changes: list[Change] = []
    if (image.controller_id, image.controller_epoch) != (request.controller_id, request.controller_epoch):
        changes.append(SetController(request.controller_id, request.controller_epoch))
    changes += _brokers(image, request.live_brokers)
    seen: set[str] = set()
    for topic in _topics(request):
        # A topic that is named twice in one request is rare; only then what came before counts.
        known = apply_all(image, changes) if topic.topic_name in seen else image
        changes += _topic(known, topic)
        seen.add(topic.topic_name)
    return changes


def _topics(request: UpdateMetadataRequest) -> list[UpdateMetadataTopicState]:
    """The topics of a request; before version 5 partitions were not grouped by topic."""
    if request.topic_states:
        return request.topic_states
    grouped: dict[str, UpdateMetadataTopicState] = {}
    for state in request.ungrouped_partition_states:
        topic = grouped.setdefault(
            state.topic_name, UpdateMetadataTopicState(topic_name=state.topic_name, partition_states=[])
        )
        topic.partition_states.append(state)
    return list(grouped.values())


# --- brokers ---------------------------------------------------------------------------------------------------------


def _brokers(image: ClusterImage, live: Sequence[UpdateMetadataBroker]) -> Iterator[Change]:
    for each in live:
        found = _broker(each)
        known = image.brokers.get(each.id)
        # The request does not tell epochs and features; what is known of a broker otherwise stays.
        entry = found if known is None else replace(known, endpoints=found.endpoints, rack=found.rack)
        if entry != known:
            yield RegisterBroker(entry)
    ids = {each.id for each in live}
    yield from (UnregisterBroker(broker_id) for broker_id in image.brokers if broker_id not in ids)


def _broker(each: UpdateMetadataBroker) -> Broker:
    endpoints = tuple(
        Endpoint(
            listener=endpoint.listener or SECURITY_PROTOCOLS.get(endpoint.security_protocol, "PLAINTEXT"),
            host=endpoint.host,
            port=endpoint.port,
            security_protocol=SECURITY_PROTOCOLS.get(endpoint.security_protocol, "PLAINTEXT"),
        )
        for endpoint in each.endpoints
    )
    return Broker(each.id, endpoints, rack=each.rack or None)


# --- topics ----------------------------------------------------------------------------------------------------------


def _topic(image: ClusterImage, state: UpdateMetadataTopicState) -> list[Change]:
    known = image.topic(state.topic_name)
    changes: list[Change] = []
    if known is not None and state.topic_id not in (ZERO_UUID, known.id):
        changes.append(RemoveTopic(known.id))
        known = None
    states = {each.partition_index: each for each in state.partition_states}
    gone = {index for index, each in states.items() if each.leader == LEADER_DURING_DELETE}
    if gone:
        if known is not None and gone >= set(range(len(known.partitions))):
            changes.append(RemoveTopic(known.id))
            return changes
        states = {index: _without_leader(each) for index, each in states.items()}
    if known is None:
        if not gone and states:
            partitions = _filled({index: _partition(each, None) for index, each in states.items()}, 0)
            changes.append(CreateTopic(Topic(state.topic_name, state.topic_id, partitions)))
        return changes
    changes += _partitions(known, states)
    return changes


def _partitions(known: Topic, states: dict[int, UpdateMetadataPartitionState]) -> Iterator[Change]:
    count = len(known.partitions)
    for index, each in sorted(states.items()):
        if index < count:
            before = known.partitions[index]
            after = _partition(each, before)
            if after != before:
                yield ChangePartition(known.id, index, after)
    more = {index: _partition(each, None) for index, each in states.items() if index >= count}
    if more:
        yield AddPartitions(known.id, _filled(more, count))


def _filled(partitions: dict[int, Partition], first: int) -> tuple[Partition, ...]:
    return tuple(partitions.get(index, _NOT_TOLD) for index in range(first, max(partitions) + 1))


def _partition(state: UpdateMetadataPartitionState, known: Partition | None) -> Partition:
    return replace(
        known or _NOT_TOLD,
        replicas=tuple(state.replicas),
        isr=tuple(state.isr),
        leader=state.leader if state.leader >= 0 else NO_LEADER,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.zk_version,
    )


def _without_leader(state: UpdateMetadataPartitionState) -> UpdateMetadataPartitionState:
    if state.leader != LEADER_DURING_DELETE:
        return state
    return UpdateMetadataPartitionState(
        partition_index=state.partition_index,
        controller_epoch=state.controller_epoch,
        leader=NO_LEADER,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        zk_version=state.zk_version,
        replicas=state.replicas,
        offline_replicas=state.offline_replicas,
    )
