"""kafka-e2e-latency: how long a record takes from the producer through the cluster to a consumer, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.kafka.cluster import settings_of
from ottla.cli.kafka.ends import fail
from ottla.cli.kafka.java_errors import described, message_of
from ottla.cli.kafka.java_numbers import java_double
from ottla.cli.kafka.parser import BOOTSTRAP, OPTIONAL, Option, Options, number, parse, value
from ottla.cli.operations.load import go_to_end
from ottla.cli.output import OK
from ottla.clock import SystemClock
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.consumer.consumer import Consumer
    from ottla.client.producer.producer import Producer

SUMMARY: Final = "This tool measures end-to-end latency in Kafka by sending messages and timing their reception."
POSITIONAL: Final = ("bootstrap-server", "topic", "num-records", "producer-acks", "record-size", "command-config")
POLL_S: Final = 60.0
SHARES: Final = (0.5, 0.99, 0.999)
OPTIONS: Final = (
    BOOTSTRAP,
    value("topic", "REQUIRED: the topic to use", "topic-name"),
    number("num-records", "REQUIRED: how many records", "count"),
    value("producer-acks", "REQUIRED: 1 or all", "producer-acks"),
    number("record-size", "REQUIRED: bytes of a value", "bytes"),
    Option("record-key-size", "bytes of a key", OPTIONAL, int, "bytes", 0),
    Option("record-header-key-size", "bytes of a header's name", OPTIONAL, int, "bytes", 0),
    Option("record-header-size", "bytes of a header's value; -1: none", OPTIONAL, int, "bytes", 0),
    Option("num-headers", "how many headers", OPTIONAL, int, "count", 0),
    value("command-config", "a file with client settings", "config-file"),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-e2e-latency", SUMMARY, OPTIONS, _named(words))
    _check(options)
    try:
        _measure(options)
    except (OttlaError, TimeoutError) as error:
        fail(described(error, options.text("topic")))
    return OK


def _named(words: Sequence[str]) -> Sequence[str]:
    """The words with the names of options, also where they were written in the old way, without."""
    required = [f"--{name}" for name in POSITIONAL[:5]]
    if not words or any(word.partition("=")[0] in (*required, "--help", "--version") for word in words):
        return words
    if len(words) not in (5, 6):
        fail(
            f"Invalid number of arguments. Expected 5 or 6 positional arguments, but got {len(words)}. "
            "Usage: bootstrap-server topic num-records producer-acks record-size [optional] command-config"
        )
    print(
        "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. Please use named "
        "arguments instead: --bootstrap-server, --topic, --num-records, --producer-acks, --record-size, "
        "--command-config"
    )
    return [each for name, word in zip(POSITIONAL, words, strict=False) for each in (f"--{name}", word)]


def _check(options: Options) -> None:
    options.require("bootstrap-server", "topic", "num-records", "producer-acks", "record-size")
    if options.text("producer-acks") not in ("1", "all"):
        options.wrong(
            "Invalid value for --producer-acks. Latency testing requires synchronous acknowledgement. Please use '1' "
            "or 'all'."
        )
    if (options.number("num-records") or 0) <= 0:
        options.wrong("Value for --num-records must be a positive integer.")
    for name in ("record-size", "record-key-size", "record-header-key-size", "num-headers"):
        if (options.number(name) or 0) < 0:
            options.wrong(f"Value for --{name} must be a non-negative integer.")
    if (options.number("record-header-size") or 0) < -1:
        options.wrong("Value for --record-header-size must be a non-negative integer or -1 for null header value.")


def _measure(options: Options) -> None:
    from ottla.client.consumer.consumer import Consumer
    from ottla.client.producer.producer import Producer
    from ottla.values import TopicPartition

    settings = settings_of(options)
    acks = options.text("producer-acks")
    writing = settings | {"linger.ms": 0, "acks": acks} | ({"enable.idempotence": "false"} if acks == "1" else {})
    reading = settings | {
        "group.id": f"test-group-{SystemClock().now_ms()}",
        "enable.auto.commit": "false",
        "auto.offset.reset": "latest",
        "fetch.max.wait.ms": 0,
    }
    with Consumer(reading) as consumer, Producer(writing) as producer:
        topic = options.text("topic")
        if topic not in consumer.topics():
            _create(settings, topic)
        go_to_end(consumer, [TopicPartition(topic, each.partition) for each in consumer.partitions_for(topic)])
        _Rounds(options, producer, consumer).run()


def _create(settings: dict[str, object], topic: str) -> None:
    from ottla.cli.kafka.cluster import admin_with
    from ottla.client.admin.topics import NewTopic

    print(f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1')
    with admin_with(settings) as admin:
        try:
            admin.create_topics([NewTopic(topic, 1, 1)])
        except OttlaError as error:
            print(f"Creation of topic {topic} failed")
            fail(message_of(error, topic))


class _Rounds:
    """Sends a record and waits for it, as often as was asked for."""

    def __init__(self, options: Options, producer: Producer, consumer: Consumer) -> None:
        self._topic = options.text("topic")
        self._count = options.number("num-records") or 0
        self._sizes = [options.number(name) or 0 for name in ("record-key-size", "record-size")]
        self._headers = [
            options.number(name) or 0 for name in ("num-headers", "record-header-key-size", "record-header-size")
        ]
        self._producer = producer
        self._consumer = consumer
        self._clock = SystemClock()
        self._random = Random(0)

    def run(self) -> None:
        latencies = []
        for place in range(self._count):
            latency_ms = self._round()
            if place % 1000 == 0:
                print(f"{place}\t{java_double(latency_ms)}")
            latencies.append(latency_ms)
        print(f"Avg latency: {sum(latencies) / len(latencies):.4f} ms")
        latencies.sort()
        places = [int(latencies[int(len(latencies) * share)]) for share in SHARES]
        print("Percentiles: 50th = {}, 99th = {}, 99.9th = {}".format(*places))
        self._consumer.commit()

    def _letters(self, size: int) -> bytes:
        return bytes([self._random.randrange(65, 91)]) * size

    def _round(self) -> float:
        key, content = (self._letters(size) for size in self._sizes)
        count, name_size, value_size = self._headers
        headers = [
            (self._letters(name_size).decode(), None if value_size < 0 else self._letters(value_size))
            for _ in range(count)
        ]
        began_ms = self._clock.monotonic_ms()
        self._producer.send(self._topic, content, key=key, headers=headers).result()
        records = self._consumer.poll(POLL_S)
        latency_ms = self._clock.monotonic_ms() - began_ms
        self._validate(records, key, content, headers)
        return latency_ms

    def _validate(
        self, records: Sequence[Any], key: bytes, content: bytes, headers: list[tuple[str, bytes | None]]
    ) -> None:
        if not records:
            self._give_up(f"poll() timed out before finding a result (timeout:[{POLL_S * 1000:.0f}ms])")
        first = records[0]
        if first.value != content:
            self._give_up("The message value read did not match the message value sent")
        if first.key != key:
            self._give_up("The message key read did not match the message key sent")
        if [tuple(each) for each in first.headers] != headers:
            self._give_up("The message headers read did not match the message headers sent")
        if len(records) != 1:
            self._give_up(f"Only one result was expected during this test. We found [{len(records)}]")

    def _give_up(self, text: str) -> None:
        self._consumer.commit()
        fail(text)
