"""Records at a rate, and the figures of Kafka's perf tools, which people parse: for those tools and for `ottla perf`.

1. Records are sent in portions, small ones when there is a rate to keep, so that they are spread over the second; the
   latency of a portion is that of its last record.
2. The result line is that of kafka-producer-perf-test, the columns are those of kafka-consumer-perf-test.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ottla.cli.latencies import Latencies
    from ottla.client.consumer.consumer import Consumer
    from ottla.client.producer.producer import Producer
    from ottla.clock import Clock
    from ottla.values import TopicPartition

MEGABYTE: Final = 1024 * 1024
PERCENTILES: Final = ((0.5, "50th"), (0.95, "95th"), (0.99, "99th"), (0.999, "99.9th"))
COLUMNS: Final = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, "
    "fetch.nMsg.sec"
)


# --- writing ---------------------------------------------------------------------------------------------------------


def portion_size(rate: float, most: int) -> int:
    """How many records are sent at once; a rate of zero or less is none."""
    return most if rate <= 0 else max(min(int(rate / 100), most), 1)


def send_portion(
    producer: Producer, topic: str, values: Sequence[bytes], ended: Callable[[int, float, Any], object], clock: Clock
) -> None:
    """Send them; `ended` hears how many they were, when they were sent, and the future of the last one."""
    sent_ms = clock.monotonic_ms()
    count = len(values)
    if count > 1:
        producer.send_many(topic, values[:-1])
    last = producer.send(topic, values[-1])
    last.add_done_callback(lambda future: ended(count, sent_ms, future))


def keep_pace(clock: Clock, started_ms: float, sent: int, rate: float) -> None:
    """Wait until so many may have been sent."""
    if rate > 0:
        ahead_ms = sent / rate * 1000 - (clock.monotonic_ms() - started_ms)
        if ahead_ms > 0:
            time.sleep(ahead_ms / 1000)


def result_line(latencies: Latencies, elapsed_ms: float, size_bytes: int, kind: str = "") -> str:
    """The line at the end; people parse it."""
    per_second = 1000 / max(elapsed_ms, 1)
    places = ", ".join(f"{latencies.percentile(share):.0f} ms {name}" for share, name in PERCENTILES)
    return (
        f"{latencies.count}{kind} records sent, {latencies.count * per_second:f} records/sec "
        f"({size_bytes * per_second / MEGABYTE:.2f} MB/sec), {latencies.mean_ms:.2f} ms avg latency, "
        f"{latencies.max_ms:.2f} ms max latency, {places}."
    )


# --- reading ---------------------------------------------------------------------------------------------------------


def consumed(count: int, size_bytes: int, elapsed_ms: float, joined_ms: float) -> dict[str, float]:
    """The columns behind the two times; `joined_ms` is what the group took to share out partitions."""
    megabytes = size_bytes / MEGABYTE
    fetch_ms = max(elapsed_ms - joined_ms, 1)
    values = (
        megabytes,
        megabytes * 1000 / elapsed_ms,
        count,
        count * 1000 / elapsed_ms,
        round(joined_ms),
        round(fetch_ms),
        megabytes * 1000 / fetch_ms,
        count * 1000 / fetch_ms,
    )
    return dict(zip(COLUMNS.split(", "), values, strict=True))


def consumed_cells(figures: dict[str, float]) -> str:
    """The columns as the tool prints them."""
    return ", ".join(str(each) if isinstance(each, int) else f"{each:.4f}" for each in figures.values())


def go_to_end(consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
    """Read these from their ends on; returns when the ends are known."""
    consumer.assign(partitions)
    consumer.seek_to_end(*partitions)
    for each in partitions:
        consumer.position(each)
