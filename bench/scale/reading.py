"""Readers on bare sockets: one that reads a topic to its end, and many that wait for what comes.

The next offset is read from the headers of the batches in an answer; no record is looked at.
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
import time
from typing import Any, Final

from bench.scale.asking import Connection, open_many
from bench.walk import requests

from ottla.protocol.api import api_of
from ottla.protocol.header import decode_response
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

FETCH_BYTES: Final = 1 << 20
WAIT_MS: Final = 500
BATCH_HEAD: Final = struct.Struct(">qi")  # base offset, bytes behind these two
LAST_DELTA_AT: Final = 23


def fetch_request(topic: str, offsets: dict[int, int], min_bytes: int = 1) -> FetchRequest:
    wanted = [
        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        for number, offset in offsets.items()
    ]
    topics = [FetchTopic(topic=topic, partitions=wanted)]
    return FetchRequest(max_wait_ms=WAIT_MS, min_bytes=min_bytes, max_bytes=FETCH_BYTES, topics=topics)


def next_offset(records: memoryview, offset: int) -> tuple[int, int]:
    """Where to read on behind the whole batches of an answer, and how many bytes those have."""
    position = 0
    while position + 61 <= len(records):
        base, size = BATCH_HEAD.unpack_from(records, position)
        if position + 12 + size > len(records):
            break
        offset = base + struct.unpack_from(">i", records, position + LAST_DELTA_AT)[0] + 1
        position += 12 + size
    return offset, position


async def fetch(connection: Connection, topic: str, offsets: dict[int, int]) -> int:
    """Ask once for all these partitions, move their offsets on, and return how many bytes of batches came."""
    request = fetch_request(topic, offsets)
    connection.send(requests.framed(request, requests.FETCH_VERSION))
    frame = await connection.receive()
    answer: Any = decode_response(api_of(request), requests.FETCH_VERSION, memoryview(frame))[1]
    received = 0
    for partition in answer.responses[0].partitions if answer.responses else ():
        if partition.error_code:
            raise SystemExit(f"the broker refused a fetch: error {partition.error_code}")
        if partition.records:
            number = partition.partition_index
            offsets[number], size_bytes = next_offset(memoryview(partition.records), offsets[number])
            received += size_bytes
    return received


async def scan(task: dict[str, Any]) -> dict[str, Any]:
    connections = await open_many(task["port"], task["partitions"])
    started = time.perf_counter()
    found = await asyncio.gather(*(_to_the_end(each, task["topic"], number) for number, each in enumerate(connections)))
    return {"bytes": sum(size for size, _ in found), "seconds": max(ended for _, ended in found) - started}


async def _to_the_end(connection: Connection, topic: str, partition: int) -> tuple[int, float]:
    """Until an answer has nothing; the bytes, and when the last of them came."""
    total, offsets, ended = 0, {partition: 0}, time.perf_counter()
    while received := await fetch(connection, topic, offsets):
        total += received
        ended = time.perf_counter()
    return total, ended


async def readers(task: dict[str, Any]) -> dict[str, Any]:
    """Everybody reads everything: says when all have asked once, then counts bytes until stdin ends."""
    connections = await open_many(task["port"], task["readers"])
    received = [0] * len(connections)

    async def read(number: int, offsets: dict[int, int]) -> None:
        while True:
            received[number] += await fetch(connections[number], task["topic"], offsets)

    async def catch_up(number: int, offsets: dict[int, int]) -> None:
        while await fetch(connections[number], task["topic"], offsets):
            pass

    everywhere = [dict.fromkeys(range(task["partitions"]), 0) for _ in connections]
    await asyncio.gather(*(catch_up(*each) for each in enumerate(everywhere)))  # what was there before does not count
    print(json.dumps({"readers": len(connections)}), flush=True)
    started = time.perf_counter()
    reading = asyncio.gather(*(read(*each) for each in enumerate(everywhere)))
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await asyncio.wait([reading, ended], return_when=asyncio.FIRST_COMPLETED)
    if reading.done():
        await reading
    reading.cancel()
    return {"bytes": sum(received), "least": min(received), "seconds": time.perf_counter() - started}
