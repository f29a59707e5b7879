"""The plan for CreatePartitions: a topic only ever gets more partitions, with as many replicas as it has."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ottla.cluster.changes import AddPartitions, Change
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Partition, Topic
from ottla.cluster.placement import check_assignment, new_partition, place
from ottla.cluster.plan import FINE, Plan, refusal, repeated
from ottla.cluster.topics import PARTITIONS_LIMIT, TopicRules
from ottla.errors import (
    BrokerError,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def create_partitions(
    image: ClusterImage, request: CreatePartitionsRequest, rules: TopicRules, random: Random
) -> Plan[CreatePartitionsTopicResult]:
    """Give topics more partitions."""
    twice = repeated(topic.name for topic in request.topics)
    error = InvalidRequest("the topic is named more than once in the request")
    answers = [CreatePartitionsTopicResult(name=name, **refusal(error)) for name in sorted(twice)]
    changes: list[Change] = []
    for requested in request.topics:
        if requested.name in twice:
            continue
        try:
            changes.append(_added(image, requested, rules, random))
            answers.append(CreatePartitionsTopicResult(name=requested.name, **FINE))
        except BrokerError as problem:
            answers.append(CreatePartitionsTopicResult(name=requested.name, **refusal(problem)))
    plan = Plan(tuple(changes), answers)
    return plan.only_checked() if request.validate_only else plan


def _added(image: ClusterImage, requested: CreatePartitionsTopic, rules: TopicRules, random: Random) -> AddPartitions:
    topic = image.topic(requested.name)
    if topic is None:
        raise UnknownTopicOrPartition
    additional = _checked_count(topic, requested)
    rules.check_quota(additional)
    if requested.assignments is None:
        replicas = place(image, additional, topic.replication_factor, random)
        refused: BrokerError = InvalidReplicationFactor("all brokers are currently fenced or in controlled shutdown")
        partitions = tuple(_new(image, each, refused) for each in replicas)
    else:
        partitions = _assigned(image, topic, requested)
    rules.check_room(partitions)
    return AddPartitions(topic.id, partitions)


def _checked_count(topic: Topic, requested: CreatePartitionsTopic) -> int:
    present = len(topic.partitions)
    if requested.count == present:
        raise InvalidPartitions(f"topic already has {present} partition(s)")
    if requested.count < present:
        raise InvalidPartitions(
            f"the topic {topic.name} currently has {present} partition(s); {requested.count} would not be an increase"
        )
    additional = requested.count - present
    if additional > PARTITIONS_LIMIT:
        raise InvalidPartitions(f"{additional} partitions at once are too many; the limit is {PARTITIONS_LIMIT}")
    if requested.assignments is not None and len(requested.assignments) != additional:
        raise InvalidReplicaAssignment(
            f"attempted to add {additional} additional partition(s), "
            f"but only {len(requested.assignments)} assignment(s) were specified"
        )
    return additional


def _assigned(image: ClusterImage, topic: Topic, requested: CreatePartitionsTopic) -> tuple[Partition, ...]:
    partitions = []
    for index, assignment in enumerate(requested.assignments or (), len(topic.partitions)):
        check_assignment(image, assignment.broker_ids, topic.replication_factor)
        refused = InvalidReplicaAssignment(f"all brokers of partition {index} are fenced or in controlled shutdown")
        partitions.append(_new(image, assignment.broker_ids, refused))
    return tuple(partitions)


def _new(image: ClusterImage, replicas: Sequence[int], refused: BrokerError) -> Partition:
    partition = new_partition(image, replicas)
    if partition is None:
        raise refused
    return partition
