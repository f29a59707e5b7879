"""How long transactions may take, how long their ids are remembered, and how many of them one coordinator keeps.

The names and defaults are Kafka's, but for the two limits at the end, which Kafka does not have.
"""

from __future__ import annotations

from typing import Final

from ottla.settings import Settings, setting

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS


class TransactionSettings(Settings):
    transaction_max_timeout_ms = setting(
        "transaction.max.timeout.ms",
        int,
        default=15 * MINUTE_MS,
        at_least=1,
        importance="high",
        unit="ms",
        doc="The longest time-out a producer may ask for. A longer transaction holds back every reader of committed "
        "records; producers that ask for more get INVALID_TRANSACTION_TIMEOUT.",
    )
    transactional_id_expiration_ms = setting(
        "transactional.id.expiration.ms",
        int,
        default=7 * DAY_MS,
        at_least=1,
        importance="high",
        unit="ms",
        doc="How long a transactional id is remembered after its last transaction. Ids with an open transaction never "
        "expire; a producer whose id has expired must be initialised again.",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        int,
        default=10_000,
        at_least=1,
        importance="low",
        unit="ms",
        doc="How often the coordinator looks for transactions that have timed out and aborts them.",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        int,
        default=HOUR_MS,
        at_least=1,
        importance="low",
        unit="ms",
        doc="How often the coordinator looks for transactional ids that have expired and forgets them.",
    )
    transaction_two_phase_commit_enable = setting(
        "transaction.two.phase.commit.enable",
        bool,
        default=False,
        importance="low",
        doc="Whether a producer may keep its transaction open without a time-out until another system has decided.",
    )
    ottla_transactional_ids_max = setting(
        "ottla.transactional.ids.max",
        int,
        default=10_000,
        at_least=1,
        importance="low",
        doc="How many transactional ids one partition of __transaction_state remembers. At the limit a new id takes "
        "the place of the one that was idle longest; when none is idle, the new one is asked to try again later.",
    )
    ottla_transaction_partitions_max = setting(
        "ottla.transaction.partitions.max",
        int,
        default=10_000,
        at_least=1,
        importance="low",
        doc="How many partitions one transaction may touch. One more is refused, and the transaction has to be "
        "aborted: TRANSACTION_ABORTABLE, or INVALID_TXN_STATE for clients that do not know it.",
    )
