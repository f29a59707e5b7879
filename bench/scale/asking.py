"""Connections of the load that ask one request at a time, and what they read out of answers without decoding them."""

from __future__ import annotations

import asyncio
import struct
from typing import Any, Final, Self

from bench.walk import requests

from ottla.protocol.api import api_of
from ottla.protocol.header import decode_response
from ottla.protocol.schema import Message

PRODUCE_HEAD_BYTES: Final = 4 + 1 + 1 + 1 + 1 + 4  # correlation id, tags, topics, size of a name, partitions, index
ANSWER_LIMIT_S: Final = 120.0
OPENING_AT_ONCE: Final = 100


def error_of_produce(answer: bytes, topic: str) -> int:
    """The error code in an answer to Produce 11 about one partition, without its size in front."""
    return int(struct.unpack_from(">h", answer, PRODUCE_HEAD_BYTES + len(topic))[0])


class Connection:
    """One socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 20))

    def send(self, frame: bytes) -> None:
        self._writer.write(frame)

    async def receive(self) -> bytes:
        async with asyncio.timeout(ANSWER_LIMIT_S):
            size = struct.unpack(">i", await self._reader.readexactly(4))[0]
            return await self._reader.readexactly(size)

    async def ask(self, request: Message, version: int) -> Any:
        self.send(requests.framed(request, version))
        return decode_response(api_of(request), version, await self.receive())[1]

    def close(self) -> None:
        self._writer.close()


async def open_many(port: int, count: int) -> list[Connection]:
    """So many connections, a part of them at a time: a queue of connections that wait has an end."""
    turns = asyncio.Semaphore(OPENING_AT_ONCE)

    async def one() -> Connection:
        async with turns:
            return await Connection.open(port)

    return list(await asyncio.gather(*(one() for _ in range(count))))
