"""AssignReplicasToDirs (key 73): a broker tells the active controller which directory has which replica (KIP-858)."""

from ottla.protocol.schema import Int16, Int32, Int64, Message, Struct, Uuid


class PartitionData(Struct):
    partition_index: Int32


class TopicData(Struct):
    topic_id: Uuid
    partitions: list[PartitionData]


class DirectoryData(Struct):
    id: Uuid
    topics: list[TopicData]


class AssignReplicasToDirsRequest(Message, versions="0", flexible=0):
    broker_id: Int32
    broker_epoch: Int64 = -1
    directories: list[DirectoryData]


class ResponsePartitionData(Struct):
    partition_index: Int32
    error_code: Int16


class ResponseTopicData(Struct):
    topic_id: Uuid
    partitions: list[ResponsePartitionData]


class ResponseDirectoryData(Struct):
    id: Uuid
    topics: list[ResponseTopicData]


class AssignReplicasToDirsResponse(Message, versions="0", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    directories: list[ResponseDirectoryData]
