"""FetchSnapshot (key 59): a replica of the metadata log reads a snapshot from the leader, piece by piece.

A piece starts at `position` of the file and ends anywhere; `size` is that of the whole file.

What each version changed:

    1: directory ids of replicas (KIP-853); request gains replica_directory_id; response gains node_endpoints.
"""

from ottla.protocol.schema import (
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    String,
    Struct,
    UInt16,
    Uuid,
    tagged,
)


class SnapshotId(Struct):
    end_offset: Int64
    epoch: Int32


class PartitionSnapshot(Struct):
    partition: Int32
    current_leader_epoch: Int32
    snapshot_id: SnapshotId
    position: Int64
    replica_directory_id: Uuid = tagged(0, since=1, default=ZERO_UUID, ignorable=True)


class TopicSnapshot(Struct):
    name: String
    partitions: list[PartitionSnapshot]


class FetchSnapshotRequest(Message, versions="0-1", flexible=0):
    cluster_id: String | None = tagged(0, default=None)
    replica_id: Int32 = -1
    max_bytes: Int32 = 2_147_483_647
    topics: list[TopicSnapshot]


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class ResponsePartitionSnapshot(Struct):
    index: Int32
    error_code: Int16
    snapshot_id: SnapshotId
    current_leader: LeaderIdAndEpoch = tagged(0, factory=LeaderIdAndEpoch)
    size: Int64
    position: Int64
    unaligned_records: Records


class ResponseTopicSnapshot(Struct):
    name: String
    partitions: list[ResponsePartitionSnapshot]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: UInt16


class FetchSnapshotResponse(Message, versions="0-1", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    topics: list[ResponseTopicSnapshot]
    node_endpoints: list[NodeEndpoint] = tagged(0, since=1, factory=list)
