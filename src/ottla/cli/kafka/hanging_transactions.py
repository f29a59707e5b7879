"""Which transactions hang: open in a partition for longer than any may last, and unknown to their coordinators.

1. Partitions are asked in portions, so that a broker with many is not asked about all at once.
2. A transaction whose partition its coordinator still has to end does not hang, however old it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.cli.kafka.java_maps import hash_order
from ottla.cli.kafka.tables import print_table
from ottla.clock import SystemClock
from ottla.errors import TransactionalIdNotFound

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.transactions import ProducerState, TransactionDescription
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
    now_ms = SystemClock().now_ms()
    candidates = []
    for portion in _portions(_partitions(admin, options)):
        candidates += list(_old(admin, options, portion, now_ms))
    hanging = _unknown_to_coordinators(admin, candidates) if candidates else []
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
        for partition, each in hanging
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


def _unknown_to_coordinators(
    admin: Admin, candidates: Sequence[tuple[TopicPartition, ProducerState]]
) -> list[tuple[TopicPartition, ProducerState]]:
    from ottla.cli.kafka.transactions import failing_with

    producers = sorted({each.producer_id for _, each in candidates})
    with failing_with(f"Failed to list transactions for {len(producers)} producers"):
        listed = admin.list_transactions(producer_ids=producers)
    names = {each.producer_id: each.transactional_id for each in listed}
    with failing_with(f"Failed to describe {len(names)} transactions"):
        known = {producer: _described(admin, name) for producer, name in names.items()}
    return [
        (partition, each)
        for partition, each in candidates
        if (transaction := known.get(each.producer_id)) is None or partition not in transaction.partitions
    ]


def _described(admin: Admin, name: str) -> TransactionDescription | None:
    try:
        return admin.describe_transactions([name])[name]
    except TransactionalIdNotFound:
        return None
