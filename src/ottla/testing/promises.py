"""What a cluster promises, held against what it did: for tests that take brokers away while clients work.

    with NumberedLoad(cluster.bootstrap_servers, "clicks", partitions=3) as load:
        cluster.crash(cluster.leader_of("clicks", 0))
    load.check_cluster(cluster)

1. A load sends 0, 1, 2, ... to each partition, as one idempotent producer, and remembers what was acknowledged.
2. `check` fails when an acknowledged number is missing, when one is there twice, or when two changed places.
3. `GroupReading` is a member of a group that never stops; it fails when a committed offset went back.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from ottla.client.consumer.consumer import Consumer
from ottla.client.producer.batches.delivery import SendFuture
from ottla.client.producer.producer import Producer
from ottla.testing.cluster import KafkaCluster
from ottla.values import TopicPartition

JOIN_LIMIT_S: Final = 300.0
READ_LIMIT_S: Final = 300.0
PAUSE_S: Final = 0.002


class BrokenPromise(AssertionError):
    """The cluster did what it must not."""


class Background:
    """A thread between enter and exit; what failed in it fails the block."""

    def __init__(self) -> None:
        self._ending = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._survive, name=type(self).__name__, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._ending.set()
        if error is None:
            self.end()

    @property
    def is_running(self) -> bool:
        """False when it has failed; `end` says why."""
        return self._thread.is_alive()

    def end(self) -> None:
        """Stop, and wait until everything that was begun is over; raises what failed."""
        self._ending.set()
        self._thread.join(JOIN_LIMIT_S)
        if self._thread.is_alive():
            raise BrokenPromise(f"{type(self).__name__} did not end within {JOIN_LIMIT_S:g} s")
        if self._failure is not None:
            raise self._failure

    def _survive(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self._failure = error

    def _run(self) -> None:
        raise NotImplementedError

    def _where(self) -> str:
        """The functions the thread is in, the innermost last: what a stuck one waits for."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return " > ".join(f"{each.name}:{each.lineno}" for each in traceback.extract_stack(frame)) if frame else "over"


class NumberedLoad(Background):
    """See the module. `settings` are the producer's."""

    def __init__(
        self, bootstrap_servers: str, topic: str, partitions: int, *, pause_s: float = PAUSE_S, **settings: Any
    ) -> None:
        super().__init__()
        self.topic = topic
        self.acknowledged: dict[int, set[int]] = {number: set() for number in range(partitions)}
        self.failures: list[BaseException] = []
        self.longest_wait_s = 0.0
        self._pause_s = pause_s
        self._settings = {"bootstrap_servers": bootstrap_servers, "acks": "all", **settings}

    @property
    def count(self) -> int:
        """How many records were acknowledged."""
        return sum(len(numbers) for numbers in self.acknowledged.values())

    def wait_for(self, more: int, limit_s: float = READ_LIMIT_S) -> None:
        """Wait until so many more records are acknowledged."""
        wanted, end = self.count + more, time.monotonic() + limit_s
        while self.count < wanted:
            if self._failure is not None or time.monotonic() > end:
                raise BrokenPromise(
                    f"{self.count} of {wanted} were acknowledged within {limit_s:g} s; the load is in {self._where()}"
                )
            time.sleep(PAUSE_S)

    def _run(self) -> None:
        with Producer(**self._settings) as producer:
            number = 0
            while not self._ending.is_set():
                for partition in self.acknowledged:
                    self._send(producer, partition, number)
                number += 1
                time.sleep(self._pause_s)
            producer.flush(JOIN_LIMIT_S)

    def _send(self, producer: Producer, partition: int, number: int) -> None:
        began = time.monotonic()

        def delivered(future: SendFuture) -> None:
            self.longest_wait_s = max(self.longest_wait_s, time.monotonic() - began)
            error = future.exception()
            if error is None:
                self.acknowledged[partition].add(number)
            else:
                self.failures.append(error)

        producer.send(self.topic, b"%d" % number, partition=partition).add_done_callback(delivered)

    def check(self, found: Mapping[int, list[int]]) -> None:
        """Fail unless everything acknowledged was found, once and in order."""
        for partition, numbers in self.acknowledged.items():
            check_numbers(f"{self.topic}-{partition}", numbers, found[partition])

    def check_cluster(self, cluster: KafkaCluster, *, failures_allowed: bool = False) -> None:
        """The same for a cluster of this process, and that all copies are alike."""
        partitions = len(self.acknowledged)
        cluster.check_replicas(self.topic, partitions)
        if self.failures and not failures_allowed:
            raise BrokenPromise(f"{len(self.failures)} records were refused, the first: {self.failures[0]}")
        self.check(read_numbers(cluster.bootstrap_servers, self.topic, partitions))


