"""`ottla perf`: how fast is it here? Produce, consume and latency, with the result lines of Kafka's own tools.

1. The last line of `produce` is that of kafka-producer-perf-test, that of `consume` the table of
   kafka-consumer-perf-test, that of `latency` what kafka-e2e-latency prints: people have scripts that read them.
2. A progress line on a terminal; --format json for programs.
3. Figures of one run on one machine say little; compare with something else in the same minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.connecting import Verbs, add_format, add_verb, ensure, output_of, sentences, settings_of
from ottla.cli.latencies import Latencies
from ottla.cli.operations.load import (
    COLUMNS,
    MEGABYTE,
    PERCENTILES,
    consumed,
    consumed_cells,
    go_to_end,
    keep_pace,
    portion_size,
    result_line,
    send_portion,
)
from ottla.cli.output import FAILED, OK
from ottla.cli.progress import Progress
from ottla.clock import SystemClock

if TYPE_CHECKING:
    from ottla.client.producer.producer import Producer

EXAMPLES: Final = """\
examples:
  ottla perf produce clicks --num-records 1000000 --record-size 100
  ottla perf produce clicks --num-records 60000 --record-size 1000 --throughput 1000 -X acks=all
  ottla perf consume clicks --num-records 1000000
  ottla perf latency clicks --num-records 10000
"""
PORTION: Final = 1000


def add_verbs(verbs: Verbs) -> None:
    produce = add_verb(verbs, "produce", "write records as fast as it goes, or at a rate", run_produce, EXAMPLES)
    produce.add_argument("topic", metavar="TOPIC")
    produce.add_argument("--num-records", type=int, required=True, metavar="N", help="how many to write")
    produce.add_argument("--record-size", type=int, default=100, metavar="BYTES", help="bytes of a value (100)")
    produce.add_argument("--throughput", type=float, default=-1, metavar="N", help="records a second (no limit)")
    add_format(produce)
    consume = add_verb(verbs, "consume", "read records as fast as it goes", run_consume, EXAMPLES)
    consume.add_argument("topic", metavar="TOPIC")
    consume.add_argument("--num-records", type=int, required=True, metavar="N", help="how many to read at least")
    consume.add_argument("--group", metavar="GROUP", help="a group to be in (a new one)")
    consume.add_argument("--arrow", action="store_true", help="read Arrow batches instead of records")
    add_format(consume)
    latency = add_verb(verbs, "latency", "from send to receive, one record at a time", run_latency, EXAMPLES)
    latency.add_argument("topic", metavar="TOPIC")
    latency.add_argument("--num-records", type=int, default=1000, metavar="N", help="how many (1000)")
    latency.add_argument("--record-size", type=int, default=100, metavar="BYTES", help="bytes of a value (100)")
    add_format(latency)


# --- produce ---------------------------------------------------------------------------------------------------------


def run_produce(options: argparse.Namespace) -> int:
    from ottla.client.producer.producer import Producer

    ensure(options.num_records > 0 and options.record_size > 0, "--num-records and --record-size must be above 0")
    with sentences():
        producer = Producer(settings_of(options))
        latencies, failed, elapsed_ms = _load(producer, options)
    rate = latencies.count / max(elapsed_ms, 1) * 1000
    shown = {
        "records": latencies.count,
        "failed": failed,
        "records_per_second": rate,
        "mb_per_second": rate * options.record_size / MEGABYTE,
        "avg_ms": latencies.mean_ms,
        "max_ms": latencies.max_ms,
        **{f"p{share * 100:g}_ms": latencies.percentile(share) for share, _ in PERCENTILES},
    }
    if options.format == "json":
        output_of(options).value(shown)
    else:
        print(result_line(latencies, elapsed_ms, latencies.count * options.record_size))
    return FAILED if failed else OK


def _load(producer: Producer, options: argparse.Namespace) -> tuple[Latencies, int, float]:
    """Send everything in portions; the latency of a portion's last record counts for all of them."""
    from ottla.client.producer.values import SendFailed

    clock = SystemClock()
    latencies = Latencies()
    failed = sent = 0
    value = os.urandom(options.record_size)
    portion = portion_size(options.throughput, PORTION)
    started_ms = clock.monotonic_ms()

    def ended(count: int, sent_ms: float, future: Any) -> None:
        if future.exception() is None:
            latencies.add(clock.monotonic_ms() - sent_ms, count)

    with producer, Progress("produce", total=options.num_records, unit="records") as progress:
        while sent < options.num_records:
            count = min(portion, options.num_records - sent)
            send_portion(producer, options.topic, [value] * count, ended, clock)
            sent += count
            progress.reach(sent)
            keep_pace(clock, started_ms, sent, options.throughput)
        try:
            producer.flush(max(options.timeout, 120))
        except SendFailed as error:
            failed = error.count
            print(f"ottla: {error}", file=sys.stderr)
    return latencies, failed, clock.monotonic_ms() - started_ms


