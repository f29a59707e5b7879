"""One program for every broker: clients under a quota of 1 MB/s for half a minute, beside others without one.

    seen = measure_producer(servers, Confluent(), "topic-and-client-id", seconds=30, request_bytes=SMALL)
    seen.bytes_per_second, seen.throttle_avg_ms, seen.others_worst_ms

How long clients wait depends on how fast a broker answers, too. `Timed` sends its requests at times that depend on
nothing: so the waits that two brokers ask for can be compared.

The brokers keep 6 windows of a second. With Kafka's default of 11 the same algorithm lets a
greedy client alternate between bursts and long waits, and half a minute is too short to see its mean: 1.10 and 0.90 of
the limit in turn, on both brokers (decision 0044).
"""

from __future__ import annotations

import json
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from ottla.client.admin.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer.consumer import Consumer
from ottla.client.producer.producer import Producer
from ottla.net.framing import frame_prefix
from ottla.protocol.api import api_of
from ottla.protocol.compiled import decode
from ottla.protocol.header import encode_request, response_header_version
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.schema import Message
from ottla.records import BatchBuilder

LIMIT = 1_000_000
VALUE = bytes(10_000)
SMALL = 100_500
"""Bytes of a request with ten values."""
LARGE = {"measure_producer": 502_500, "measure_consumer": 4_800_000}
"""Bytes of a request that has to wait for seconds, beside which it does not matter when a broker judges. A fetch
is nearly all that may be fetched at once, because one that has to wait is not counted."""
WINDOWS = 6
PATIENCE_S = 120
EVERY_S = 0.25


class Seen(NamedTuple):
    """What clients saw of their quota."""

    bytes_per_second: float
    throttle_avg_ms: float
    throttle_max_ms: float
    others_worst_ms: float


class Kind(Protocol):
    """A client library."""

    def produce(self, servers: str, topic: str, seconds: float, request_bytes: int) -> tuple[float, float, float]: ...
    def consume(self, servers: str, topic: str, seconds: float, request_bytes: int) -> tuple[float, float, float]: ...


def measure_producer(servers: str, kind: Kind, topic: str, seconds: float, request_bytes: int) -> Seen:
    """As fast as it can, while another client without a quota sends now and then."""
    with set_up(servers, topic), beside(servers, topic) as others:
        rate, average_ms, longest_ms = kind.produce(servers, topic, seconds, request_bytes)
    return Seen(rate, average_ms, longest_ms, max(others))


def measure_consumer(servers: str, kind: Kind, topic: str, seconds: float, request_bytes: int) -> Seen:
    with set_up(servers, topic):
        with Producer(bootstrap_servers=servers, batch_size=SMALL, linger_ms=1_000) as producer:
            count = int(LIMIT * (seconds + 15) / len(VALUE))
            for future in [producer.send(topic, VALUE, partition=0) for _ in range(count)]:
                future.result(PATIENCE_S)
        with beside(servers, topic) as others:
            rate, average_ms, longest_ms = kind.consume(servers, topic, seconds, request_bytes)
    return Seen(rate, average_ms, longest_ms, max(others))


@contextmanager
def set_up(servers: str, topic: str) -> Iterator[None]:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=2)])
        admin.alter_client_quotas([({"client-id": topic}, {"producer_byte_rate": LIMIT, "consumer_byte_rate": LIMIT})])
    yield


@contextmanager
def beside(servers: str, topic: str) -> Iterator[list[float]]:
    """How long each record of another client took, in milliseconds."""
    times: list[float] = []
    ended = threading.Event()

    def send() -> None:
        with Producer(bootstrap_servers=servers, client_id="free", linger_ms=0) as producer:
            producer.send(topic, b"first", partition=1).result(PATIENCE_S)
            while not ended.wait(0.1):
                began = time.monotonic()
                producer.send(topic, VALUE, partition=1).result(PATIENCE_S)
                times.append((time.monotonic() - began) * 1000)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield times
    finally:
        ended.set()
        thread.join()


def repeat_for(seconds: float, step: Callable[[], None]) -> float:
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        step()
    return time.monotonic() - began


class Ours:
    """The client of this project."""

    def produce(self, servers: str, topic: str, seconds: float, request_bytes: int) -> tuple[float, float, float]:
        done = [0]

        def count(future: Any) -> None:
            done[0] += len(VALUE)

        with Producer(
            bootstrap_servers=servers,
            client_id=topic,
            batch_size=request_bytes,
            linger_ms=20,
            buffer_memory=4_000_000,
            max_in_flight_requests_per_connection=1,
        ) as producer:
            took = repeat_for(seconds, lambda: producer.send(topic, VALUE, partition=0).add_done_callback(count))
            rate = done[0] / took
            metrics = {key.name: value for key, value in producer.metrics().items()}
        return rate, metrics["produce-throttle-time-avg"], metrics["produce-throttle-time-max"]

    def consume(self, servers: str, topic: str, seconds: float, request_bytes: int) -> tuple[float, float, float]:
        done = [0]
        with Consumer(
            bootstrap_servers=servers,
            client_id=topic,
            auto_offset_reset="earliest",
            fetch_max_bytes=request_bytes,
            max_partition_fetch_bytes=request_bytes,
        ) as consumer:
            consumer.assign([(topic, 0)])

            def poll() -> None:
                done[0] += sum(len(record.value) for record in consumer.poll(0.1))

            took = repeat_for(seconds, poll)
            metrics = {key.name: value for key, value in consumer.metrics().items()}
        return done[0] / took, metrics["fetch-throttle-time-avg"], metrics["fetch-throttle-time-max"]


