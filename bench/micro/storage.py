"""What the log on disk costs above the bare system calls: append, recovery, group commit, lookup.

Every ratio compares rates on the same bytes, on the same disk, in the same moment. Both sides write into files that
grow, in blocks of MEASURED_BYTES that are removed again; memory is warmed before (the first touch of a page that the
host has not given yet costs more than everything measured here).

- append: the bare side does CRC32C and os.pwritev; ours checks, numbers and writes the same batch as leader.
- recovery: the bare side reads 1 MiB at a time and sums it; ours finds every batch, proves it and builds the indexes.
- group commit: the bare side calls fdatasync after every append; ours has 100 appenders that wait for their sync, in
  the rounds of the broker's Flusher.
- lookup: median time to find where a random offset is, in one segment of LOOKUP_BYTES; here the bar is microseconds.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bench.micro.measure import Comparison, Row

from ottla.broker.housekeeping.flusher import Flusher
from ottla.broker.replication.partition import Partition
from ottla.clock import SystemClock
from ottla.errors import KafkaStorageError
from ottla.records import BatchBuilder, crc32c
from ottla.records.layout import ATTRIBUTES_AT
from ottla.storage.directory.offline import FailStopFiles
from ottla.storage.files import DiskFiles
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.settings import TopicSettings
from ottla.values import TopicPartition

NOW_MS = 1_700_000_000_000
NAME = TopicPartition("bench", 0)
MEASURED_BYTES = 64 << 20
TURN_BYTES = 8 << 20
RECOVERED_BYTES = 256 << 20
WARM_BYTES = 512 << 20
LOOKUP_BYTES = int(os.environ.get("OTTLA_BENCH_LOOKUP_BYTES", 1 << 30))
LOOKUPS = 20_000
APPENDERS = 100
TOGETHER = 10  # requests that a turn of a broker's loop finds
CHUNK_BYTES = 1 << 20
NO_OFFSET = bytes(8)


def batch_of(size_bytes: int, value_bytes: int = 100) -> bytearray:
    builder = BatchBuilder(size_limit_bytes=size_bytes)
    value = os.urandom(value_bytes)
    while builder.append(NOW_MS, None, value):
        pass
    return bytearray(builder.close())


def open_new(directory: Path) -> PartitionLog:
    """A log as the broker has it, its directory's door included."""
    directory.parent.mkdir(exist_ok=True)
    files = FailStopFiles(DiskFiles(), directory.parent)
    settings = TopicSettings({"max.message.bytes": 2 << 20})
    return open_log(directory, NAME, settings, files=files, now_ms=NOW_MS, is_clean=False)


def append(log: PartitionLog, batch: bytearray) -> int:
    """Append the batch as it comes from a socket; the log numbers it in place, so the number is taken back here."""
    batch[:8] = NO_OFFSET
    return log.append_as_leader(batch, leader_epoch=1, now_ms=NOW_MS).next_offset


# -- append ----------------------------------------------------------------------------------------------------------


class BareFile:
    """What an append costs at least: the sum of the batch and one write at the end of a file."""

    def __init__(self, path: Path) -> None:
        self._number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        self._position = 0

    def append(self, batch: bytearray) -> None:
        crc32c(memoryview(batch)[ATTRIBUTES_AT:])
        self._position += os.pwritev(self._number, (batch,), self._position)

    def close(self) -> None:
        os.close(self._number)


