"""What classic consumers write inside JoinGroup and SyncGroup, read and written by the broker while a group changes
from one protocol to the other.

Topics go by name there and by id here; what the cluster does not have is left out.
"""

from __future__ import annotations

from ottla.broker.coordinators.effects import ClusterView
from ottla.broker.coordinators.groups.consumer.member import Owned, Target
from ottla.errors import MalformedMessage
from ottla.protocol.stored import decode_newer_value, encode_value, split_lead
from ottla.protocol.stored.subscription import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Raises MalformedMessage."""
    return decode_newer_value(ConsumerProtocolSubscription, metadata)


def read_assignment(assignment: bytes, cluster: ClusterView) -> Target:
    """Raises MalformedMessage. Nothing at all is what a member has that was not assigned yet."""
    if not assignment:
        return {}
    read = decode_newer_value(ConsumerProtocolAssignment, assignment)
    return by_id({each.topic: frozenset(each.partitions) for each in read.assigned_partitions}, cluster)


def owned_of(subscription: ConsumerProtocolSubscription, cluster: ClusterView) -> Target:
    return by_id({each.topic: frozenset(each.partitions) for each in subscription.owned_partitions}, cluster)


def by_id(partitions: dict[str, frozenset[int]], cluster: ClusterView) -> Target:
    found = {cluster.topic_id(name): each for name, each in partitions.items() if each}
    return {topic_id: each for topic_id, each in found.items() if topic_id is not None}


def write_assignment(owned: Owned | Target, cluster: ClusterView, subscription: bytes) -> bytes:
    """An assignment in the version in which the member speaks."""
    named = {cluster.topic_name(topic_id): sorted(each) for topic_id, each in owned.items()}
    partitions = [
        ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=each)
        for name, each in sorted((name, each) for name, each in named.items() if name is not None)
    ]
    return encode_value(ConsumerProtocolAssignment(assigned_partitions=partitions), _version(subscription))


def _version(subscription: bytes) -> int:
    """The version that the member speaks, or the newest that we do; 0 when that cannot be seen."""
    try:
        return max(0, min(split_lead(subscription)[0], ConsumerProtocolAssignment.versions.max))
    except MalformedMessage:
        return 0
