"""Fetch (key 1): a consumer, or a follower, reads record batches from a leader.

What each version changed:

    4: lowest served; isolation level and aborted transactions.
    5: request gains log_start_offset; response gains log_start_offset.
    7: fetch sessions (KIP-227); request gains session_id, session_epoch, forgotten_topics_data; response gains
        error_code, session_id.
    8: the client waits out a throttle.
    9: the leader epoch is checked (KIP-320); request gains current_leader_epoch.
    10: zstd allowed.
    11: rack and preferred replica (KIP-392); request gains rack_id; response gains preferred_read_replica.
    12: diverging epochs (KIP-595); request gains cluster_id, last_fetched_epoch; response gains diverging_epoch,
        current_leader, snapshot_id; flexible.
    13: topics by id (KIP-516); request gains topic_id; request loses topic; response gains topic_id; response loses
        topic.
    14: OFFSET_MOVED_TO_TIERED_STORAGE may be answered.
    15: replica id and epoch move into tags (KIP-903); request gains replica_state; request loses replica_id.
    16: the answer may name the new leader; response gains node_endpoints.
    17: directory ids of replicas; request gains replica_directory_id.
    18: followers tell their high watermark; request gains high_watermark.
"""

from ottla.protocol.schema import (
    ZERO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    String,
    Struct,
    Uuid,
    since,
    tagged,
)


class ReplicaState(Struct):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Struct):
    partition: Int32
    current_leader_epoch: Int32 = since(9, default=-1, ignorable=True)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = since(12, default=-1)
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    partition_max_bytes: Int32
    replica_directory_id: Uuid = tagged(0, since=17, default=ZERO_UUID, ignorable=True)
    high_watermark: Int64 = tagged(1, since=18, default=(1 << 63) - 1, ignorable=True)


class FetchTopic(Struct):
    topic: String = since(0, until=12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    topic: String = since(0, until=12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: list[Int32]


class FetchRequest(Message, versions="4-18", flexible=12):
    cluster_id: String | None = tagged(0, since=12, default=None, ignorable=True)
    replica_id: Int32 = since(0, until=14, default=-1)
    replica_state: ReplicaState = tagged(1, since=15, factory=ReplicaState)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 2_147_483_647
    isolation_level: Int8 = 0
    session_id: Int32 = since(7, default=0, ignorable=True)
    session_epoch: Int32 = since(7, default=-1, ignorable=True)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = since(7, factory=list)
    rack_id: String = since(11, default="", ignorable=True)


class EpochEndOffset(Struct):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Struct):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct):
    producer_id: Int64
    first_offset: Int64


class PartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = tagged(0, since=12, factory=EpochEndOffset)
    current_leader: LeaderIdAndEpoch = tagged(1, since=12, factory=LeaderIdAndEpoch)
    snapshot_id: SnapshotId = tagged(2, since=12, factory=SnapshotId)
    aborted_transactions: list[AbortedTransaction] | None
    preferred_read_replica: Int32 = since(11, default=-1)
    records: Records | None


class FetchableTopicResponse(Struct):
    topic: String = since(0, until=12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


class FetchResponse(Message, versions="4-18", flexible=12):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(7, default=0, ignorable=True)
    session_id: Int32 = since(7, default=0)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = tagged(0, since=16, factory=list)
