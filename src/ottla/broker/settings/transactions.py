"""The topic of transactions, and what is remembered of producers.

How long a transaction may take is declared with its coordinator.
"""

from __future__ import annotations

from ottla.broker.settings.no_effect import INTERNAL_LOADING
from ottla.settings import SHORT, Settings, setting


class TransactionLogSettings(Settings):
    transaction_state_log_num_partitions = setting(
        "transaction.state.log.num.partitions",
        int,
        default=50,
        at_least=1,
        importance="high",
        doc="How many partitions the topic of transactions gets; it must not change later.",
    )
    transaction_state_log_replication_factor = setting(
        "transaction.state.log.replication.factor",
        SHORT,
        default=3,
        at_least=1,
        importance="high",
        doc="How many replicas the topic of transactions gets; 1 on a broker of its own.",
    )
    transaction_state_log_min_isr = setting(
        "transaction.state.log.min.isr",
        int,
        default=2,
        at_least=1,
        importance="high",
        doc="How many replicas of the topic of transactions must be in sync; 1 on a broker of its own.",
    )
    transaction_state_log_segment_bytes = setting(
        "transaction.state.log.segment.bytes",
        int,
        default=104_857_600,
        at_least=1,
        unit="bytes",
        importance="high",
        doc="How large a segment of the topic of transactions may grow; small ones load faster.",
    )
    transaction_state_log_load_buffer_size = setting(
        "transaction.state.log.load.buffer.size",
        int,
        default=5_242_880,
        at_least=1,
        unit="bytes",
        importance="high",
        no_effect=INTERNAL_LOADING,
        doc="How many bytes are read at a time when transactions are loaded.",
    )
    transaction_partition_verification_enable = setting(
        "transaction.partition.verification.enable",
        bool,
        default=True,
        importance="low",
        dynamic="cluster-wide",
        doc="Whether a partition asks the coordinator before it takes the first record of a transaction of "
        "an older client.",
    )
    add_partitions_to_txn_retry_backoff_ms = setting(
        "add.partitions.to.txn.retry.backoff.ms",
        int,
        default=20,
        at_least=1,
        unit="ms",
        importance="high",
        doc="How long a broker waits before it asks the coordinator again whether a partition takes part in a "
        "transaction.",
    )
    add_partitions_to_txn_retry_backoff_max_ms = setting(
        "add.partitions.to.txn.retry.backoff.max.ms",
        int,
        default=100,
        at_least=0,
        unit="ms",
        importance="high",
        doc="How long a broker may ask the coordinator whether a partition takes part in a transaction, before the "
        "client is told to try again.",
    )
    producer_id_expiration_ms = setting(
        "producer.id.expiration.ms",
        int,
        default=86_400_000,
        at_least=1,
        unit="ms",
        importance="low",
        dynamic="cluster-wide",
        doc="How long a partition remembers a producer that is silent, to recognise what is sent twice.",
    )
    producer_id_expiration_check_interval_ms = setting(
        "producer.id.expiration.check.interval.ms",
        int,
        default=600_000,
        at_least=1,
        unit="ms",
        importance="low",
        doc="How often producers that are forgotten are looked for.",
    )
