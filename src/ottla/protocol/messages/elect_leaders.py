"""ElectLeaders (key 43): elect preferred leaders, or unclean ones when nothing else is left.

What each version changed:

    1: unclean election too; request gains election_type; response gains error_code.
    2: flexible.
"""

from ottla.protocol.schema import Int8, Int16, Int32, Message, String, Struct, since


class TopicPartitions(Struct):
    topic: String
    partitions: list[Int32]


class ElectLeadersRequest(Message, versions="0-2", flexible=2):
    election_type: Int8 = since(1, default=0)
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: Int32 = 60000


class PartitionResult(Struct):
    partition_id: Int32
    error_code: Int16
    error_message: String | None = None


class ReplicaElectionResult(Struct):
    topic: String
    partition_result: list[PartitionResult]


class ElectLeadersResponse(Message, versions="0-2", flexible=2):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(1, default=0)
    replica_election_results: list[ReplicaElectionResult]
