"""kill -9 at random moments: what was acknowledged under `durable` is there, to the byte, whatever was going on.

A child (appender.py) appends to small segments, truncates, deletes and writes tables, and tells every acknowledgement
through a pipe. It is killed, its directories are opened again and compared with what it said, recovered once more, and
the next child goes on with them.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

from ottla.records import RecordStream
from ottla.storage.log.partition_log import PartitionLog

APPENDER = Path(__file__).with_name("appender.py")
ALIVE_S = 0.3


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ottla_test_appender", APPENDER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


appender = _load()


class Promise:
    """What a partition must hold, going by what the child said."""

    def __init__(self) -> None:
        self.acknowledged: dict[int, str] = {}
        self.start_max = 0

    def heard(self, word: str, offset: int, digest: str | None) -> None:
        if word == "ack":
            assert digest is not None
            self.acknowledged[offset] = digest
        elif word == "cutting":
            self.acknowledged = {at: each for at, each in self.acknowledged.items() if at < offset}
        elif word in ("cleaning", "starts"):
            self.start_max = offset
        else:
            raise AssertionError(f"the child said {word}")


def run_and_kill(directory: Path, seed: int, alive_s: float, promises: list[Promise]) -> int:
    """Let a child work for a while; gives how many records it acknowledged."""
    command = [sys.executable, str(APPENDER), str(directory), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        said = child.stdout.readline()
        time.sleep(alive_s)
        child.kill()
        said += child.stdout.read()
        errors = child.stderr.read().decode()
    assert "Traceback" not in errors, errors
    count = 0
    for line in said.decode().splitlines(keepends=True):
        if line.endswith("\n"):  # the last one may be cut off, and what was not said was not promised
            word, partition, offset, *digest = line.split()
            promises[int(partition)].heard(word, int(offset), digest[0] if digest else None)
            count += word == "ack"
    return count


def sums(log: PartitionLog) -> dict[int, str]:
    found: dict[int, str] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 1 << 20, up_to="log_end").slice.read()
        for batch in RecordStream(piece):
            batch.check()
            for record in batch.records():
                assert record.value is not None
                assert record.offset not in found
                found[record.offset] = appender.sum_of(record.value)
            offset = batch.next_offset
    return {at: each for at, each in found.items() if at >= log.log_start_offset}


def check(directory: Path, promises: list[Promise]) -> None:
    """Recover twice; both times everything promised is there, and the second time finds what the first one left."""
    seen = []
    for _ in range(2):
        logs = appender.manager(directory)
        logs.open(appender.now_ms())
        assert not logs.failures()
        found = {log.topic_partition.partition: (log.log_start_offset, sums(log)) for log in logs.logs()}
        for number, (start, records) in found.items():
            promise = promises[number]
            assert start <= promise.start_max
            assert list(records) == list(range(start, start + len(records))), "there is a hole"
            kept = {at: each for at, each in promise.acknowledged.items() if at >= start}
            assert kept.items() <= records.items(), f"partition {number} lacks what was acknowledged"
        assert all(number in found for number, promise in enumerate(promises) if promise.acknowledged)
        seen.append(found)
        logs.close(is_clean=False)
    assert seen[0] == seen[1]


def rounds(directory: Path, count: int, seed: int) -> None:
    random = Random(seed)
    promises = [Promise() for _ in range(appender.PARTITIONS)]
    acknowledged = 0
    for number in range(count):
        alive_s = random.random() * ALIVE_S
        acknowledged += run_and_kill(directory, random.randrange(1 << 30), alive_s, promises)
        check(directory, promises)
        assert acknowledged, f"after round {number} nothing was acknowledged: there is nothing to lose"


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    rounds(tmp_path, 8, seed=1)


@pytest.mark.long
def test_nothing_acknowledged_is_lost_in_two_hundred_rounds(tmp_path: Path) -> None:
    rounds(tmp_path, 200, seed=2)
