"""AddPartitionsToTxn (key 24): partitions become part of a transaction.

What each version changed:

    1: the client waits out a throttle.
    2: PRODUCER_FENCED may be answered.
    3: flexible.
    4: from broker to broker: many transactions, verify only; request gains transactions; request loses
        v3_and_below_transactional_id, v3_and_below_producer_id, v3_and_below_producer_epoch, v3_and_below_topics;
        response gains error_code, results_by_transaction; response loses results_by_topic_v3_and_below.
    5: TRANSACTION_ABORTABLE may be answered.
"""

from ottla.protocol.schema import Bool, Int16, Int32, Int64, Message, String, Struct, since


class AddPartitionsToTxnTopic(Struct):
    name: String
    partitions: list[Int32]


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = False
    topics: list[AddPartitionsToTxnTopic]


class AddPartitionsToTxnRequest(Message, versions="0-5", flexible=3):
    transactions: list[AddPartitionsToTxnTransaction] = since(4, factory=list)
    v3_and_below_transactional_id: String = since(0, until=3, default="")
    v3_and_below_producer_id: Int64 = since(0, until=3, default=0)
    v3_and_below_producer_epoch: Int16 = since(0, until=3, default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = since(0, until=3, factory=list)


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32
    partition_error_code: Int16


class AddPartitionsToTxnTopicResult(Struct):
    name: String
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(Struct):
    transactional_id: String
    topic_results: list[AddPartitionsToTxnTopicResult]


class AddPartitionsToTxnResponse(Message, versions="0-5", flexible=3):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(4, default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = since(4, factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = since(0, until=3, factory=list)
