"""What a broker has to do beside producing, in a process of its own until its stdin ends.

    python -m bench.walk.housework PORT ADMIN_PORT

A compacted topic gets keyed batches of few keys in small segments all the time, so that the cleaner always has work;
metrics are scraped four times a second; an admin client asks for the whole cluster fifty times a second and makes and
deletes a topic five times a second. Prints a line when it has begun, and at its end what it did, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
import time
import urllib.request
from typing import Any, Final

from bench.walk import requests

from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.records import BatchBuilder

TOPIC: Final = "compacted"
KEYS: Final = 1_000
BATCH_BYTES: Final = 262_144
BATCHES_PER_S: Final = 80
SCRAPES_PER_S: Final = 4
QUESTIONS_PER_S: Final = 50
TOPICS_PER_S: Final = 5
CONFIGS: Final = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}


class Client:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, request: bytes) -> bytes:
        self._writer.write(request)
        return await self._reader.readexactly(struct.unpack(">i", await self._reader.readexactly(4))[0])


class Housework:
    """Counts what it did."""

    def __init__(self, port: int, admin_port: int) -> None:
        self._port = port
        self._admin_port = admin_port
        self.counts = {"batches": 0, "scrapes": 0, "questions": 0, "topics": 0}

    async def run(self, ended: asyncio.Event) -> None:
        client = await Client.connect(self._port)
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in CONFIGS.items()]
        await client.ask(_create(TOPIC, configs))
        works = {self._produce: BATCHES_PER_S, self._scrape: SCRAPES_PER_S, self._question: QUESTIONS_PER_S}
        works[self._topic] = TOPICS_PER_S
        tasks = [asyncio.create_task(self._again(work, rate)) for work, rate in works.items()]
        print("begun", flush=True)
        await ended.wait()
        for task in tasks:
            task.cancel()
        failed = await asyncio.gather(*tasks, return_exceptions=True)
        for each in failed:
            if not isinstance(each, asyncio.CancelledError):
                raise SystemExit(f"housework ended early: {each!r}")

    async def _again(self, work: Any, rate: int) -> None:
        client = await Client.connect(self._port)
        due = time.perf_counter()
        while True:
            await work(client)
            due = max(due + 1 / rate, time.perf_counter() - 1)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))

    async def _produce(self, client: Client) -> None:
        if not self.counts["batches"]:
            self._request = requests.framed_produce(_keyed_batch(), TOPIC)
        await client.ask(self._request)
        self.counts["batches"] += 1

    async def _scrape(self, client: Client) -> None:
        url = f"http://127.0.0.1:{self._admin_port}/metrics"
        await asyncio.get_running_loop().run_in_executor(None, lambda: urllib.request.urlopen(url).read())
        self.counts["scrapes"] += 1

    async def _question(self, client: Client) -> None:
        await client.ask(requests.framed(MetadataRequest(topics=None), 9))
        self.counts["questions"] += 1

    async def _topic(self, client: Client) -> None:
        name = f"passing-{self.counts['topics']}"
        await client.ask(_create(name, []))
        await client.ask(requests.framed(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 5))
        self.counts["topics"] += 1


def _create(name: str, configs: list[CreatableTopicConfig]) -> bytes:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=configs)
    return requests.framed(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)


def _keyed_batch() -> bytes:
    builder = BatchBuilder(size_limit_bytes=BATCH_BYTES)
    number, now_ms = 0, time.time_ns() // 1_000_000
    while builder.append(now_ms, str(number % KEYS).encode(), bytes(requests.RECORD_BYTES)):
        number += 1
    return bytes(builder.close())


async def main() -> None:
    work = Housework(int(sys.argv[1]), int(sys.argv[2]))
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    waiting = loop.run_in_executor(None, sys.stdin.read)
    waiting.add_done_callback(lambda _: ended.set())
    await work.run(ended)
    print(json.dumps(work.counts), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