def check_numbers(where: str, acknowledged: set[int], found: list[int]) -> None:
    if lost := acknowledged - set(found):
        raise BrokenPromise(f"{where} lost {len(lost)} acknowledged records, the first is {min(lost)}")
    if len(found) != len(set(found)):
        twice = sorted(number for number in set(found) if found.count(number) > 1)
        raise BrokenPromise(f"{where} has {len(twice)} records twice, the first is {twice[0]}")
    if found != sorted(found):
        raise BrokenPromise(f"the order of {where} was not kept: {found[:20]}")


def read_numbers(bootstrap_servers: str, topic: str, partitions: int, **settings: Any) -> dict[int, list[int]]:
    """Everything in a topic from its beginning to its end as it is now."""
    names = [TopicPartition(topic, number) for number in range(partitions)]
    found: dict[int, list[int]] = defaultdict(list)
    with Consumer(bootstrap_servers=bootstrap_servers, **settings) as consumer:
        consumer.assign(names)
        ends = consumer.end_offsets(names, timeout=READ_LIMIT_S)
        consumer.seek_to_beginning(*names)
        end = time.monotonic() + READ_LIMIT_S
        while any(consumer.position(name, timeout=READ_LIMIT_S) < ends[name] for name in names):
            if time.monotonic() > end:
                raise BrokenPromise(f"{topic} could not be read to its end within {READ_LIMIT_S:g} s: {ends}")
            for record in consumer.poll(1.0):
                assert record.value is not None, "a load sends no tombstones"
                found[record.partition].append(int(record.value))
    return found


class GroupReading(Background):
    """See the module. `settings` are the consumer's."""

    def __init__(self, bootstrap_servers: str, topic: str, group_id: str, **settings: Any) -> None:
        super().__init__()
        self.numbers: dict[int, list[int]] = defaultdict(list)
        self.committed: dict[TopicPartition, int] = {}
        self._topic = topic
        self._settings = {
            "bootstrap_servers": bootstrap_servers,
            "group_id": group_id,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            **settings,
        }

    @property
    def count(self) -> int:
        return sum(len(set(numbers)) for numbers in self.numbers.values())

    def wait_for(self, count: int, limit_s: float = READ_LIMIT_S) -> None:
        """Wait until so many different records were read."""
        end = time.monotonic() + limit_s
        while self.count < count:
            if self._failure is not None or time.monotonic() > end:
                read = {partition: (len(set(numbers)), max(numbers)) for partition, numbers in self.numbers.items()}
                raise self._failure or BrokenPromise(
                    f"{self.count} of {count} were read within {limit_s:g} s; how many and the highest by partition:"
                    f" {read}; committed: {self.committed}; the reader is in {self._where()}"
                )
            time.sleep(PAUSE_S)

    def _run(self) -> None:
        with Consumer(self._topic, **self._settings) as consumer:
            while not self._ending.is_set():
                records = consumer.poll(0.2)
                for record in records:
                    self.numbers[record.partition].append(int(record.value))
                if records:
                    self._commit(consumer, records)

    def _commit(self, consumer: Consumer, records: list[Any]) -> None:
        """Commit what was read, then ask what is committed: it must not be less than at any time before."""
        try:
            consumer.commit(timeout=READ_LIMIT_S)
        except Exception as error:
            if not getattr(error, "retriable", False) and "rebalance" not in str(error).lower():
                raise
            return
        names = {TopicPartition(record.topic, record.partition) for record in records}
        for name, found in consumer.committed(*names, timeout=READ_LIMIT_S).items():
            offset = -1 if found is None else found.offset
            if offset < self.committed.get(name, -1):
                raise BrokenPromise(f"the committed offset of {name} went back: {self.committed[name]} to {offset}")
            self.committed[name] = offset
