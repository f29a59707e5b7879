"""State of a transactional id: key and value in __transaction_state.

Version 1 is flexible; the producer ids before and after an epoch overflow are tags, so that older brokers skip them.
"""

from ottla.protocol.schema import Int8, Int16, Int32, Int64, Message, String, Struct, tagged


class TransactionLogKey(Message, versions="0", record_type=0):
    transactional_id: String


class PartitionsSchema(Struct):
    topic: String
    partition_ids: list[Int32]


class TransactionLogValue(Message, versions="0-1", flexible=1):
    producer_id: Int64
    previous_producer_id: Int64 = tagged(0, since=1, default=-1)
    next_producer_id: Int64 = tagged(1, since=1, default=-1)
    producer_epoch: Int16
    next_producer_epoch: Int16 = tagged(3, since=1, default=-1)
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = tagged(2, since=1, default=0)
