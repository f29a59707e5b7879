"""Which transactions hang: open in a partition for longer than any may last, and unknown to their coordinators.

1. Partitions are asked in portions, so that a broker with many is not asked about all at once.
2. Which of the old ones their coordinators do not know is found as for `ottla txn` (operations/transactions.py).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.cli.kafka.java_maps import hash_order
from ottla.cli.kafka.tables import print_table
from ottla.cli.operations.transactions import hanging
from ottla.clock import SystemClock

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.transactions import ProducerState
    from ottla.values import TopicPartition

PORTION: Final = 500
MINUTE_MS: Final = 60_000
HEADINGS: Final = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)
T = TypeVar("T")


def find_hanging(admin: Admin, options: argparse.Namespace) -> None:
    from ottla.cli.kafka.transactions import failing_with

    now_ms = SystemClock().now_ms()
    candidates = []
    for portion in _portions(_partitions(admin, options)):
        candidates += list(_old(admin, options, portion, now_ms))
    found = hanging(admin, candidates, lambda what: failing_with(f"Failed to {what}"))
    rows = [
        (
            partition.topic,
            partition.partition,
            each.producer_id,
            each.producer_epoch,
            -1 if each.coordinator_epoch is None else each.coordinator_epoch,
            -1 if each.transaction_start_offset is None else each.transaction_start_offset,
            each.last_timestamp_ms,
            (now_ms - each.last_timestamp_ms) // MINUTE_MS,
        )
        for partition, each in found
    ]
    print_table(HEADINGS, rows)


def _portions(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), PORTION):
        yield items[start : start + PORTION]


def _partitions(admin: Admin, options: argparse.Namespace) -> list[TopicPartition]:
    from ottla.cli.kafka.transactions import failing_with
    from ottla.values import TopicPartition

    if options.topic is not None and options.partition is not None:
        return [TopicPartition(options.topic, options.partition)]
    with failing_with("Failed to list topics"):
        names = [options.topic] if options.topic else hash_order(admin.list_topics(include_internal=True))
    found = []
    for portion in _portions(names):
        with failing_with(f"Failed to describe {len(portion)} topics", *portion):
            topics = admin.describe_topics(portion)
        found += [
            TopicPartition(name, each.partition)
            for name, topic in topics.items()
            for each in topic.partitions
            if options.broker_id is None or options.broker_id in each.replicas
        ]
    return found


def _old(
    admin: Admin, options: argparse.Namespace, partitions: Sequence[TopicPartition], now_ms: int
) -> Iterator[tuple[TopicPartition, ProducerState]]:
    from ottla.cli.kafka.transactions import failing_with

    whom = "Optional.empty" if options.broker_id is None else f"Optional[{options.broker_id}]"
    with failing_with(f"Failed to describe producers for {len(partitions)} partitions on broker {whom}"):
        found = admin.describe_producers(partitions, broker=options.broker_id)
    limit_ms = options.max_transaction_timeout * MINUTE_MS
    for partition, producers in found.items():
        for each in producers:
            if each.transaction_start_offset is not None and now_ms - each.last_timestamp_ms > limit_ms:
                yield partition, each
