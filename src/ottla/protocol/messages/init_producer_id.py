"""InitProducerId (key 22): a producer gets its id and epoch, and fences its predecessors.

What each version changed:

    1: the client waits out a throttle.
    2: flexible.
    3: a producer may bump its own epoch; request gains producer_id, producer_epoch.
    4: PRODUCER_FENCED may be answered.
    5: TRANSACTION_ABORTABLE may be answered.
    6: two-phase commit (KIP-939); unstable, not advertised; request gains enable2pc, keep_prepared_txn; response
        gains ongoing_txn_producer_id, ongoing_txn_producer_epoch.
"""

from ottla.protocol.schema import Bool, Int16, Int32, Int64, Message, String, since


class InitProducerIdRequest(Message, versions="0-6", flexible=2):
    transactional_id: String | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = since(3, default=-1)
    producer_epoch: Int16 = since(3, default=-1)
    enable2pc: Bool = since(6, default=False)
    keep_prepared_txn: Bool = since(6, default=False)


class InitProducerIdResponse(Message, versions="0-6", flexible=2):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id: Int64 = -1
    producer_epoch: Int16
    ongoing_txn_producer_id: Int64 = since(6, default=-1)
    ongoing_txn_producer_epoch: Int16 = since(6, default=-1)
