"""The child of test_kill_nine.py: appends under `durable` and says what it has acknowledged, until it is killed.

    ack <partition> <offset> <sum of the value>     the record is on the disk
    cutting <partition> <offset>                    what is at or behind the offset may be gone from now on
    cleaning <partition> <high watermark>           what is below it may be gone from now on
    starts <partition> <log start>                  so much is gone and no more

Records go the broker's own way: `Partition.append`, then the rounds of `Flusher` on an event loop with a pool, and what
is below the high watermark then is acknowledged. Segments are small, so that it is nearly always rolling, truncating,
writing tables or deleting files.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from ottla.broker.housekeeping.flusher import Flusher
from ottla.broker.replication.partition import ACKS_ALL, Partition
from ottla.clock import SystemClock
from ottla.cluster import model
from ottla.errors import KafkaStorageError
from ottla.records import BatchBuilder
from ottla.storage.directory.loading import ProducerLimits
from ottla.storage.directory.manager import LogManager
from ottla.storage.files import DiskFiles
from ottla.storage.settings import TopicSettings
from ottla.values import TopicPartition

PARTITIONS = 3
TOPIC_ID = bytes(range(16))
SETTINGS = TopicSettings(
    {
        "internal.segment.bytes": 1500,
        "segment.index.bytes": 240,
        "index.interval.bytes": 100,
        "retention.bytes": 6000,
        "file.delete.delay.ms": 5,
        "ottla.durability": "durable",
    }
)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def sum_of(value: bytes) -> str:
    return hashlib.sha1(value).hexdigest()


def manager(directory: Path) -> LogManager:
    return LogManager(
        [directory / "a", directory / "b"],
        files=DiskFiles(),
        default_settings=SETTINGS,
        cluster_id="c",
        broker_id=1,
        producer_limits=ProducerLimits(verification_required=False),
    )


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Appender:
    def __init__(self, logs: LogManager, partitions: list[Partition], pool: ThreadPoolExecutor, random: Random) -> None:
        self._logs = logs
        self._partitions = partitions
        self._random = random
        self._round_over = asyncio.Event()
        self._flusher = Flusher(pool, clock=SystemClock(), flushed=self._flushed, failed=self._failed)
        self._waiting: dict[int, list[tuple[int, str]]] = {number: [] for number in range(PARTITIONS)}
        # Where batches begin: a leader's epoch ends between batches, and so does every truncation.
        self._firsts: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}

    def append(self, partition: Partition) -> None:
        builder = BatchBuilder()
        values = [self._random.randbytes(self._random.randrange(1, 200)) for _ in range(self._random.randrange(1, 4))]
        for value in values:
            builder.append(now_ms(), None, value)
        first = partition.append(builder.close(), acks=ACKS_ALL, now_ms=now_ms()).first_offset
        number = partition.name.partition
        self._firsts[number].append(first)
        self._waiting[number] += [(first + at, sum_of(value)) for at, value in enumerate(values)]
        assert partition.needs_flush
        self._flusher.mark(partition)

    def _flushed(self, partition: Partition) -> None:
        partition.advance()
        number, committed = partition.name.partition, partition.high_watermark
        for offset, digest in self._waiting[number]:
            if offset < committed:
                say("ack", number, offset, digest)
        self._waiting[number] = [each for each in self._waiting[number] if each[0] >= committed]
        self._round_over.set()

    def _failed(self, partition: Partition, error: KafkaStorageError) -> None:
        raise AssertionError(f"{partition.name} could not be synced") from error

    async def acknowledge(self) -> None:
        """Let a round end that is under way."""
        if not self._flusher.is_idle:
            self._round_over.clear()
            await self._round_over.wait()

    async def drain(self) -> None:
        while not self._flusher.is_idle:
            await self.acknowledge()

    async def truncate(self, partition: Partition) -> None:
        await self.drain()
        log, number = partition.log, partition.name.partition
        self._firsts[number] = [at for at in self._firsts[number] if at >= log.log_start_offset]
        offset = self._random.choice([*self._firsts[number], log.log_end_offset])
        self._firsts[number] = [at for at in self._firsts[number] if at < offset]
        say("cutting", number, offset)
        self._logs.truncate_to(partition.name, offset, now_ms())

    async def clean_up(self) -> None:
        await self.drain()
        for partition in self._partitions:
            say("cleaning", partition.name.partition, partition.high_watermark)
        for _ in self._logs.clean_up(now_ms()):
            pass
        for partition in self._partitions:
            say("starts", partition.name.partition, partition.log.log_start_offset)

    async def do_something_else(self, partition: Partition) -> None:
        chosen = self._random.randrange(12)
        if chosen == 0:
            await self.truncate(partition)
        elif chosen == 1:
            await self.clean_up()
        elif chosen == 2:
            for job in self._logs.checkpoint_jobs():
                job.run()
        elif chosen == 3:
            await self.drain()
            for removal in self._logs.removals_due(now_ms()):
                removal.run()
        elif chosen == 4:
            partition.log.roll(now_ms())


def led_partition(logs: LogManager, number: int) -> Partition:
    """A partition that this broker leads alone, so that what it acknowledges is on its disk."""
    name = TopicPartition("t", number)
    log = logs.create(name, TOPIC_ID, SETTINGS, now_ms())
    partition = Partition(name, TOPIC_ID, log, broker_id=1)
    partition.update_state(model.Partition((1,), (1,), 1, leader_epoch=1))
    assert partition.is_durable
    return partition


async def append_for_ever(directory: Path, random: Random) -> None:
    logs = manager(directory)
    logs.open(now_ms())
    partitions = [led_partition(logs, number) for number in range(PARTITIONS)]
    with ThreadPoolExecutor(2) as pool:
        appender = Appender(logs, partitions, pool, random)
        while True:
            for _ in range(random.randrange(1, 20)):
                appender.append(random.choice(partitions))
            await appender.acknowledge()
            await appender.do_something_else(random.choice(partitions))


if __name__ == "__main__":
    asyncio.run(append_for_ever(Path(sys.argv[1]), Random(int(sys.argv[2]))))
