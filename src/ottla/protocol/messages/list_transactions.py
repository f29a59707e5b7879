"""ListTransactions (key 66): the transactions a coordinator looks after.

What each version changed:

    1: filter by duration; request gains duration_filter.
    2: filter by pattern of the id; request gains transactional_id_pattern.
"""

from ottla.protocol.schema import Int16, Int32, Int64, Message, String, Struct, since


class ListTransactionsRequest(Message, versions="0-2", flexible=0):
    state_filters: list[String]
    producer_id_filters: list[Int64]
    duration_filter: Int64 = since(1, default=-1)
    transactional_id_pattern: String | None = since(2, default=None)


class TransactionState(Struct):
    transactional_id: String
    producer_id: Int64
    transaction_state: String


class ListTransactionsResponse(Message, versions="0-2", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    unknown_state_filters: list[String]
    transaction_states: list[TransactionState]
