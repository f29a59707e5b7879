"""How old the first record is that somebody has not read: lag in seconds (lag.py), asked of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.connecting import BOOTSTRAP
from ottla.clock import SystemClock

if TYPE_CHECKING:
    from ottla.values import TopicPartition

AGE_LIMIT_S: Final = 5.0
"""So long at most it is tried: a record that does not come leaves its partition without an age."""


def ages_of(settings: Mapping[str, object], first_unread: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
    """How old the first unread record of each partition is, in seconds."""
    from ottla.client.consumer.consumer import Consumer

    if not first_unread:
        return {}
    clock = SystemClock()
    deadline_ms = clock.monotonic_ms() + AGE_LIMIT_S * 1000
    ages: dict[TopicPartition, float] = {}
    reading = {name: value for name, value in settings.items() if name not in ("group.id", "enable.auto.commit")}
    reading |= {"enable.auto.commit": "false", "auto.offset.reset": "earliest", BOOTSTRAP: settings[BOOTSTRAP]}
    with Consumer(reading) as consumer:
        consumer.assign(list(first_unread))
        for partition, offset in first_unread.items():
            consumer.seek(partition, offset)
        while len(ages) < len(first_unread) and clock.monotonic_ms() < deadline_ms:
            for record in consumer.poll(0.2):
                partition = _partition_of(record)
                if partition not in ages:
                    ages[partition] = max(clock.now_ms() - record.timestamp_ms, 0) / 1000
                    consumer.pause(partition)
    return ages


def _partition_of(record: Any) -> TopicPartition:
    from ottla.values import TopicPartition

    return TopicPartition(record.topic, record.partition)
