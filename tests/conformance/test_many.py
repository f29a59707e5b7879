"""A thousand partitions, and a thousand connections at once, on one broker process.

Partitions are used by confluent-kafka. Connections are bare sockets that speak Produce and Fetch themselves, because a
thousand clients of any library would be a test of that library's threads.
"""

import asyncio
import contextlib
import struct
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.conformance.our_broker import BrokerProcess
from tests.patience import HANG_S

from ottla.cli.open_files import raise_limit
from ottla.net.framing import frame_prefix
from ottla.protocol.api import api_of
from ottla.protocol.header import decode_response, encode_request
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.schema import Message
from ottla.records import BatchBuilder, RecordStream

PARTITIONS = 1000
CONNECTIONS = 1000
EACH = 3
PRODUCE_VERSION = 11
FETCH_VERSION = 12
OPENING_AT_ONCE = 100  # as many as wait in the broker's queue without being refused
# A restart cuts off every client; librdkafka tells about each of them.
QUIET = {"log_level": 0, "error_cb": lambda _: None}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path) as process:
        yield process
        assert process.faults() == []


def create(broker: BrokerProcess, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    made = admin.create_topics([NewTopic(topic, partitions, 1)], request_timeout=HANG_S)
    made[topic].result(HANG_S)


# --- partitions ------------------------------------------------------------------------------------------------------


def produce_to_all(broker: BrokerProcess, topic: str) -> None:
    refused: list[str] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    for number in range(EACH * PARTITIONS):
        producer.produce(
            topic,
            b"%d" % number,
            partition=number % PARTITIONS,
            on_delivery=lambda error, _: error and refused.append(str(error)),
        )
    assert producer.flush(HANG_S) == 0
    assert refused == []


def consume_all(broker: BrokerProcess, topic: str, group: str) -> Counter[int]:
    """How often each number is read by a new group."""
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, **settings, **QUIET})
    consumer.subscribe([topic])
    found: Counter[int] = Counter()
    end_s = time.monotonic() + HANG_S
    while found.total() < EACH * PARTITIONS and time.monotonic() < end_s:
        for message in consumer.consume(1000, 0.5):
            assert message.error() is None
            found[int(message.value())] += 1
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def test_a_thousand_partitions_are_written_read_and_found_again(broker):
    once = Counter(range(EACH * PARTITIONS))
    create(broker, "many", PARTITIONS)
    produce_to_all(broker, "many")
    assert consume_all(broker, "many", "first") == once
    broker.kill()
    broker.start()
    assert consume_all(broker, "many", "after-a-kill") == once
    broker.stop()
    broker.start()
    assert consume_all(broker, "many", "after-a-stop") == once
    produce_to_all(broker, "many")


# --- connections -----------------------------------------------------------------------------------------------------


class Connection:
    """One socket that asks and waits for the answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, request: Message, version: int) -> Any:
        parts = encode_request(request, version=version, correlation_id=7, client_id="crowd")
        self._writer.writelines((frame_prefix(parts), *parts))
        size = struct.unpack(">i", await self._reader.readexactly(4))[0]
        correlation_id, answer = decode_response(api_of(request), version, await self._reader.readexactly(size))
        assert correlation_id == 7
        return answer

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):  # the test fails for its own reason, not for what is left of it
            await self._writer.wait_closed()

    async def produce(self, value: bytes) -> int:
        """The offset it was given."""
        builder = BatchBuilder(size_limit_bytes=1_000)
        assert builder.append(time.time_ns() // 1_000_000, None, value)
        data = PartitionProduceData(index=0, records=memoryview(bytes(builder.close())))
        topics = [TopicProduceData(name="crowd", partition_data=[data])]
        request = ProduceRequest(acks=-1, timeout_ms=HANG_S * 1000, topic_data=topics)
        told = (await self.ask(request, PRODUCE_VERSION)).responses[0].partition_responses[0]
        assert told.error_code == 0
        return int(told.base_offset)

    async def fetch(self, offset: int) -> bytes:
        """The value at that offset."""
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1)
        topics = [FetchTopic(topic="crowd", partitions=[wanted])]
        request = FetchRequest(max_wait_ms=HANG_S * 1000, min_bytes=1, max_bytes=1 << 20, topics=topics)
        told = (await self.ask(request, FETCH_VERSION)).responses[0].partitions[0]
        assert told.error_code == 0
        [record] = next(iter(RecordStream(told.records)))
        return bytes(record.value)


async def crowd(port: int) -> list[int]:
    """Offsets of what every connection wrote and read again; all connections are open from first to last."""
    turns = asyncio.Semaphore(OPENING_AT_ONCE)
    connections: list[Connection] = []

    async def connect() -> None:
        async with turns:
            connections.append(Connection(*await asyncio.open_connection("127.0.0.1", port)))

    async def work(connection: Connection, number: int) -> int:
        offset = await connection.produce(b"%d" % number)
        assert await connection.fetch(offset) == b"%d" % number
        return offset

    try:
        await asyncio.gather(*(connect() for _ in range(CONNECTIONS)))
        return await asyncio.gather(*(work(each, number) for number, each in enumerate(connections)))
    finally:
        await asyncio.gather(*(each.close() for each in connections))


def test_a_thousand_connections_are_served_at_once(broker):
    raise_limit()  # their other ends are in this process
    create(broker, "crowd", 1)
    for round_number in range(2):  # what the first thousand took is given back
        offsets = asyncio.run(asyncio.wait_for(crowd(broker.port), HANG_S))
        assert sorted(offsets) == list(range(round_number * CONNECTIONS, (round_number + 1) * CONNECTIONS))
