"""Metadata (key 3): who the brokers are and who leads which partition; the first thing every client asks.

What each version changed:

    1: a null topic list asks for all, an empty one for none; response gains rack, controller_id, is_internal.
    2: response gains cluster_id.
    3: response gains throttle_time_ms.
    4: auto-creation can be refused; request gains allow_auto_topic_creation.
    5: response gains offline_replicas.
    6: the client waits out a throttle.
    7: leader epochs; response gains leader_epoch.
    8: authorized operations on demand; request gains include_cluster_authorized_operations,
        include_topic_authorized_operations; response gains topic_authorized_operations,
        cluster_authorized_operations.
    9: flexible.
    10: topic ids in the answer; request gains topic_id; response gains topic_id.
    11: request loses include_cluster_authorized_operations; response loses cluster_authorized_operations.
    12: topics by id in the request.
    13: top-level error, for REBOOTSTRAP_REQUIRED; response gains error_code.
"""

from ottla.protocol.schema import ZERO_UUID, Bool, Int16, Int32, Message, String, Struct, Uuid, since


class MetadataRequestTopic(Struct):
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    name: String | None = since(0, nullable_since=10)


class MetadataRequest(Message, versions="0-13", flexible=9):
    topics: list[MetadataRequestTopic] | None = since(0, nullable_since=1)
    allow_auto_topic_creation: Bool = since(4, default=True)
    include_cluster_authorized_operations: Bool = since(8, until=10, default=False)
    include_topic_authorized_operations: Bool = since(8, default=False)


class MetadataResponseBroker(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = since(1, default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = since(7, default=-1, ignorable=True)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: list[Int32] = since(5, factory=list, ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: Int16
    name: String | None = since(0, nullable_since=12)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    is_internal: Bool = since(1, default=False, ignorable=True)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: Int32 = since(8, default=-(1 << 31))


class MetadataResponse(Message, versions="0-13", flexible=9):
    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)
    brokers: list[MetadataResponseBroker]
    cluster_id: String | None = since(2, default=None, ignorable=True)
    controller_id: Int32 = since(1, default=-1, ignorable=True)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = since(8, until=10, default=-(1 << 31))
    error_code: Int16 = since(13, default=0, ignorable=True)
