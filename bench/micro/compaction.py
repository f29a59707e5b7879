"""What compaction costs: against decoding and encoding the same records natively, in memory, and to other threads.

    python -m bench.micro.compaction                       64 MiB
    python -m bench.micro.compaction --bytes 1073741824    1 GiB

A log of records of 100 bytes with keys, in batches of 150, where every second record is superseded by a later one, is
compacted on the real disk, syncs included. Every round has a fresh log, compacted by a worker thread while the main
thread ticks: what it misses is how long the interpreter lock was held, less what it misses beside a worker that never
holds the lock, which is the machine's doing. Of the rounds the least counts: a hold that is compaction's own is there
every time. The key map has Kafka's default setting, and peak memory is compared with that; the keys of 1 GiB do not
fit in it, so there are two passes.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from bench.micro.measure import Comparison, Row

from ottla.records import BatchBuilder, RecordBatch
from ottla.storage.compaction.cleaner import Cleaner
from ottla.storage.compaction.cleaner_plan import CleanerSettings
from ottla.storage.files import DiskFiles
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.settings import TopicSettings
from ottla.values import TopicPartition

RECORDS = 150
VALUE = bytes(range(100))
NOW_MS = 1_700_000_000_000
DEFAULT_BYTES = 64 << 20
PARTITION = TopicPartition("bench", 0)
SETTINGS = TopicSettings({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0, "segment.bytes": 128 << 20})
KEY_MAP_BYTES = CleanerSettings().dedupe_buffer_bytes
BASE_BYTES = 16 << 20  # what buffers, indexes and the allocator may take beside the key map
SWITCH_S = 0.0005  # what the broker sets, see DECISIONS 6b

SPEED = Comparison("compaction of 100 B records: speed / native decode + encode", "compaction", "codec", at_least=0.1)
MEMORY = Comparison("compaction: peak memory / its setting", "peak", "setting", at_most=1.0)
LOCK = Comparison("compaction: longest hold of the interpreter lock / 5 ms", "held", "5 ms", at_most=1.0)


def batches(size_bytes: int) -> list[bytes]:
    """Batches of about that size together; the second half of the keys repeats the first."""
    one = len(batch_of(0, 1))
    count = max(2, size_bytes // one)
    half = max(1, count // 2 * RECORDS)
    return [batch_of(number * RECORDS, half) for number in range(count)]


def batch_of(first: int, keys: int) -> bytes:
    builder = BatchBuilder(size_limit_bytes=1 << 20)
    # Odd keys come once, even keys come again in the second half.
    names = [b"key-%012d" % (number % keys if number % 2 == 0 else number) for number in range(first, first + RECORDS)]
    builder.append_many(NOW_MS, names, [VALUE] * RECORDS)
    return builder.close()


def codec_seconds(content: list[bytes]) -> float:
    """Decode and encode every record once, natively, without a disk."""
    started = time.perf_counter()
    for each in content:
        batch = RecordBatch(each)
        batch.check()
        builder = BatchBuilder(size_limit_bytes=1 << 20)
        append = builder.append
        for _, timestamp_ms, key, value, headers in batch.tuples():
            append(timestamp_ms, key, value, headers)
        builder.close()
    return time.perf_counter() - started


def fresh_log(directory: Path, content: list[bytes]) -> PartitionLog:
    log = open_log(directory / str(PARTITION), PARTITION, SETTINGS, files=DiskFiles(), now_ms=NOW_MS, is_clean=False)
    for each in content:
        log.append_as_leader(bytearray(each), leader_epoch=0, now_ms=NOW_MS)
    log.roll(NOW_MS)
    job = log.flush_job()
    job.run()
    log.flushed(job, NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return log


class Lockless(threading.Thread):
    """Keeps a core busy without the lock: what is missed beside it is the machine's doing."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def run(self) -> None:
        content = bytes(16 << 20)
        until = time.perf_counter() + self.seconds
        while time.perf_counter() < until:
            hashlib.sha256(content)


class Worker(threading.Thread):
    """Compacts a log; the owner's part of the work is done here too, which the lock cannot tell apart."""

    def __init__(self, log: PartitionLog) -> None:
        super().__init__()
        settings = CleanerSettings(dedupe_buffer_bytes=KEY_MAP_BYTES)
        self.cleaner = Cleaner(settings, {PARTITION: log}, {})
        self.seconds = 0.0
        self.passes = 0

    def run(self) -> None:
        started = time.perf_counter()
        while not (progress := self.cleaner.step(NOW_MS)).is_idle:
            self.passes += progress.clean_offset is not None
            for removed in progress.removed:
                removed.remove(DiskFiles())
        self.seconds = time.perf_counter() - started


def longest_gap(worker: threading.Thread) -> float:
    """Tick while the worker works; the longest time between two ticks, less what was asked for, in seconds."""
    longest, tick = 0.0, time.perf_counter()
    while worker.is_alive():
        time.sleep(0.0002)
        now = time.perf_counter()
        longest = max(longest, now - tick - 0.0002)
        tick = now
    return longest


def peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def measure(content: list[bytes]) -> tuple[float, float, float, int]:
    """Seconds of the codec and of compaction, longest gap in seconds, peak memory in bytes."""
    codec = codec_seconds(content)
    with tempfile.TemporaryDirectory() as directory:
        log = fresh_log(Path(directory), content)
        before = reset_peak()
        worker = Worker(log)
        worker.start()
        gap = longest_gap(worker)
        worker.join()
        peak = peak_bytes() - before
        log.close()
    other = Lockless(worker.seconds)
    other.start()
    return codec, worker.seconds, max(0.0, gap - longest_gap(other)), peak


def reset_peak() -> int:
    """Let the kernel forget the peak so far; gives what is used now."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return sys.maxsize  # not here: no peak is then above it
    return peak_bytes()


def measure_made(size_bytes: int) -> tuple[float, float, float, int, int]:
    """One round in this process: what `measure` gives, and how many bytes it worked on."""
    sys.setswitchinterval(SWITCH_S)
    content = batches(size_bytes)
    return *measure(content), sum(map(len, content))


def rows(rounds: int, size_bytes: int = DEFAULT_BYTES) -> list[Row]:
    """Each round in a fresh process: memory that an earlier benchmark left behind would hide what this one takes."""
    found = []
    for _ in range(max(1, min(rounds, 5))):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            *figures, total_bytes = pool.submit(measure_made, size_bytes).result()
            found.append(figures)
    middle = statistics.median
    speeds = [(total_bytes / compaction / 1e6, total_bytes / codec / 1e6) for codec, compaction, _, _ in found]
    held_ms = middle(gap for _, _, gap, _ in found) * 1000
    setting = (KEY_MAP_BYTES + BASE_BYTES) / 1e6
    peak = max(0.0, middle(peak for *_, peak in found) / 1e6)
    return [
        Row(SPEED, middle(ours / theirs for ours, theirs in speeds), *map(middle, zip(*speeds, strict=True)), "MB/s"),
        Row(MEMORY, peak / setting, peak, setting, "MB"),
        Row(LOCK, held_ms / 5, held_ms, 5, "ms"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.micro.compaction", description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=DEFAULT_BYTES, help="size of the log (default 64 MiB)")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    for row in rows(arguments.rounds, arguments.bytes):
        mark = " " if row.reached else "✗"
        figures = f"{row.ours:,.1f} / {row.theirs:,.1f} {row.unit}"
        print(f"{row.comparison.name:60} {row.ratio:7.2f} {mark} {row.comparison.bar:14} {figures}")


if __name__ == "__main__":
    main()
