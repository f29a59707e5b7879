"""EndQuorumEpoch (key 54): the leader of the metadata quorum resigns, and names who should stand for election first.

What each version changed:

    1: candidates are named by id and directory (KIP-853); request gains preferred_candidates, leader_endpoints;
        request loses preferred_successors; response gains node_endpoints; flexible.
"""

from ottla.protocol.schema import Int16, Int32, Message, String, Struct, UInt16, Uuid, since, tagged


class ReplicaInfo(Struct):
    candidate_id: Int32
    candidate_directory_id: Uuid


class PartitionData(Struct):
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32
    preferred_successors: list[Int32] = since(0, until=0, factory=list, ignorable=True)
    preferred_candidates: list[ReplicaInfo] = since(1, factory=list, ignorable=True)


class TopicData(Struct):
    topic_name: String
    partitions: list[PartitionData]


class LeaderEndpoint(Struct):
    name: String
    host: String
    port: UInt16


class EndQuorumEpochRequest(Message, versions="0-1", flexible=1):
    cluster_id: String | None = None
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


class EndQuorumEpochResponse(Message, versions="0-1", flexible=1):
    error_code: Int16
    topics: list[ResponseTopicData]
    node_endpoints: list[NodeEndpoint] = tagged(0, since=1, factory=list)
