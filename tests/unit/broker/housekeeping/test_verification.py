"""Passes over all records go on: on a full disk, and after a clock was set right."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ottla.broker.housekeeping.verification import Verification
from ottla.testing.files import MemoryFiles

INTERVAL_MS = 1_000


class Replicas(list[Any]):
    def get(self, name: object) -> None:
        return None


def verification(files: MemoryFiles, now_ms: list[int]) -> tuple[Verification, SimpleNamespace]:
    settings = SimpleNamespace(ottla_verify_interval_ms=INTERVAL_MS, ottla_verify_max_bytes_per_second=1 << 20)
    counts = SimpleNamespace(verification_passes=0)
    corruption = SimpleNamespace(found={}, repair_known=lambda: None)
    broker: Any = SimpleNamespace(settings=settings, counts=counts, replicas=Replicas(), corruption=corruption)
    directory = SimpleNamespace(path=Path("/data"), files=files, is_online=True)
    files.make_directory(directory.path)
    logs: Any = SimpleNamespace(directories=[directory])
    clock: Any = SimpleNamespace(now_ms=lambda: now_ms[0], sleep=asyncio.sleep)

    async def off_loop(work: Any) -> None:
        work()

    return Verification(broker, logs, clock, off_loop), counts


def test_a_full_disk_does_not_end_the_verification() -> None:
    """Only how far it is cannot be written down."""
    files, now_ms = MemoryFiles(), [10_000]
    passes, counts = verification(files, now_ms)
    files.fill(0)
    asyncio.run(passes.go_on())
    assert counts.verification_passes == 1
    now_ms[0] += INTERVAL_MS
    asyncio.run(passes.go_on())
    assert counts.verification_passes == 2


def test_a_pass_that_began_in_the_future_does_not_keep_the_next_one_waiting() -> None:
    """The clock was a day ahead, and was set right."""
    now_ms = [90_000_000]
    passes, counts = verification(MemoryFiles(), now_ms)
    asyncio.run(passes.go_on())
    now_ms[0] -= 86_400_000
    asyncio.run(passes.go_on())
    assert counts.verification_passes == 2


def test_a_segment_without_records_costs_no_turn_of_a_worker() -> None:
    """A broker has thousands of logs that nobody has written to yet."""
    passes, _ = verification(MemoryFiles(), [10_000])
    segment: Any = SimpleNamespace(size_bytes=0, base_offset=0, path=Path("/data/a-0/0.log"))
    segments = SimpleNamespace(first=segment, higher=lambda offset: None)
    partition: Any = SimpleNamespace(offline=None, log=SimpleNamespace(segments=segments))
    asyncio.run(passes._verify(partition))  # a worker would ask for more than there is here
