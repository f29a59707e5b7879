"""WriteTxnMarkers (key 27): the transaction coordinator has commit and abort markers written into partitions.

What each version changed:

    1: lowest served.
    2: the transaction version travels with the marker (KIP-1228); request gains transaction_version.
"""

from ottla.protocol.schema import Bool, Int8, Int16, Int32, Int64, Message, String, Struct, since


class WritableTxnMarkerTopic(Struct):
    name: String
    partition_indexes: list[Int32]


class WritableTxnMarker(Struct):
    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Int8 = since(2, default=0, ignorable=True)


class WriteTxnMarkersRequest(Message, versions="1-2", flexible=1):
    markers: list[WritableTxnMarker]


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: Int32
    error_code: Int16


class WritableTxnMarkerTopicResult(Struct):
    name: String
    partitions: list[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerResult(Struct):
    producer_id: Int64
    topics: list[WritableTxnMarkerTopicResult]


class WriteTxnMarkersResponse(Message, versions="1-2", flexible=1):
    markers: list[WritableTxnMarkerResult]
