"""AlterReplicaLogDirs: have replicas of this broker lie in another of its log directories.

The answer says that the move was begun, not that it is done: DescribeLogDirs shows a copy on its way, and where the
replica lies in the end (replication/log_dir_moves.py). Wanting a replica where it is ends a move elsewhere.

LOG_DIR_NOT_FOUND is for a directory that this broker does not have, KAFKA_STORAGE_ERROR for one that is offline,
UNKNOWN_TOPIC_OR_PARTITION for a partition that is nowhere, INVALID_TOPIC_EXCEPTION for a topic whose name leaves no
room for a copy's suffix. A partition that others have is NOT_LEADER_OR_FOLLOWER, and should it come here, it will be
made in that directory: kafka-reassign-partitions asks before replicas move.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.errors import (
    NONE,
    BrokerError,
    InvalidTopicException,
    LogDirNotFound,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

FILE_NAME_LIMIT: Final = 255
FUTURE_SUFFIX_BYTES: Final = len(".") + 32 + len("-future")


ALTER_CLUSTER = Need(AclOperation.ALTER, AclResource.CLUSTER, Refused.ENTRY)
SERVES = Served(AlterReplicaLogDirsRequest, is_paced=True, needs=(ALTER_CLUSTER,))


def handle(broker: Broker, request: AlterReplicaLogDirsRequest, context: RequestContext) -> AlterReplicaLogDirsResponse:
    is_allowed = ALTER_CLUSTER.is_met(broker, context)
    results: dict[str, dict[int, int]] = defaultdict(dict)
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                name = TopicPartition(topic.name, index)
                results[topic.name][index] = (
                    _outcome(broker, name, directory.path) if is_allowed else ALTER_CLUSTER.code
                )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index, code in codes.items()
                ],
            )
            for name, codes in results.items()
        ]
    )


def _outcome(broker: Broker, name: TopicPartition, path: str) -> int:
    try:
        _begin(broker, name, path)
    except BrokerError as error:
        log.warning("%s stays where it is: %s", name, error)
        return error.code
    return NONE


def _begin(broker: Broker, name: TopicPartition, path: str) -> None:
    if len(str(name)) + FUTURE_SUFFIX_BYTES > FILE_NAME_LIMIT:
        raise InvalidTopicException(f"the name of {name.topic} is too long for a copy of its log")
    directory = next((each for each in broker.replicas.directories if str(each.path.absolute()) == path), None)
    if directory is None:
        raise LogDirNotFound(f"{path} is not in log.dirs")
    if directory.failure is not None:
        raise directory.failure
    partition = broker.replicas.get(name)
    if partition is None:
        if broker.image.partition(name.topic, name.partition) is None:
            raise UnknownTopicOrPartition(str(name))
        broker.replicas.prefer(name, directory)
        raise NotLeaderOrFollower(f"{name} is not on this broker")
    if partition.offline is not None:
        raise partition.offline
    broker.log_dir_moves.begin(partition, directory)
