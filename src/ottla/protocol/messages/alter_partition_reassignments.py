"""AlterPartitionReassignments (key 45): move partitions to other brokers, or cancel that.

What each version changed:

    1: the replication factor may be held fixed; request gains allow_replication_factor_change; response gains
        allow_replication_factor_change.
"""

from ottla.protocol.schema import Bool, Int16, Int32, Message, String, Struct, since


class ReassignablePartition(Struct):
    partition_index: Int32
    replicas: list[Int32] | None = None


class ReassignableTopic(Struct):
    name: String
    partitions: list[ReassignablePartition]


class AlterPartitionReassignmentsRequest(Message, versions="0-1", flexible=0):
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Bool = since(1, default=True)
    topics: list[ReassignableTopic]


class ReassignablePartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = None


class ReassignableTopicResponse(Struct):
    name: String
    partitions: list[ReassignablePartitionResponse]


class AlterPartitionReassignmentsResponse(Message, versions="0-1", flexible=0):
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = since(1, default=True, ignorable=True)
    error_code: Int16
    error_message: String | None = None
    responses: list[ReassignableTopicResponse]