# --- consume ---------------------------------------------------------------------------------------------------------


def run_consume(options: argparse.Namespace) -> int:
    from ottla.client.consumer.consumer import Consumer

    ensure(not options.arrow or find_spec("pyarrow"), "--arrow needs pyarrow: pip install 'ottla[arrow]'")
    clock = SystemClock()
    settings = settings_of(options)
    settings["group.id"] = options.group or f"ottla-perf-{os.getpid()}-{clock.now_ms()}"
    settings.setdefault("auto.offset.reset", "earliest")
    settings.setdefault("max.poll.records", 5000)
    began, count, size_bytes, joined_ms = clock.now_ms(), 0, 0, 0.0
    started_ms = last_ms = clock.monotonic_ms()
    with (
        sentences(),
        Consumer(settings) as consumer,
        Progress("consume", total=options.num_records, unit="records") as progress,
    ):
        consumer.subscribe([options.topic])
        while count < options.num_records and clock.monotonic_ms() - last_ms < options.timeout * 1000:
            found, found_bytes = _poll_arrow(consumer) if options.arrow else _poll(consumer)
            if found:
                last_ms = clock.monotonic_ms()
                joined_ms = joined_ms or last_ms - started_ms
            count += found
            size_bytes += found_bytes
            progress.reach(count)
    shown = consumed(count, size_bytes, max(last_ms - started_ms, 1), joined_ms)
    if options.format == "json":
        output_of(options).value(shown)
    else:
        print(f"start.time, end.time, {COLUMNS}")
        print(f"{_stamp(began)}, {_stamp(clock.now_ms())}, {consumed_cells(shown)}")
    if count < options.num_records:
        print(f"ottla: only {count} of {options.num_records} records came in time", file=sys.stderr)
        return FAILED
    return OK


def _poll(consumer: Any) -> tuple[int, int]:
    records = consumer.poll(0.5)
    return len(records), sum(len(each.value or b"") + len(each.key or b"") for each in records)


def _poll_arrow(consumer: Any) -> tuple[int, int]:
    batch = consumer.poll_arrow(0.5)
    return (0, 0) if batch is None else (batch.num_rows, batch.nbytes)


def _stamp(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S:") + f"{now_ms % 1000:03d}"


# --- latency ---------------------------------------------------------------------------------------------------------


def run_latency(options: argparse.Namespace) -> int:
    from ottla.client.consumer.consumer import Consumer
    from ottla.client.producer.producer import Producer

    latencies = Latencies()
    clock = SystemClock()
    settings = settings_of(options)
    writing = {"linger.ms": 0} | settings
    reading = settings | {"enable.auto.commit": "false", "fetch.max.wait.ms": 500, "auto.offset.reset": "latest"}
    with (
        sentences(),
        Producer(writing) as producer,
        Consumer(reading) as consumer,
        Progress("latency", total=options.num_records, unit="records") as progress,
    ):
        partitions = [_first_partition(producer, options.topic)]
        go_to_end(consumer, partitions)
        for _ in range(options.num_records):
            value = os.urandom(options.record_size)
            sent_ms = clock.monotonic_ms()
            producer.send(options.topic, value, partition=partitions[0].partition).result(options.timeout)
            found = _wait_for(consumer, value, options.timeout)
            ensure(found, "the record that was sent did not come back: does somebody else write into this topic?")
            latencies.add(clock.monotonic_ms() - sent_ms)
            progress.advance()
    shown = {"avg_ms": latencies.mean_ms} | {
        f"p{share * 100:g}_ms": latencies.percentile(share) for share in (0.5, 0.99, 0.999)
    }
    if options.format == "json":
        output_of(options).value(shown)
        return OK
    print(f"Avg latency: {latencies.mean_ms:.4f} ms")
    places = (latencies.percentile(share) for share in (0.5, 0.99, 0.999))
    print("Percentiles: 50th = {:.3f}, 99th = {:.3f}, 99.9th = {:.3f}".format(*places))
    return OK


def _first_partition(producer: Any, topic: str) -> Any:
    from ottla.values import TopicPartition

    return TopicPartition(topic, min(each.partition for each in producer.partitions_for(topic)))


def _wait_for(consumer: Any, value: bytes, timeout_s: float) -> bool:
    for _ in range(max(int(timeout_s / 0.5), 1)):
        for record in consumer.poll(0.5):
            return bool(record.value == value)
    return False
