"""The child of test_kill_nine.py: appends under `durable` and says what it has acknowledged, until it is killed.

    ack <partition> <offset> <sum of the value>     the record is on the disk
    cutting <partition> <offset>                    what is at or behind the offset may be gone from now on
    cleaning <partition> <high watermark>           what is below it may be gone from now on
    starts <partition> <log start>                  so much is gone and no more

Segments are small, so that it is nearly always rolling, truncating, writing tables or deleting files.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from ottla.records import BatchBuilder
from ottla.storage.directory.loading import ProducerLimits
from ottla.storage.directory.manager import LogManager
from ottla.storage.files import DiskFiles
from ottla.storage.log.durability import Committed, GroupCommit
from ottla.storage.log.partition_log import PartitionLog
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
    def __init__(self, logs: LogManager, commit: GroupCommit, random: Random) -> None:
        self._logs = logs
        self._commit = commit
        self._random = random
        self._waiting: dict[int, list[tuple[int, str]]] = {number: [] for number in range(PARTITIONS)}
        # Where batches begin: a leader's epoch ends between batches, and so does every truncation.
        self._firsts: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}

    def append(self, log: PartitionLog) -> None:
        builder = BatchBuilder()
        values = [self._random.randbytes(self._random.randrange(1, 200)) for _ in range(self._random.randrange(1, 4))]
        for value in values:
            builder.append(now_ms(), None, value)
        first = log.append_as_leader(builder.close(), leader_epoch=1, now_ms=now_ms()).first_offset
        number = log.topic_partition.partition
        self._firsts[number].append(first)
        self._waiting[number] += [(first + at, sum_of(value)) for at, value in enumerate(values)]
        self._commit.mark(log)

    def acknowledge(self) -> None:
        for outcome in self._commit.step(now_ms(), wait_for_round=True):
            assert isinstance(outcome, Committed), outcome
            number = outcome.log.topic_partition.partition
            outcome.log.update_high_watermark(outcome.offset)
            for offset, digest in self._waiting[number]:
                if offset < outcome.offset:
                    say("ack", number, offset, digest)
            self._waiting[number] = [each for each in self._waiting[number] if each[0] >= outcome.offset]

    def settle(self) -> None:
        while not self._commit.is_idle:
            self.acknowledge()

    def truncate(self, log: PartitionLog) -> None:
        self.settle()
        number = log.topic_partition.partition
        self._firsts[number] = [at for at in self._firsts[number] if at >= log.log_start_offset]
        offset = self._random.choice([*self._firsts[number], log.log_end_offset])
        self._firsts[number] = [at for at in self._firsts[number] if at < offset]
        say("cutting", number, offset)
        self._logs.truncate_to(log.topic_partition, offset, now_ms())

    def clean_up(self) -> None:
        self.settle()
        for log in self._logs.logs():
            say("cleaning", log.topic_partition.partition, log.high_watermark)
        self._logs.clean_up(now_ms())
        for log in self._logs.logs():
            say("starts", log.topic_partition.partition, log.log_start_offset)

    def chore(self, log: PartitionLog) -> None:
        chosen = self._random.randrange(12)
        if chosen == 0:
            self.truncate(log)
        elif chosen == 1:
            self.clean_up()
        elif chosen == 2:
            self._logs.checkpoint(now_ms())
        elif chosen == 3:
            self.settle()
            self._logs.delete_due(now_ms())
        elif chosen == 4:
            log.roll(now_ms())


def main() -> None:
    directory, seed = Path(sys.argv[1]), int(sys.argv[2])
    random = Random(seed)
    logs = manager(directory)
    logs.open(now_ms())
    found = [logs.create(TopicPartition("t", number), TOPIC_ID, SETTINGS, now_ms()) for number in range(PARTITIONS)]
    with ThreadPoolExecutor(2) as pool:
        appender = Appender(logs, GroupCommit(pool), random)
        while True:
            for _ in range(random.randrange(1, 20)):
                appender.append(random.choice(found))
            appender.acknowledge()
            appender.chore(random.choice(found))


if __name__ == "__main__":
    main()
