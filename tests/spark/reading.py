"""Reads partitions to their end as it is now: an empty poll says nothing, on a busy machine it is only too early."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.patience import HANG_S

from ottla import Consumer
from ottla.client.consumer.record_choice import ConsumerRecord


def read_to_end(consumer: Consumer) -> Iterator[ConsumerRecord]:
    """Every record of the assigned partitions from the consumer's position on; committed ones, if it reads those."""
    partitions = list(consumer.assignment())
    ends = consumer.end_offsets(partitions, timeout=HANG_S)
    give_up_s = time.monotonic() + HANG_S
    while any(consumer.position(each, timeout=HANG_S) < ends[each] for each in partitions):
        assert time.monotonic() < give_up_s, f"not read to {ends} within {HANG_S} s"
        yield from consumer.poll(1.0)
