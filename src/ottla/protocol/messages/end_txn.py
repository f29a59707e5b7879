"""EndTxn (key 26): commit or abort a transaction.

What each version changed:

    1: the client waits out a throttle.
    2: PRODUCER_FENCED may be answered.
    3: flexible.
    4: TRANSACTION_ABORTABLE may be answered.
    5: every end bumps the epoch (KIP-890); response gains producer_id, producer_epoch.
"""

from ottla.protocol.schema import Bool, Int16, Int32, Int64, Message, String, since


class EndTxnRequest(Message, versions="0-5", flexible=3):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


class EndTxnResponse(Message, versions="0-5", flexible=3):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id: Int64 = since(5, default=-1, ignorable=True)
    producer_epoch: Int16 = since(5, default=-1, ignorable=True)