class Timed:
    """A plain request every EVERY_S, whatever it is told to wait, and each by a connection of its own: as the quota is
    that of the client id, what was asked for by another connection counts, and no connection is waited for."""

    def produce(self, servers: str, topic: str, seconds: float, request_bytes: int) -> tuple[float, float, float]:
        builder = BatchBuilder(size_limit_bytes=2 * request_bytes)
        builder.append(time.time_ns() // 1_000_000, None, bytes(request_bytes - 200))
        data = PartitionProduceData(index=0, records=builder.close())
        topics = [TopicProduceData(name=topic, partition_data=[data])]
        request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics)

        def size_of(answer: Any) -> int:
            assert answer.responses[0].partition_responses[0].error_code == 0, answer
            return request_bytes

        return self._repeat(servers, topic, request, 9, seconds, size_of)

    def consume(self, servers: str, topic: str, seconds: float, request_bytes: int) -> tuple[float, float, float]:
        """The same records again and again."""
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=request_bytes)
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=request_bytes,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )

        def size_of(answer: Any) -> int:
            return sum(len(each.partitions[0].records or b"") for each in answer.responses)

        return self._repeat(servers, topic, request, 12, seconds, size_of)

    def _repeat(
        self,
        servers: str,
        client_id: str,
        request: Message,
        version: int,
        seconds: float,
        size_of: Callable[[Any], int],
    ) -> tuple[float, float, float]:
        parts = encode_request(request, version=version, correlation_id=1, client_id=client_id)
        frame = b"".join((frame_prefix(parts), *map(bytes, parts)))
        header_bytes = 4 + response_header_version(api_of(request).key, version)
        host, _, port = servers.partition(":")
        waits_ms, done, began = [], 0, time.monotonic()
        for number in range(int(seconds / EVERY_S)):
            time.sleep(max(0.0, began + number * EVERY_S - time.monotonic()))
            with (
                socket.create_connection((host, int(port)), PATIENCE_S) as connection,
                connection.makefile("rb") as file,
            ):
                connection.sendall(frame)
                size = int.from_bytes(file.read(4))
                answer = decode(api_of(request).response, version, file.read(size)[header_bytes:])
            done += size_of(answer)
            waits_ms.append(answer.throttle_time_ms)
        return done / seconds, statistics.mean(waits_ms), max(waits_ms)


class Confluent:
    """librdkafka; its numbers come from its statistics, of the broker that was throttled most."""

    def __init__(self) -> None:
        self._throttles: list[tuple[float, float]] = []

    def settings(self, servers: str, client_id: str) -> dict[str, Any]:
        self._throttles = []
        return {
            "bootstrap.servers": servers,
            "client.id": client_id,
            "statistics.interval.ms": 1000,
            "stats_cb": self._note,
        }

    def _note(self, text: str) -> None:
        windows = [each["throttle"] for each in json.loads(text)["brokers"].values() if each["nodeid"] >= 0]
        counted = [each for each in windows if each["cnt"]]
        self._throttles += [(each["avg"], each["max"]) for each in counted]

    def _seen(self) -> tuple[float, float]:
        return statistics.mean(each for each, _ in self._throttles), max(each for _, each in self._throttles)

    def produce(self, servers: str, topic: str, seconds: float, request_bytes: int) -> tuple[float, float, float]:
        from confluent_kafka import KafkaError, Producer

        done, failures = [0], []

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                done[0] += len(VALUE)
            elif error.code() not in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
                failures.append(error)

        producer = Producer(
            {
                **self.settings(servers, topic),
                "batch.size": request_bytes,
                "linger.ms": 20,
                "max.in.flight.requests.per.connection": 1,
                "queue.buffering.max.kbytes": 4_000,
            }
        )

        def send() -> None:
            try:
                producer.produce(topic, VALUE, partition=0, on_delivery=delivered)
                producer.poll(0)
            except BufferError:
                producer.poll(0.05)

        rate = (lambda took: done[0] / took)(repeat_for(seconds, send))
        producer.purge()
        producer.flush(1)
        assert not failures, failures
        return rate, *self._seen()

    def consume(self, servers: str, topic: str, seconds: float, request_bytes: int) -> tuple[float, float, float]:
        from confluent_kafka import Consumer, TopicPartition

        done = [0]
        consumer = Consumer(
            {
                **self.settings(servers, topic),
                "group.id": topic,
                "enable.auto.commit": False,
                "fetch.max.bytes": request_bytes,
                "message.max.bytes": request_bytes,
                "max.partition.fetch.bytes": request_bytes,
                "fetch.queue.backoff.ms": 0,
            }
        )
        consumer.assign([TopicPartition(topic, 0, 0)])

        def poll() -> None:
            for message in consumer.consume(100, 0.1):
                assert message.error() is None, message.error()
                done[0] += len(message.value())

        rate = (lambda took: done[0] / took)(repeat_for(seconds, poll))
        consumer.close()
        return rate, *self._seen()
