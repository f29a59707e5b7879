"""AddOffsetsToTxn (key 25): a group's offsets become part of a transaction.

What each version changed:

    1: the client waits out a throttle.
    2: PRODUCER_FENCED may be answered.
    3: flexible.
    4: TRANSACTION_ABORTABLE may be answered.
"""

from ottla.protocol.schema import Int16, Int32, Int64, Message, String


class AddOffsetsToTxnRequest(Message, versions="0-4", flexible=3):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


class AddOffsetsToTxnResponse(Message, versions="0-4", flexible=3):
    throttle_time_ms: Int32 = 0
    error_code: Int16
