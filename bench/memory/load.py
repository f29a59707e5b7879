"""The mixed load: one process with long-lived and short-lived clients of every kind, each at its own slow pace.

    python -m bench.memory.load ADDRESS      until its stdin ends; prints what each worker did, as JSON

A worker is a function that is called again and again on a thread of its own, with a pause between. Its clients live as
long as the load does, but for `visitor`, `member_for_a_while` and `topic_for_a_while`, which come and go. A worker
that fails ends the load with its error: memory that is flat because nothing happens shows nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ottla
import ottla.aio
from ottla.client.admin.topics import NewTopic

WAIT_S = 120.0
SMALL = {"segment.bytes": "1048576", "retention.bytes": "4194304"}
COMPACTED = {"segment.bytes": "1048576", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
PARTITIONS = 4


class Load:
    """The workers, what they have done, and when they end."""

    def __init__(self, address: str) -> None:
        self._servers: dict[str, Any] = {"bootstrap_servers": address}
        self._ending = threading.Event()
        self._done: Counter[str] = Counter()
        self._random = random.Random(7)

    def run(self) -> dict[str, int]:
        self._create_topics()
        threads = [threading.Thread(target=self._repeat, args=each, name=each[0].__name__) for each in self._workers()]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        self._ending.set()
        for thread in threads:
            thread.join(WAIT_S)
        return dict(self._done)

    def _workers(self) -> list[tuple[Callable[[], Iterator[int]], float]]:
        """Each with its pause in seconds."""
        return [
            (self.plain_producer, 0.05),
            (self.compressing_producer, 0.05),
            (self.compacted_topic, 0.1),
            (self.classic_group, 0.05),
            (self.arrow_reader, 0.05),
            (self.transactions, 0.2),
            (self.asyncio_clients, 0.2),
            (self.member_for_a_while, 3.0),
            (self.visitor, 1.0),
            (self.topic_for_a_while, 5.0),
        ]

    def _repeat(self, worker: Callable[[], Iterator[int]], pause_s: float) -> None:
        try:
            for count in worker():
                self._done[worker.__name__] += count
                if self._ending.wait(pause_s):
                    return
        except Exception:
            traceback.print_exc()
            os._exit(1)

    def _create_topics(self) -> None:
        names = {"events": SMALL, "packed": SMALL, "invoices": SMALL, "table": COMPACTED}
        with ottla.Admin(**self._servers) as admin:
            admin.create_topics(
                [NewTopic(name, num_partitions=PARTITIONS, configs=each) for name, each in names.items()]
            )

    # -- writers ------------------------------------------------------------------------------------------------------

    def plain_producer(self) -> Iterator[int]:
        with ottla.Producer(**self._servers) as producer:
            while True:
                sent = [producer.send("events", self._value(), key=b"%d" % number) for number in range(200)]
                for each in sent:
                    each.result(WAIT_S)
                yield len(sent)

    def compressing_producer(self) -> Iterator[int]:
        with (
            ottla.Producer(**self._servers, compression_type="zstd") as first,
            ottla.Producer(**self._servers, compression_type="lz4", batch_size=16384) as second,
        ):
            while True:
                for producer in (first, second):
                    producer.send_many("packed", [self._value() for _ in range(200)]).result(WAIT_S)
                yield 400

    def compacted_topic(self) -> Iterator[int]:
        with ottla.Producer(**self._servers) as producer:
            while True:
                for _ in range(100):
                    producer.send("table", self._value(), key=b"%d" % self._random.randrange(1_000))
                producer.flush(WAIT_S)
                yield 100

    # -- readers ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _reader(self, topic: str, **settings: Any) -> Iterator[ottla.Consumer[Any, Any]]:
        with ottla.Consumer(topic, **self._servers, auto_offset_reset="earliest", **settings) as consumer:
            yield consumer

    def classic_group(self) -> Iterator[int]:
        with self._reader("events", group_id="classic") as consumer:
            while True:
                yield len(consumer.poll(0.2))

    def arrow_reader(self) -> Iterator[int]:
        with self._reader("packed", group_id="arrow", group_protocol="consumer") as consumer:
            while True:
                found = consumer.poll_arrow(0.2)
                yield 0 if found is None else found.num_rows

    def member_for_a_while(self) -> Iterator[int]:
        """The groups get and lose a member again and again; partitions move between them."""
        while True:
            with self._reader("events", group_id="classic") as consumer:
                found = sum(len(consumer.poll(0.5)) for _ in range(20))
            yield found + 1

    # -- both ---------------------------------------------------------------------------------------------------------

    def transactions(self) -> Iterator[int]:
        with (
            ottla.Producer(**self._servers, transactional_id="copy") as producer,
            self._reader("events", group_id="copy", enable_auto_commit=False, max_poll_records=200) as consumer,
        ):
            producer.init_transactions()
            while True:
                records = consumer.poll(0.2)
                if records:
                    self._copy(producer, consumer, records)
                yield len(records)

    def _copy(self, producer: Any, consumer: Any, records: list[Any]) -> None:
        producer.begin_transaction()
        for record in records:
            producer.send("invoices", record.value)
        if self._random.random() < 0.1:
            producer.abort_transaction()
            return
        read = {partition: consumer.position(partition) for partition in consumer.assignment()}
        producer.send_offsets_to_transaction(read, consumer.group_metadata())
        producer.commit_transaction()

    def asyncio_clients(self) -> Iterator[int]:
        loop = asyncio.new_event_loop()
        worker = self._asyncio_rounds()
        try:
            while True:
                yield loop.run_until_complete(anext(worker))
        finally:
            loop.run_until_complete(worker.aclose())
            loop.close()

    async def _asyncio_rounds(self) -> Any:
        settings: dict[str, Any] = {"group_id": "asyncio", "auto_offset_reset": "earliest"}
        async with (
            ottla.aio.Producer(**self._servers) as producer,
            ottla.aio.Consumer("invoices", **self._servers, **settings, isolation_level="read_committed") as consumer,
        ):
            while True:
                await asyncio.gather(*[await producer.send("events", self._value()) for _ in range(50)])
                yield 50 + len(await consumer.poll(0.2))

    # -- who comes and goes -------------------------------------------------------------------------------------------

    def visitor(self) -> Iterator[int]:
        while True:
            with ottla.Producer(**self._servers) as producer:
                producer.send("events", b"a visit").result(WAIT_S)
            with ottla.Admin(**self._servers) as admin:
                admin.describe_topics(["events", "table"])
            yield 1

    def topic_for_a_while(self) -> Iterator[int]:
        number = 0
        with ottla.Admin(**self._servers) as admin:
            while True:
                name = f"for-a-while-{number}"
                admin.create_topics([NewTopic(name, num_partitions=3)])
                with ottla.Producer(**self._servers) as producer:
                    producer.send(name, self._value()).result(WAIT_S)
                admin.delete_topics([name])
                number += 1
                yield 1

    def _value(self) -> bytes:
        return b"x%d" % self._random.randrange(1_000_000) * self._random.randrange(1, 200)


if __name__ == "__main__":
    print(json.dumps(Load(sys.argv[1]).run()))
