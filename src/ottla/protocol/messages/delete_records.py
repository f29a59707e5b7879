"""DeleteRecords (key 21): move the start of partitions forward, so that older records go.

What each version changed:

    1: the client waits out a throttle.
    2: flexible.
"""

from ottla.protocol.schema import Int16, Int32, Int64, Message, String, Struct


class DeleteRecordsPartition(Struct):
    partition_index: Int32
    offset: Int64


class DeleteRecordsTopic(Struct):
    name: String
    partitions: list[DeleteRecordsPartition]


class DeleteRecordsRequest(Message, versions="0-2", flexible=2):
    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32
    low_watermark: Int64
    error_code: Int16


class DeleteRecordsTopicResult(Struct):
    name: String
    partitions: list[DeleteRecordsPartitionResult]


class DeleteRecordsResponse(Message, versions="0-2", flexible=2):
    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult]
