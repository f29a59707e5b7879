"""Clients of four libraries at work, each in a process of its own: one thread produces, one reads what was produced.

    with AtWork("aiokafka", servers, topic, directory) as work:
        wait_until_all_move_on([work], limit_s=30)

A producer sends RECORDS records and waits until they are acknowledged, again and again. Errors that a program would
try again after are tried again; nothing makes a new client. A client that is stuck does not move on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import ottla

RECORDS: Final = 20
PAUSE_S: Final = 0.05
LOOK_EVERY_S: Final = 0.1


class AtWork:
    """The process of one client between enter and exit; `progress` is how many records it sent and read."""

    def __init__(self, name: str, servers: str, topic: str, directory: Path) -> None:
        self.name = name
        self._notes = directory / f"{name}.json"
        self._command = [sys.executable, "-m", "tests.cluster.client_work", name, servers, topic, str(self._notes)]
        self._output = directory / f"{name}.log"

    def __enter__(self) -> Self:
        root = Path(__file__).parent.parent.parent
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output, cwd=root)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def progress(self) -> tuple[int, int]:
        with contextlib.suppress(OSError, ValueError):
            notes = json.loads(self._notes.read_text())
            return notes["sent"], notes["read"]
        return 0, 0

    @property
    def said(self) -> str:
        return self._output.read_text()[-1_000:]

    def has_moved_on(self, since: tuple[int, int], rounds: int = 3) -> bool:
        assert self._process.poll() is None, f"{self.name} ended: {self.said}"
        sent, read = self.progress
        return sent >= since[0] + rounds * RECORDS and read >= since[1] + rounds * RECORDS


def wait_until_all_move_on(works: list[AtWork], limit_s: float) -> None:
    """Every client sends and reads some rounds within that time, or the test fails with those that did not."""
    before = {each: each.progress for each in works}
    end = time.monotonic() + limit_s
    while stuck := [each for each in works if not each.has_moved_on(before[each])]:
        if time.monotonic() > end:
            told = [f"{each.name}: {before[each]} -> {each.progress}; {each.said}" for each in stuck]
            raise AssertionError(f"stuck for {limit_s:g} s (sent, read): {told}")
        time.sleep(LOOK_EVERY_S)


# --- in the process of a client --------------------------------------------------------------------------------------


class ClientWork:
    """What a client does; `sent` and `read` count records."""

    name = ""

    def __init__(self, servers: str, topic: str) -> None:
        self.servers = servers
        self.topic = topic
        self.group = f"{self.name}-readers"
        self.sent = 0
        self.read = 0
        self.ending = threading.Event()

    def say(self, error: object) -> None:
        print(repr(error), flush=True)

    def run(self, notes: Path) -> None:
        print(ottla.Producer, ottla.Consumer)  # loaded by one thread
        for each in (self.produce, self.consume):
            threading.Thread(target=each, daemon=True).start()
        while True:
            time.sleep(LOOK_EVERY_S)
            fresh = notes.with_suffix(".new")
            fresh.write_text(json.dumps({"sent": self.sent, "read": self.read}))
            fresh.replace(notes)

    def produce(self) -> None:
        raise NotImplementedError

    def consume(self) -> None:
        raise NotImplementedError


class Confluent(ClientWork):
    name = "confluent-kafka"

    def produce(self) -> None:
        import confluent_kafka

        producer = confluent_kafka.Producer({"bootstrap.servers": self.servers, "linger.ms": 5})

        def acknowledged(error: Any, message: Any) -> None:
            if error is None:
                self.sent += 1
            else:
                self.say(error)

        while not self.ending.wait(PAUSE_S):
            for number in range(RECORDS):
                producer.produce(self.topic, b"%d" % number, on_delivery=acknowledged)
            while producer.flush(1) and not self.ending.is_set():
                pass

    def consume(self) -> None:
        import confluent_kafka

        settings = {"bootstrap.servers": self.servers, "group.id": self.group, "auto.offset.reset": "earliest"}
        consumer = confluent_kafka.Consumer(settings)
        consumer.subscribe([self.topic])
        while not self.ending.is_set():
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error() is None:
                self.read += 1
            else:
                self.say(message.error())
        consumer.close()


class KafkaPython(ClientWork):
    name = "kafka-python"

    def produce(self) -> None:
        from kafka import KafkaProducer
        from kafka.errors import KafkaError

        producer = KafkaProducer(bootstrap_servers=self.servers, acks="all", retries=1_000)
        while not self.ending.wait(PAUSE_S):
            futures = [producer.send(self.topic, b"%d" % number) for number in range(RECORDS)]
            for each in futures:
                try:
                    each.get(120)
                    self.sent += 1
                except KafkaError as error:
                    self.say(error)
        producer.close(timeout=5)

    def consume(self) -> None:
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(
            self.topic, bootstrap_servers=self.servers, group_id=self.group, auto_offset_reset="earliest"
        )
        while not self.ending.is_set():
            self.read += sum(map(len, consumer.poll(timeout_ms=500).values()))
        consumer.close()


class Aiokafka(ClientWork):
    name = "aiokafka"

    def produce(self) -> None:
        asyncio.run(self._produce())

    def consume(self) -> None:
        asyncio.run(self._consume())

    async def _produce(self) -> None:
        from aiokafka import AIOKafkaProducer
        from aiokafka.errors import KafkaError

        async with AIOKafkaProducer(bootstrap_servers=self.servers, acks="all") as producer:
            while not self.ending.is_set():
                await asyncio.sleep(PAUSE_S)
                try:
                    for future in [await producer.send(self.topic, b"%d" % number) for number in range(RECORDS)]:
                        await future
                        self.sent += 1
                except KafkaError as error:
                    self.say(error)

    async def _consume(self) -> None:
        from aiokafka import AIOKafkaConsumer

        settings = {"group_id": self.group, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(self.topic, bootstrap_servers=self.servers, **settings) as consumer:
            while not self.ending.is_set():
                self.read += sum(map(len, (await consumer.getmany(timeout_ms=500)).values()))


class Ours(ClientWork):
    name = "ottla"

    def produce(self) -> None:
        with ottla.Producer(bootstrap_servers=self.servers) as producer:
            while not self.ending.wait(PAUSE_S):
                futures = [producer.send(self.topic, b"%d" % number) for number in range(RECORDS)]
                for each in futures:
                    try:
                        each.result(120)
                        self.sent += 1
                    except ottla.errors.OttlaError as error:
                        self.say(error)

    def consume(self) -> None:
        settings = {"group_id": self.group, "auto_offset_reset": "earliest"}
        with ottla.Consumer(self.topic, bootstrap_servers=self.servers, **settings) as consumer:
            while not self.ending.is_set():
                self.read += len(consumer.poll(timeout=0.5))


ALL: Final = {each.name: each for each in (Confluent, KafkaPython, Aiokafka, Ours)}

if __name__ == "__main__":
    _, name, servers, topic, notes = sys.argv
    ALL[name](servers, topic).run(Path(notes))
