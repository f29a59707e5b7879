"""The ceilings of this machine: a consumer that looks at nothing, and a producer that writes the same again and again.

The consumer has one connection and one fetch on its way. It asks for 4 MB at a time, 1 MB of each partition,
and reads each answer with plain `recv_into` into the same memory. Of an answer it reads only what the next fetch needs:
the last offset of each partition. So it has no lists, no tables, no sums, no second thread; whoever hands out records
can only be slower.

The producer has one connection, five requests on their way as a Producer has, and one request that was written before:
a batch of 256 KB for each of four partitions. So it has no records to take, no sums, no second thread.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Final

from ottla.client.consumer.record_choice import end_offset_of
from ottla.protocol.api import api_of
from ottla.protocol.header import decode_response, encode_request
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.protocol.schema import Buffer
from ottla.records import BatchBuilder

VERSION: Final = 12
"""The last one that asks by name."""
ANSWER_BYTES: Final = 4_194_304
PARTITION_BYTES: Final = 1_048_576
PRODUCE_VERSION: Final = 11
BATCH_BYTES: Final = 262_144
REQUESTS_ON_THEIR_WAY: Final = 5


class BareReader:
    """Reads partitions of one topic from their beginnings."""

    def __init__(self, port: int, topic: str, partitions: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._topic = topic
        self._offsets = dict.fromkeys(range(partitions), 0)
        self._memory = memoryview(bytearray(ANSWER_BYTES * 2))

    def close(self) -> None:
        self._socket.close()

    def read(self) -> int:
        """Ask once; how many records came."""
        self._socket.sendall(self._request())
        before = sum(self._offsets.values())
        _, response = decode_response(api_of(FetchRequest), VERSION, self._answer())
        assert isinstance(response, FetchResponse)
        for data in response.responses[0].partitions:
            assert not data.error_code, f"the broker answers {data.error_code}"
            if data.records:
                self._offsets[data.partition_index] = end_offset_of(data.records, self._offsets[data.partition_index])
        return sum(self._offsets.values()) - before

    def _request(self) -> bytes:
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES)
            for index, offset in self._offsets.items()
        ]
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=ANSWER_BYTES,
            isolation_level=0,
            topics=[FetchTopic(topic=self._topic, partitions=partitions)],
            forgotten_topics_data=[],
        )
        parts = encode_request(request, version=VERSION, correlation_id=1, client_id="bare")
        size = sum(len(part) for part in parts)
        return struct.pack(">i", size) + b"".join(parts)

    def _answer(self) -> Buffer:
        return received_frame(self._socket, self._memory)


class BareWriter:
    """Writes one request to all partitions of a topic, again and again."""

    def __init__(self, port: int, topic: str, partitions: int, record_bytes: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._memory = memoryview(bytearray(PARTITION_BYTES))
        self._on_their_way = 0
        batch, count = full_batch(record_bytes)
        self.records_each = count * partitions
        data = [PartitionProduceData(index=index, records=memoryview(batch)) for index in range(partitions)]
        topics = [TopicProduceData(name=topic, partition_data=data)]
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)
        parts = encode_request(request, version=PRODUCE_VERSION, correlation_id=1, client_id="bare")
        self._frame = struct.pack(">i", sum(len(part) for part in parts)) + b"".join(parts)

    def close(self) -> None:
        self._socket.close()

    def write(self) -> None:
        """Send the request once more, after an answer if enough are on their way."""
        if self._on_their_way == REQUESTS_ON_THEIR_WAY:
            self._hear()
        self._socket.sendall(self._frame)
        self._on_their_way += 1

    def flush(self) -> None:
        while self._on_their_way:
            self._hear()

    def _hear(self) -> None:
        answer = received_frame(self._socket, self._memory)
        self._on_their_way -= 1
        _, response = decode_response(api_of(ProduceRequest), PRODUCE_VERSION, answer)
        assert isinstance(response, ProduceResponse)
        errors = {data.error_code for each in response.responses for data in each.partition_responses}
        assert errors == {0}, f"the broker answers {errors}"


def full_batch(record_bytes: int) -> tuple[bytes, int]:
    """A batch as a Producer fills it, and how many records it has."""
    builder = BatchBuilder(size_limit_bytes=BATCH_BYTES)
    count = 0
    while builder.append(time.time_ns() // 1_000_000, None, b"x" * record_bytes):
        count += 1
    return bytes(builder.close()), count


def received_frame(connection: socket.socket, memory: memoryview) -> memoryview:
    """The next answer, read into the same memory as the one before."""
    size = struct.unpack(">i", _exactly(connection, memory[:4]))[0]
    return _exactly(connection, memory[:size])


def _exactly(connection: socket.socket, memory: memoryview) -> memoryview:
    found = 0
    while found < len(memory):
        more = connection.recv_into(memory[found:])
        if not more:
            raise ConnectionResetError("the broker closed the connection")
        found += more
    return memory
