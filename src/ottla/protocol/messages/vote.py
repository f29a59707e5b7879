"""Vote (key 52): a voter of the metadata quorum asks another for its vote in an epoch (Raft).

What each version changed:

    1: voters are named by id and directory (KIP-853); request gains voter_id, replica_directory_id,
        voter_directory_id; response gains node_endpoints.
    2: asked before an epoch begins, without having any effect (KIP-996); request gains pre_vote.
"""

from ottla.protocol.schema import (
    ZERO_UUID,
    Bool,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    UInt16,
    Uuid,
    since,
    tagged,
)


class PartitionData(Struct):
    partition_index: Int32
    replica_epoch: Int32
    replica_id: Int32
    replica_directory_id: Uuid = since(1, default=ZERO_UUID, ignorable=True)
    voter_directory_id: Uuid = since(1, default=ZERO_UUID, ignorable=True)
    last_offset_epoch: Int32
    last_offset: Int64
    pre_vote: Bool = since(2, default=False)


class TopicData(Struct):
    topic_name: String
    partitions: list[PartitionData]


class VoteRequest(Message, versions="0-2", flexible=0):
    cluster_id: String | None = None
    voter_id: Int32 = since(1, default=-1, ignorable=True)
    topics: list[TopicData]


class ResponsePartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    leader_id: Int32
    leader_epoch: Int32
    vote_granted: Bool


class ResponseTopicData(Struct):
    topic_name: String
    partitions: list[ResponsePartitionData]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: UInt16


class VoteResponse(Message, versions="0-2", flexible=0):
    error_code: Int16
    topics: list[ResponseTopicData]
    node_endpoints: list[NodeEndpoint] = tagged(0, since=1, factory=list)
