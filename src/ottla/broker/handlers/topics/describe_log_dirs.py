"""DescribeLogDirs: the log directories of this broker, and how much lies in each.

A replica on its way to another directory is in both: where it lies, and as a copy (is_future_key) with how far that is
behind. Null topics asks about all partitions; partitions that are not here are left out. A directory that is offline is
told with KAFKA_STORAGE_ERROR and nothing else. Before version 4 the size of the volume is not told, before version 5
not whether a directory is cordoned. A size that nobody knows (a disk in memory) is -1.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.broker.replication.manager import Directory
from ottla.broker.replication.partition import Partition
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.errors import KafkaStorageError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.storage.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

UNKNOWN_BYTES: Final = -1


DESCRIBE_CLUSTER = Need(AclOperation.DESCRIBE, AclResource.CLUSTER)
SERVES = Served(DescribeLogDirsRequest, needs=(DESCRIBE_CLUSTER,))


def handle(broker: Broker, request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    if not DESCRIBE_CLUSTER.is_met(broker, context):
        return DescribeLogDirsResponse(error_code=DESCRIBE_CLUSTER.code, results=[])
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    by_directory: dict[Path, list[Partition]] = defaultdict(list)
    for partition in broker.replicas:
        if wanted is None or partition.name in wanted:
            by_directory[partition.log.directory.parent].append(partition)
    futures: dict[Path, list[PartitionLog]] = defaultdict(list)
    for name, copy in broker.replicas.futures():
        if wanted is None or name in wanted:
            futures[copy.directory.parent].append(copy)
    cordoned = broker.replicas.cordoned
    return DescribeLogDirsResponse(
        results=[
            _result(
                directory,
                _topics(broker, by_directory.get(directory.path, []), futures.get(directory.path, [])),
                directory.path in cordoned,
            )
            for directory in broker.replicas.directories
        ]
    )


def _result(directory: Directory, topics: list[DescribeLogDirsTopic], is_cordoned: bool) -> DescribeLogDirsResult:
    path = str(directory.path.absolute())
    try:
        if directory.failure is not None:
            raise directory.failure
        usable_bytes = directory.files.free_bytes(directory.path)
    except KafkaStorageError as error:
        return DescribeLogDirsResult(error_code=error.code, log_dir=path, topics=[], is_cordoned=is_cordoned)
    return DescribeLogDirsResult(
        error_code=0,
        log_dir=path,
        topics=topics,
        total_bytes=_total_bytes(directory.path),
        usable_bytes=usable_bytes,
        is_cordoned=is_cordoned,
    )


def _topics(broker: Broker, partitions: list[Partition], copies: list[PartitionLog]) -> list[DescribeLogDirsTopic]:
    by_topic: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    for partition in sorted(partitions, key=lambda each: each.name):
        log = partition.log
        described = DescribeLogDirsPartition(
            partition_index=partition.name.partition,
            partition_size=log.size_bytes,
            # How far the log is behind what is committed: 0 on every leader.
            offset_lag=max(log.high_watermark - log.log_end_offset, 0),
            is_future_key=False,
        )
        by_topic[partition.name.topic].append(described)
    for copy in sorted(copies, key=lambda each: each.topic_partition):
        described = DescribeLogDirsPartition(
            partition_index=copy.topic_partition.partition,
            partition_size=copy.size_bytes,
            offset_lag=broker.log_dir_moves.lag(copy.topic_partition),
            is_future_key=True,
        )
        by_topic[copy.topic_partition.topic].append(described)
    return [DescribeLogDirsTopic(name=name, partitions=found) for name, found in by_topic.items()]


def _total_bytes(path: Path) -> int:
    try:
        volume = os.statvfs(path)
    except OSError:
        return UNKNOWN_BYTES
    return volume.f_blocks * volume.f_frsize
