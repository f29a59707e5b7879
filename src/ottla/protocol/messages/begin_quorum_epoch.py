"""BeginQuorumEpoch (key 53): the new leader of the metadata quorum tells voters that its epoch has begun.

What each version changed:

    1: voters are named by id and directory (KIP-853); request gains voter_id, voter_directory_id, leader_endpoints;
        response gains node_endpoints; flexible.
"""

from ottla.protocol.schema import ZERO_UUID, Int16, Int32, Message, String, Struct, UInt16, Uuid, since, tagged


class PartitionData(Struct):
    partition_index: Int32
    voter_directory_id: Uuid = since(1, default=ZERO_UUID, ignorable=True)
    leader_id: Int32
    leader_epoch: Int32


class TopicData(Struct):
    topic_name: String
    partitions: list[PartitionData]


class LeaderEndpoint(Struct):
    name: String
    host: String
    port: UInt16


class BeginQuorumEpochRequest(Message, versions="0-1", flexible=1):
    cluster_id: String | None = None
    voter_id: Int32 = since(1, default=-1, ignorable=True)
    topics: list[TopicData]
    leader_endpoints: list[LeaderEndpoint] = since(1, factory=list, ignorable=True)


class ResponsePartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    leader_id: Int32
    leader_epoch: Int32


class ResponseTopicData(Struct):
    topic_name: String
    partitions: list[ResponsePartitionData]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: UInt16


class BeginQuorumEpochResponse(Message, versions="0-1", flexible=1):
    error_code: Int16
    topics: list[ResponseTopicData]
    node_endpoints: list[NodeEndpoint] = tagged(0, since=1, factory=list)
