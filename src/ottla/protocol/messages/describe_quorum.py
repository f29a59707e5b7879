"""DescribeQuorum (key 55): state of the Raft quorum (KRaft clusters).

What each version changed:

    1: response gains last_fetch_timestamp, last_caught_up_timestamp.
    2: response gains error_message, replica_directory_id, nodes.
"""

from ottla.protocol.schema import ZERO_UUID, Int16, Int32, Int64, Message, String, Struct, UInt16, Uuid, since


class PartitionData(Struct):
    partition_index: Int32


class TopicData(Struct):
    topic_name: String
    partitions: list[PartitionData]


class DescribeQuorumRequest(Message, versions="0-2", flexible=0):
    topics: list[TopicData]


class ReplicaState(Struct):
    replica_id: Int32
    replica_directory_id: Uuid = since(2, default=ZERO_UUID)
    log_end_offset: Int64
    last_fetch_timestamp: Int64 = since(1, default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = since(1, default=-1, ignorable=True)


class ResponsePartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = since(2, default=None, ignorable=True)
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


class ResponseTopicData(Struct):
    topic_name: String
    partitions: list[ResponsePartitionData]


class Listener(Struct):
    name: String
    host: String
    port: UInt16


class Node(Struct):
    node_id: Int32
    listeners: list[Listener]


class DescribeQuorumResponse(Message, versions="0-2", flexible=0):
    error_code: Int16
    error_message: String | None = since(2, default=None, ignorable=True)
    topics: list[ResponseTopicData]
    nodes: list[Node] = since(2, factory=list)
