"""CreatePartitions (key 37): give topics more partitions.

What each version changed:

    1: the client waits out a throttle.
    2: flexible.
    3: THROTTLING_QUOTA_EXCEEDED may be answered.
"""

from ottla.protocol.schema import Bool, Int16, Int32, Message, String, Struct


class CreatePartitionsAssignment(Struct):
    broker_ids: list[Int32]


class CreatePartitionsTopic(Struct):
    name: String
    count: Int32
    assignments: list[CreatePartitionsAssignment] | None


class CreatePartitionsRequest(Message, versions="0-3", flexible=2):
    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool


class CreatePartitionsTopicResult(Struct):
    name: String
    error_code: Int16
    error_message: String | None = None


class CreatePartitionsResponse(Message, versions="0-3", flexible=2):
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult]
