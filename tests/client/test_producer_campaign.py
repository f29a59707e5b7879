"""A million records while the broker goes and comes back and time is short: every future says the truth.

Each record carries its topic, partition, writer and number. Afterwards all of them are read by another client: nothing
is misrouted, doubled or out of order, and whatever a future promised stands where it said.
"""

from __future__ import annotations

import collections
import random
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.patience import HANG_S

from ottla.client.producer.producer import Producer
from ottla.client.producer.values import SendFailed
from ottla.testing.broker import KafkaBroker

WRITERS, TOPICS, PARTITIONS = 4, 6, 3
Sent = list[tuple[str, int, bytes, Any]]


def write(producer: Producer, writer: int, count: int, sent: Sent) -> None:
    chance = random.Random(writer)
    for number in range(count):
        topic, partition = f"t{chance.randrange(TOPICS)}", chance.randrange(PARTITIONS)
        value = b"%s/%d/%d/%07d/" % (topic.encode(), partition, writer, number) + b"x" * chance.randrange(80)
        sent.append((topic, partition, value, producer.send(topic, value, partition=partition)))
        if number % 1000 == 0:
            time.sleep(0.05)


def read_all(bootstrap: str) -> dict[tuple[str, int], dict[int, bytes]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(f"t{topic}", index, 0) for topic in range(TOPICS) for index in range(PARTITIONS)])
    logs: dict[tuple[str, int], dict[int, bytes]] = collections.defaultdict(dict)
    quiet = 0
    while quiet < 10:
        messages = [message for message in consumer.consume(5000, 0.5) if message.error() is None]
        quiet = 0 if messages else quiet + 1
        for message in messages:
            logs[message.topic(), message.partition()][message.offset()] = message.value()
    consumer.close()
    return logs


def check_logs(logs: dict[tuple[str, int], dict[int, bytes]]) -> None:
    for (topic, partition), log in logs.items():
        last: dict[bytes, int] = {}
        for _, value in sorted(log.items()):
            name, index, writer, number, _ = value.split(b"/")
            assert (name.decode(), int(index)) == (topic, partition), "misrouted"
            assert last.get(writer, -1) < int(number), "doubled or out of order"
            last[writer] = int(number)


@pytest.mark.long
@pytest.mark.parametrize("count", [250_000])
def test_a_million_records_while_the_broker_goes_and_comes_back(tmp_path: Path, count: int) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "num.partitions": PARTITIONS}
    settings["ottla.durability"] = "replicated"
    broker = KafkaBroker(settings, directory=tmp_path).start()
    producer = Producer(
        bootstrap_servers=f"127.0.0.1:{port}",
        request_timeout_ms=800,
        default_api_timeout_ms=800,
        delivery_timeout_ms=1500,
        buffer_memory=4_000_000,
        compression_type="lz4",
    )
    sent: list[Sent] = [[] for _ in range(WRITERS)]
    writers = [threading.Thread(target=write, args=(producer, who, count, sent[who])) for who in range(WRITERS)]
    for thread in writers:
        thread.start()
    for pause in (0, 0.5, 2.5, 0, 2.5):
        time.sleep(1)
        broker.stop()
        time.sleep(pause)
        broker = KafkaBroker(settings, directory=tmp_path).start()
    for thread in writers:
        thread.join()
    with pytest.raises(SendFailed):
        producer.flush(HANG_S)
    logs = read_all(f"127.0.0.1:{port}")
    check_logs(logs)
    for topic, partition, value, future in (each for those in sent for each in those):
        assert future.done()
        if future.exception(0) is None and future.result(0).offset >= 0:
            assert logs[topic, partition][future.result(0).offset] == value, "a future lied"
    producer.close()
    broker.stop()