def append_row(root: Path, rounds: int, size_bytes: int, label: str) -> Row:
    """The sides take turns after every few megabytes, because a neighbour stays longer than that."""
    batch = batch_of(size_bytes)
    count = TURN_BYTES // len(batch)
    rates: dict[str, list[float]] = {"ours": [], "theirs": []}
    for number in range(rounds + 1):
        with tempfile.TemporaryDirectory(dir=root) as directory:
            log, bare = open_new(Path(directory, "log", str(NAME))), BareFile(Path(directory, "bare"))
            append(log, batch)  # the first one of a leader writes its epoch down, with two syncs
            sides = [("ours", partial(append, log, batch)), ("theirs", partial(bare.append, batch))]
            for _ in range(MEASURED_BYTES // TURN_BYTES):
                sides.reverse()  # whoever comes second finds other caches and other pages
                for side, work in sides:
                    rate = count * len(batch) / 1e6 / _seconds(work, count)
                    if number:  # the first round only warms
                        rates[side].append(rate)
            bare.close()
            log.close(is_clean=False)
    return _row(f"append {label} as leader, rate: ours / (CRC32C + pwritev)", 0.6, rates, "MB/s")


def _seconds(work: Callable[[], object], count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        work()
    return time.perf_counter() - started


# -- recovery --------------------------------------------------------------------------------------------------------


def recovery_row(root: Path, rounds: int) -> Row:
    home = root / "recovery" / str(NAME)
    batch = batch_of(16 << 10)
    log = open_new(home)
    for _ in range(RECOVERED_BYTES // len(batch)):
        append(log, batch)
    size_bytes, path = log.size_bytes, log.active.path
    log.close(is_clean=False)

    def ours(_: Path) -> float:
        started = time.perf_counter()
        found = open_new(home)
        took = time.perf_counter() - started
        assert found.size_bytes == size_bytes
        found.close(is_clean=False)
        return took

    def theirs(_: Path) -> float:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        started = time.perf_counter()
        for position in range(0, size_bytes, CHUNK_BYTES):
            crc32c(os.pread(number, CHUNK_BYTES, position))
        took = time.perf_counter() - started
        os.close(number)
        return took

    sides = {"ours": ours, "theirs": theirs}
    row = _rate_row(root, rounds, "recovery scan, rate: ours / (read + CRC32C)", 0.5, sides, size_bytes / 1e6, "MB/s")
    shutil.rmtree(home)
    return row


# -- group commit ----------------------------------------------------------------------------------------------------


def commit_bare(directory: Path, batch: bytearray, count: int) -> float:
    number = os.open(directory / "bare", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    position = 0
    started = time.perf_counter()
    for _ in range(count):
        position += os.pwritev(number, (batch,), position)
        os.fdatasync(number)
    took = (time.perf_counter() - started) / count
    os.close(number)
    return took


def commit_ours(directory: Path, batch: bytearray, rounds: int) -> float:
    """Every appender appends, waits until its record is on the disk, and appends the next one."""
    log = open_new(directory / str(NAME))
    append(log, batch)
    with ThreadPoolExecutor(1) as pool:
        took = asyncio.run(_commit(log, pool, batch, rounds * APPENDERS))
    log.close(is_clean=False)
    return took


async def _commit(log: PartitionLog, pool: ThreadPoolExecutor, batch: bytearray, count: int) -> float:
    """The group commit of the broker: seconds per append of `count` appends."""
    partition, round_over = Partition(NAME, bytes(16), log, broker_id=1), asyncio.Event()
    flusher = Flusher(pool, clock=SystemClock(), flushed=lambda _: round_over.set(), failed=_refuse)
    acknowledged, waiting = 0, list[int]()
    started = time.perf_counter()
    while acknowledged < count:
        while len(waiting) < APPENDERS:
            waiting += [append(log, batch) for _ in range(TOGETHER)]
            flusher.mark(partition)
            await asyncio.sleep(0)
        await round_over.wait()
        round_over.clear()
        still = [offset for offset in waiting if offset > log.flushed_offset]
        acknowledged += len(waiting) - len(still)
        waiting = still
    took = (time.perf_counter() - started) / acknowledged
    while not flusher.is_idle:
        await round_over.wait()
        round_over.clear()
    return took


def _refuse(_: Partition, error: KafkaStorageError) -> None:
    raise error


def commit_row(root: Path, rounds: int) -> Row:
    batch = batch_of(1 << 10)
    sides = {
        "ours": lambda at: commit_ours(at, batch, 50),
        "theirs": lambda at: commit_bare(at, batch, 200),
    }
    name = "group commit, 100 appenders, rate: ours / fdatasync each"
    return _rate_row(root, rounds, name, 15, sides, 1.0, "appends/s")


# -- lookup ----------------------------------------------------------------------------------------------------------


def lookup_row(root: Path) -> Row:
    """One figure, not a ratio: microseconds over one microsecond."""
    log = open_new(root / "lookup" / str(NAME))
    batch = batch_of(3 << 10)
    for _ in range(LOOKUP_BYTES // len(batch)):
        append(log, batch)
    generator = random.Random(7)
    taken = []
    for number in range(LOOKUPS + 100):
        offset = generator.randrange(log.log_end_offset)
        started = time.perf_counter_ns()
        log.read(offset, 1, up_to="log_end")
        if number >= 100:  # the first question loads the index
            taken.append((time.perf_counter_ns() - started) / 1000)
    size_gb = log.size_bytes / (1 << 30)
    log.close(is_clean=False)
    shutil.rmtree(root / "lookup")
    median = statistics.median(taken)
    comparison = Comparison(f"offset lookup in a log of {size_gb:.1f} GiB, µs", "lookup", "1 µs", at_most=50)
    return Row(comparison, median, median, 1, "µs")


# -- all of them -----------------------------------------------------------------------------------------------------


def _rate_row(
    root: Path,
    rounds: int,
    name: str,
    at_least: float,
    sides: dict[str, Callable[[Path], float]],
    amount: float,
    unit: str,
) -> Row:
    """Sides take turns, each in a fresh directory; the answer is the median ratio of their rates."""
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        for side, work in sides.items():
            with tempfile.TemporaryDirectory(dir=root) as directory:
                took = work(Path(directory))
            if number:  # the first round only warms
                rates[side].append(amount / took)
    return _row(name, at_least, rates, unit)


def _row(name: str, at_least: float, rates: dict[str, list[float]], unit: str) -> Row:
    ratio = statistics.median(a / b for a, b in zip(rates["ours"], rates["theirs"], strict=True))
    comparison = Comparison(name, "ours", "theirs", at_least=at_least)
    return Row(comparison, ratio, statistics.median(rates["ours"]), statistics.median(rates["theirs"]), unit)


def _warm(root: Path) -> None:
    with (root / "warm").open("wb") as file:
        for _ in range(WARM_BYTES // CHUNK_BYTES):
            file.write(bytes(CHUNK_BYTES))
    (root / "warm").unlink()


def rows(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory:
        root = Path(directory)
        _warm(root)
        return [
            append_row(root, rounds, 16 << 10, "16 KB"),
            append_row(root, rounds, 1 << 20, "1 MB"),
            recovery_row(root, rounds),
            commit_row(root, min(rounds, 5)),
            lookup_row(root),
        ]
