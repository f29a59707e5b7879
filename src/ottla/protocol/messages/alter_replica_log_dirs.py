"""AlterReplicaLogDirs (key 34): move replicas between the log directories of one broker.

What each version changed:

    1: lowest served; the client waits out a throttle.
    2: flexible.
"""

from ottla.protocol.schema import Int16, Int32, Message, String, Struct


class AlterReplicaLogDirTopic(Struct):
    name: String
    partitions: list[Int32]


class AlterReplicaLogDir(Struct):
    path: String
    topics: list[AlterReplicaLogDirTopic]


class AlterReplicaLogDirsRequest(Message, versions="1-2", flexible=2):
    dirs: list[AlterReplicaLogDir]


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32
    error_code: Int16


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: String
    partitions: list[AlterReplicaLogDirPartitionResult]


class AlterReplicaLogDirsResponse(Message, versions="1-2", flexible=2):
    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult]
