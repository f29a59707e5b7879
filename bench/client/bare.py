"""The ceiling of a consumer on this machine: one connection, one fetch on its way, and bytes that nobody looks at.

It asks as our consumer does (4 MB at a time, 1 MB of each partition) and reads each answer with plain `recv_into` into
the same memory. Of an answer it reads only what the next fetch needs: the last offset of each partition. So it has no
lists, no tables, no sums, no second thread; whoever hands out records can only be slower.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

from ottla.client.consumer.record_choice import end_offset_of
from ottla.protocol.api import api_of
from ottla.protocol.header import decode_response, encode_request
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.schema import Buffer

VERSION: Final = 12
"""The last one that asks by name."""
ANSWER_BYTES: Final = 4_194_304
PARTITION_BYTES: Final = 1_048_576


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
        size = struct.unpack(">i", self._exactly(4))[0]
        return self._exactly(size)

    def _exactly(self, count: int) -> memoryview:
        found = 0
        while found < count:
            more = self._socket.recv_into(self._memory[found:count])
            if not more:
                raise ConnectionResetError("the broker closed the connection")
            found += more
        return self._memory[:count]
